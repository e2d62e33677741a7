/* Calls by which wrappers inform the engine before they call the original. The generated ones use buffer_effects.h;
 * those written by hand use this header, too. */
#ifndef HWIO_GENERATED_CALLS_H
#define HWIO_GENERATED_CALLS_H

#include "base/engine.h"
#include "buffer_effects.h"

/* Like hwio_communicates, for a send, in which this rank still answers requests. */
void hwio_sends(void);
/* For memory of unknown size: all records from its allocation on. */
void hwio_in_all(const void *buffer);
struct hwio_layout;
/* All of the buffer is overwritten: what is deferred in it is discarded. */
void hwio_out(void *buffer, MPI_Count count, MPI_Datatype type);
/* The layout is overwritten by a message. The rest of partly overwritten pages is filled on access only. Until then they
 * are protected, so MPI must be admitted to them (pages.h): before this call, or all blocks would be opened one by one. */
void hwio_out_received(const struct hwio_layout *layout);
/* The same by address, for calls that aren't MPI's. */
void hwio_use_in(const void *memory, size_t bytes);
void hwio_use_out(void *memory, size_t bytes);
/* Removes the records of this memory, which is filled already. */
void hwio_forget_records(void *memory, size_t bytes);

#endif
