/* What wrappers tell the engine before the original is called: the generated ones by buffer_effects.h, those by
 * hand also this. */
#ifndef HWIO_GENERATED_CALLS_H
#define HWIO_GENERATED_CALLS_H

#include "engine.h"
#include "buffer_effects.h"

/* Like hwio_communicates, for a send, in which this rank still answers requests. */
void hwio_sends(void);
/* Memory of an unknown size: all that is recorded from its allocation on. */
void hwio_in_all(const void *buffer);
struct hwio_layout;
/* Overwritten by what has arrived, which must be admitted to pages that stay protected. */
void hwio_out_received(const struct hwio_layout *layout);
/* The same by address, for what isn't MPI. */
void hwio_use_in(const void *memory, size_t bytes);
void hwio_use_out(void *memory, size_t bytes);
/* What is known of it is forgotten; it was filled before. */
void hwio_forget_records(void *memory, size_t bytes);
/* Before mmap: a file that is changed by stores is left alone from then on. */
void hwio_before_mapping(void *address, size_t bytes, int protection, int flags, int descriptor);
/* The memory is given back. */
void hwio_use_released(void *memory, size_t bytes);

#endif
