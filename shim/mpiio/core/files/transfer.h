/* Reads and writes of files, however the program calls them. */
#ifndef HWIO_TRANSFER_H
#define HWIO_TRANSFER_H

#include "../engine.h"
#include "../left.h"

/* For the descriptor's own position. */
#define HWIO_OWN_POSITION (-1)

/* Counts what may give a descriptor's number to another file. */
extern unsigned int hwio_descriptor_changes;

static inline void hwio_descriptor_changed(void)
{
	__atomic_fetch_add(&hwio_descriptor_changes, 1, __ATOMIC_RELAXED);
}

/*
 * Puts a read off. `caller` is what the program's call returns to, NULL if that isn't known. False: nothing was
 * done, the original is to be called.
 */
bool hwio_read_instead(int descriptor, void *memory, size_t bytes, off_t offset, const void *caller, ssize_t *result);
/* Why it did nothing the last time, in this thread. */
extern __thread enum hwio_left hwio_read_left __attribute__((tls_model("initial-exec")));
/* Has the owners of the data write it. False: the original is to be called; the memory is filled. */
bool hwio_write_instead(int descriptor, const void *memory, size_t bytes, off_t offset, ssize_t *result);
/* Records that this memory was filled from there, as a stream does from its buffer beside a deferred read. */
void hwio_read_recorded(int descriptor, void *memory, size_t bytes, off_t offset);
/* Notes a read that was carried out, for --io observe. */
void hwio_read_observed(int descriptor, void *memory, ssize_t bytes, off_t offset);

#endif
