/* Reads that the program considers done: their pages are protected, and filled on access. Before a range is read,
 * overwritten or released, these functions must be called. */
#ifndef HWIO_DEFERRED_H
#define HWIO_DEFERRED_H

#include "memory/records.h"

/* Defers the read of these bytes, which the file has. False: nothing was done. */
bool hwio_defer(void *memory, size_t bytes, struct hwio_file *file, off_t offset, struct hwio_context *context);

/* Fills the range, which the kernel, MPI or the engine is about to read. */
void hwio_memory_in(const void *memory, size_t bytes);
/* Discards what is deferred in the range, which is about to be overwritten. */
void hwio_memory_out(void *memory, size_t bytes);
/* As hwio_memory_in, but pages may stay protected for another source; the reader must be admitted to them. */
void hwio_memory_in_loosely(const void *memory, size_t bytes);
/* Fills pages that are deferred in part: with several threads, only whole pages may be deferred. */
void hwio_deferred_fill_partial(void);
/* Adds a record that stands for the content of the program's memory. Called with the lock held; the caller settles the
 * pages. False: there is no room for it, and the caller reads the range, without the lock. */
bool hwio_deferred_add(const struct hwio_record *record);
/* Reads the range of a record that was not added, once other ranks have written it. */
void hwio_deferred_read(const struct hwio_record *record);
/* Returns true if any of these bytes is deferred. */
bool hwio_deferred_in(uintptr_t low, uintptr_t high);
/* Other ranks' writes to files in which reads may be deferred: whether any is under way, and waiting for all. */
struct hwio_writers {
	bool (*is_any)(void);
	int (*wait)(void);
};
void hwio_deferred_set_writers(const struct hwio_writers *writers);
/* Returns true if other ranks may still write what is deferred in the range. */
bool hwio_deferred_awaits_writes(uintptr_t low, uintptr_t high);
/* Waits for these writes, by messages. */
void hwio_deferred_await_writes(void);
/* Fills the page of this address, which was accessed, and some behind it. False: nothing is deferred there. */
bool hwio_deferred_touch(uintptr_t address);
/* Called after a read that had been deferred was carried out without a record: reports that the file has changed. A
 * failed read is SIGBUS. */
void hwio_deferred_check(struct hwio_file *file, bool is_read);
/* Completes deferred reads of this part of the file, which is about to change. */
void hwio_deferred_fill_file(const struct hwio_file *file, off_t low, off_t high);
/* The same by system calls alone: other ranks' writes are not waited for. */
void hwio_deferred_fill_now(const struct hwio_file *file, off_t low, off_t high);
void hwio_deferred_fill_all(void);
/* Reads the whole range into memory of any kind. False: an error or the file's end. */
bool hwio_read_whole(int descriptor, void *memory, size_t bytes, off_t offset);
/* Writes the whole range. False, with errno set: an error. */
bool hwio_write_whole(int descriptor, const void *memory, size_t bytes, off_t offset);

#endif
