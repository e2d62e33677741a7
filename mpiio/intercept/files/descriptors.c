/* Protects the engine's own descriptors from the program, and completes writes where the program closes or synchronises
 * a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parsed.h"
#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "transfer/delegated.h"
#include "transfer/incoming.h"

unsigned int hwio_descriptor_changes;

void hwio_descriptor_changed(void)
{
	__atomic_fetch_add(&hwio_descriptor_changes, 1, __ATOMIC_RELAXED);
}

/* Waits for other ranks' writes to this file. False, with errno set: one of them has failed. */
static bool await_writes(int descriptor)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || !hwio_status_untimed(descriptor, NULL, &status))
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

int hwio_fclose(FILE *stream)
{
	hwio_descriptor_changed();
	hwio_parsed_closing(stream);
	int descriptor = hwio_is_busy && hwio_depth == 0 ? fileno(stream) : -1;
	bool is_good = descriptor < 0 || (fflush(stream) == 0 && await_writes(descriptor));
	int error = errno, result = hwio_libc.fclose(stream);
	if (!is_good)
		errno = error;
	return is_good ? result : EOF;
}

void hwio_before_fopen(const char *path, const char *mode)
{
	if (mode && (strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')))
		hwio_before_change_of(path, AT_FDCWD);
	else
		hwio_before_reading(path);
}

FILE *hwio_fopen(const char *path, const char *mode)
{
	hwio_before_fopen(path, mode);
	FILE *stream = hwio_libc.fopen(path, mode);
	int saved = errno;
	if (stream && hwio_depth == 0 && hwio_mode != HWIO_OFF && mode[0] == 'r' && !strchr(mode, '+'))
		hwio_parsed_opened(stream);
	errno = saved;
	return stream;
}

void hwio_before_freopen(FILE *stream)
{
	hwio_parsed_forget(stream);
	hwio_descriptor_changed();
}

void hwio_vacate_descriptor(int descriptor)
{
	hwio_descriptor_changed();
	if (hwio_is_busy && hwio_depth == 0 && hwio_file_owns(descriptor)) {
		hwio_settle_everything();
		hwio_file_move(descriptor);
	}
}

void hwio_note_locks(int command)
{
	/* MPI's own locks don't count: it releases them before its call returns. */
	if (hwio_depth > 0)
		return;
	bool is_of_process = command == F_SETLK || command == F_SETLKW;
	if (is_of_process)
		hwio_file_stop_closing();
	if (is_of_process || command == F_OFD_SETLK || command == F_OFD_SETLKW)
		hwio_complete_writes();
}

int hwio_fsync(int descriptor)
{
	return await_writes(descriptor) ? hwio_libc.fsync(descriptor) : -1;
}

int hwio_fdatasync(int descriptor)
{
	return await_writes(descriptor) ? hwio_libc.fdatasync(descriptor) : -1;
}
