/* Reads that the program considers done: their pages are protected, and filled on access. Before a range is read,
 * overwritten or released, these functions must be called. */
#ifndef HWIO_DEFERRED_H
#define HWIO_DEFERRED_H

#include "records.h"

/* Defers the read of these bytes, whose ends were checked against the file's. False: nothing was done. */
bool hwio_defer(void *memory, size_t bytes, struct hwio_file *file, off_t offset, struct hwio_context *context);

/* The range is about to be read by the kernel, by MPI or by the engine: it is filled. */
void hwio_memory_in(const void *memory, size_t bytes);
/* The range is about to be overwritten: what it would have held is given up. */
void hwio_memory_out(void *memory, size_t bytes);
/* The same for a receive into parts of the range. The rest of partly overwritten pages is filled on access only.
 * Until then they are protected, so MPI must be admitted to them (pages.h). */
void hwio_memory_out_loosely(void *memory, size_t bytes);
/* As hwio_memory_in, but pages may stay protected that something else owes bytes of, too: what reads them is
 * admitted. */
void hwio_memory_in_loosely(const void *memory, size_t bytes);
/* Fills pages that are deferred in part: beside threads, pages are deferred as a whole or not at all. */
void hwio_deferred_fill_partial(void);
/*
 * From now on the record stands for what the program would have in its memory; the caller settles the pages. With the
 * lock held.
 */
void hwio_deferred_add(const struct hwio_record *record);
/* Whether any of these bytes is still to be read. */
bool hwio_deferred_in(uintptr_t low, uintptr_t high);
/* A page of this address was touched. False: it is none of the engine's. */
bool hwio_deferred_touch(uintptr_t address);
/* The file is about to change in this part: what was to be read of it is read now. */
void hwio_deferred_fill_file(const struct hwio_file *file, off_t low, off_t high);
void hwio_deferred_fill_all(void);
/* Fills the range from the file into memory of any kind, as the program's read would have. False: an error or an
 * end. */
bool hwio_read_whole(int descriptor, void *memory, size_t bytes, off_t offset);

#endif
