/* Protects the engine's own descriptors from the program, and completes writes where the program closes or synchronises
 * a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../patterns/delegated.h"
#include "../patterns/incoming.h"
#include "change.h"
#include "real.h"
#include "transfer.h"

unsigned int hwio_descriptor_changes;

/* Waits for other ranks' writes to this file. False, with errno set: one of them has failed. */
static bool await_writes(int descriptor)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || fstat(descriptor, &status) != 0)
		return true;
	hwio_incoming_wait();
	int error = hwio_delegated_error(status.st_dev, status.st_ino);
	if (error)
		errno = error;
	return error == 0;
}

int hwio_close(int descriptor)
{
	hwio_descriptor_changed();
	if (!hwio_is_busy || hwio_depth > 0)
		return hwio_libc.close(descriptor);
	if (hwio_file_owns(descriptor)) {
		errno = EBADF;
		return -1;
	}
	bool is_good = await_writes(descriptor);
	int error = errno, result = hwio_libc.close(descriptor);
	if (!is_good)
		errno = error;
	return is_good ? result : -1;
}

int hwio_close_range(unsigned int first, unsigned int last, int flags)
{
	hwio_descriptor_changed();
	/* The engine's descriptors may be among them. */
	hwio_settle_everything();
	return hwio_libc.close_range(first, last, flags);
}

void hwio_closefrom(int first)
{
	hwio_descriptor_changed();
	hwio_settle_everything();
	hwio_libc.closefrom(first);
}

int hwio_fclose(FILE *stream)
{
	hwio_descriptor_changed();
	int descriptor = hwio_is_busy && hwio_depth == 0 ? fileno(stream) : -1;
	bool is_good = descriptor < 0 || (fflush(stream) == 0 && await_writes(descriptor));
	int error = errno, result = hwio_libc.fclose(stream);
	if (!is_good)
		errno = error;
	return is_good ? result : EOF;
}

static void before_fopen(const char *path, const char *mode)
{
	if (mode && (strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')))
		hwio_before_change_of(path, AT_FDCWD);
	else
		hwio_before_reading(path);
}

FILE *hwio_fopen(const char *path, const char *mode)
{
	before_fopen(path, mode);
	return hwio_libc.fopen(path, mode);
}

FILE *hwio_fopen64(const char *path, const char *mode)
{
	before_fopen(path, mode);
	return hwio_libc.fopen64(path, mode);
}

FILE *hwio_freopen(const char *path, const char *mode, FILE *stream)
{
	hwio_descriptor_changed();
	before_fopen(path, mode);
	return hwio_libc.freopen(path, mode, stream);
}

FILE *hwio_freopen64(const char *path, const char *mode, FILE *stream)
{
	hwio_descriptor_changed();
	before_fopen(path, mode);
	return hwio_libc.freopen64(path, mode, stream);
}

int hwio_dup(int descriptor)
{
	return hwio_libc.dup(descriptor);
}

/* The program may choose a descriptor number that the engine uses. */
static void vacate_descriptor(int descriptor)
{
	hwio_descriptor_changed();
	if (hwio_is_busy && hwio_depth == 0 && hwio_file_owns(descriptor)) {
		hwio_settle_everything();
		hwio_file_move(descriptor);
	}
}

int hwio_dup2(int from, int to)
{
	vacate_descriptor(to);
	return hwio_libc.dup2(from, to);
}

int hwio_dup3(int from, int to, int flags)
{
	vacate_descriptor(to);
	return hwio_libc.dup3(from, to, flags);
}

static void note_locks(int command)
{
	/* MPI's own locks don't count: it releases them before its call returns. */
	if (hwio_depth == 0 && (command == F_SETLK || command == F_SETLKW))
		hwio_file_stop_closing();
}

int hwio_fcntl(int descriptor, int command, void *argument)
{
	note_locks(command);
	return hwio_libc.fcntl(descriptor, command, argument);
}

int hwio_fcntl64(int descriptor, int command, void *argument)
{
	note_locks(command);
	return hwio_libc.fcntl64(descriptor, command, argument);
}

int hwio_lockf(int descriptor, int command, off_t bytes)
{
	note_locks(F_SETLK);
	return hwio_libc.lockf(descriptor, command, bytes);
}

int hwio_lockf64(int descriptor, int command, off64_t bytes)
{
	note_locks(F_SETLK);
	return hwio_libc.lockf64(descriptor, command, bytes);
}

int hwio_fsync(int descriptor)
{
	return await_writes(descriptor) ? hwio_libc.fsync(descriptor) : -1;
}

int hwio_fdatasync(int descriptor)
{
	return await_writes(descriptor) ? hwio_libc.fdatasync(descriptor) : -1;
}
