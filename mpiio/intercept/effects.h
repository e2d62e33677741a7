/* The functions that the tables in calls/ name, beside those of change.h and memory_map.h. All leave errno as it is. */
#ifndef HWIO_EFFECTS_H
#define HWIO_EFFECTS_H

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>

#include "intercept/files/change.h"
#include "intercept/files/instead.h"
#include "memory/memory_map.h"
#include "real.h"

void hwio_before_open(int directory, const char *path, int flags);
void hwio_before_fopen(const char *path, const char *mode);
void hwio_before_freopen(FILE *stream);
/* Other processes can't open a removed or replaced file any more, nor those of a directory; this process still has them
 * open. */
void hwio_before_removal(const char *path, int directory);
/* The program may choose a descriptor number that the engine uses. */
void hwio_vacate_descriptor(int descriptor);
/* From the first lock of a record on, no descriptor is closed. Another process may take a lock that is released, and see
 * what was written under it. */
void hwio_note_locks(int command);

/* The program sends memory, receives into it, or gives it to the kernel or a thread, which use it after the call. */
void hwio_before_output(const void *memory, size_t bytes);
void hwio_before_input(const void *memory, size_t bytes);
void hwio_before_output_pieces(const struct iovec *pieces, size_t count);
void hwio_before_input_pieces(const struct iovec *pieces, size_t count);
void hwio_before_read_vector(const struct iovec *pieces, int count);
void hwio_before_write_vector(int descriptor, const struct iovec *pieces, int count, off_t offset);
/* The request is a struct aiocb or aiocb64, the list one of pointers to them. */
void hwio_before_asynchronous(const void *request, bool is_write);
void hwio_before_list(const void *requests, int count);
void hwio_before_fork(void);
void hwio_after_fork(pid_t child);
/* The program is about to have another thread, or one that the C library makes to notify it. */
void hwio_before_thread(void);
void hwio_before_notification(const struct sigevent *event);

void hwio_before_realloc(void *memory);
/* From a writable shared mapping on, the file's reads are not deferred. */
void hwio_before_mapping(void *address, size_t bytes, int protection, int flags, int descriptor);
/* What is mapped for reading alone, or privately, may be scattered or sent. `caller` as for hwio_read_instead. */
void hwio_after_mapping(void *mapped, size_t bytes, int protection, int flags, int descriptor, off_t offset,
	const void *caller);
void hwio_before_advice(void *address, size_t bytes, int advice);
void hwio_before_protection(void *address, size_t bytes);
/* The kernel, or the C library, may use this memory from now on. */
void hwio_before_persistent(const void *address, size_t bytes);
/* The same of memory whose faults the program will handle itself (userfaultfd). */
void hwio_before_request(unsigned long request, void *argument);
/* The same of a stream's buffer: reads into it and writes from it are not intercepted. */
void hwio_before_buffer(void *buffer, size_t bytes);

void hwio_before_file_close(MPI_File file);
/* From now on, if `is_strange`, the file's positions count a view's elements, or its operations are atomic. */
void hwio_note_view(MPI_File file, bool is_strange);
void hwio_before_file_change(MPI_File file);
void hwio_after_file_change(MPI_File file);

#endif
