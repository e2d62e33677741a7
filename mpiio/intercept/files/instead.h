/* Deferred reads and delegated writes, for all calls that read or write files. */
#ifndef HWIO_INSTEAD_H
#define HWIO_INSTEAD_H

#include "base/engine.h"
#include "base/left.h"

/* Stands for the descriptor's own position. */
#define HWIO_OWN_POSITION (-1)

/* Counts calls that may assign a descriptor's number to another file. */
extern unsigned int hwio_descriptor_changes;
void hwio_descriptor_changed(void);

/* Defers a read. `caller` is the return address of the program's call, NULL if it isn't known. False: nothing was done,
 * the original has to be called. */
bool hwio_read_instead(int descriptor, void *memory, size_t bytes, off_t offset, const void *caller, ssize_t *result);
/* Why the last read of this thread was not deferred. */
extern __thread enum hwio_left hwio_read_left __attribute__((tls_model("initial-exec")));
/* Has the owners of the data write it. False: the memory was filled, and the original has to be called. */
bool hwio_write_instead(int descriptor, const void *memory, size_t bytes, off_t offset, ssize_t *result);
/* Records that this memory was filled from this offset, as a stream does from its buffer beside a deferred read. */
void hwio_read_recorded(int descriptor, void *memory, size_t bytes, off_t offset);
/* Records a read that was carried out, for --io observe. */
void hwio_read_observed(int descriptor, void *memory, ssize_t bytes, off_t offset);

#endif
