/* Descriptors of the engine's own, which the program must not close, and calls that end what was written. */
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

unsigned int hw_descriptor_changes;

/* Waits for what other ranks write of this file. False, with errno set: something of it has failed. */
static bool is_written(int descriptor)
{
	struct stat status;
	if (!hw_is_busy || hw_depth > 0 || fstat(descriptor, &status) != 0)
		return true;
	hw_incoming_wait();
	int error = hw_delegated_error(status.st_dev, status.st_ino);
	if (error)
		errno = error;
	return error == 0;
}

int hw_close(int descriptor)
{
	hw_descriptor_changed();
	if (!hw_is_busy || hw_depth > 0)
		return hw_libc.close(descriptor);
	if (hw_file_owns(descriptor)) {
		errno = EBADF;
		return -1;
	}
	bool is_good = is_written(descriptor);
	int error = errno, result = hw_libc.close(descriptor);
	if (!is_good)
		errno = error;
	return is_good ? result : -1;
}

int hw_close_range(unsigned int first, unsigned int last, int flags)
{
	hw_descriptor_changed();
	/* The engine's descriptors may be among them. */
	hw_settle_everything();
	return hw_libc.close_range(first, last, flags);
}

void hw_closefrom(int first)
{
	hw_descriptor_changed();
	hw_settle_everything();
	hw_libc.closefrom(first);
}

int hw_fclose(FILE *stream)
{
	hw_descriptor_changed();
	int descriptor = hw_is_busy && hw_depth == 0 ? fileno(stream) : -1;
	bool is_good = descriptor < 0 || (fflush(stream) == 0 && is_written(descriptor));
	int error = errno, result = hw_libc.fclose(stream);
	if (!is_good)
		errno = error;
	return is_good ? result : EOF;
}

static void before_fopen(const char *path, const char *mode)
{
	if (mode && (strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')))
		hw_before_change_of(path, AT_FDCWD);
	else
		hw_before_reading(path);
}

FILE *hw_fopen(const char *path, const char *mode)
{
	before_fopen(path, mode);
	return hw_libc.fopen(path, mode);
}

FILE *hw_fopen64(const char *path, const char *mode)
{
	before_fopen(path, mode);
	return hw_libc.fopen64(path, mode);
}

FILE *hw_freopen(const char *path, const char *mode, FILE *stream)
{
	hw_descriptor_changed();
	before_fopen(path, mode);
	return hw_libc.freopen(path, mode, stream);
}

FILE *hw_freopen64(const char *path, const char *mode, FILE *stream)
{
	hw_descriptor_changed();
	before_fopen(path, mode);
	return hw_libc.freopen64(path, mode, stream);
}

int hw_dup(int descriptor)
{
	return hw_libc.dup(descriptor);
}

/* A number that the program has chosen may be one of the engine's. */
static void make_way(int descriptor)
{
	hw_descriptor_changed();
	if (hw_is_busy && hw_depth == 0 && hw_file_owns(descriptor)) {
		hw_settle_everything();
		hw_file_move(descriptor);
	}
}

int hw_dup2(int from, int to)
{
	make_way(to);
	return hw_libc.dup2(from, to);
}

int hw_dup3(int from, int to, int flags)
{
	make_way(to);
	return hw_libc.dup3(from, to, flags);
}

static void note_locks(int command)
{
	/* MPI locks parts of files only while it is at them. */
	if (hw_depth == 0 && (command == F_SETLK || command == F_SETLKW))
		hw_file_locks_are_used();
}

int hw_fcntl(int descriptor, int command, void *argument)
{
	note_locks(command);
	return hw_libc.fcntl(descriptor, command, argument);
}

int hw_fcntl64(int descriptor, int command, void *argument)
{
	note_locks(command);
	return hw_libc.fcntl64(descriptor, command, argument);
}

int hw_lockf(int descriptor, int command, off_t bytes)
{
	note_locks(F_SETLK);
	return hw_libc.lockf(descriptor, command, bytes);
}

int hw_lockf64(int descriptor, int command, off64_t bytes)
{
	note_locks(F_SETLK);
	return hw_libc.lockf64(descriptor, command, bytes);
}

int hw_fsync(int descriptor)
{
	return is_written(descriptor) ? hw_libc.fsync(descriptor) : -1;
}

int hw_fdatasync(int descriptor)
{
	return is_written(descriptor) ? hw_libc.fdatasync(descriptor) : -1;
}
