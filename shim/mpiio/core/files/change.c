/* All of this process's calls that change files pass here. */
#include "change.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../generated-calls.h"
#include "../memory/deferred.h"
#include "../patterns/delegated.h"
#include "../patterns/incoming.h"
#include "../patterns/outstanding.h"
#include "real.h"

static void change(const struct stat *status, off_t low, off_t high)
{
	struct hwio_file *file = hwio_file_known(status->st_dev, status->st_ino);
	if (file) {
		hwio_outstanding_detach(file, true);
		hwio_deferred_fill_file(file, low, high);
		hwio_enter();
		/* Opening it for writing would wait for the release of a lease that deferred reads need. */
		if (low == 0 && high == INT64_MAX)
			hwio_file_unlease(file);
		hwio_file_release(file);
		hwio_leave();
	}
}

void hwio_before_access(const struct stat *status, off_t low, off_t high)
{
	if (S_ISREG(status->st_mode) && status->st_size == 0 && low > 0)
		hwio_use_in((void *)(uintptr_t)low, (size_t)(high - low));
}

void hwio_before_change(int descriptor, off_t low, off_t high)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || fstat(descriptor, &status) != 0)
		return;
	int saved = errno;
	/* The reader of this write may rely on earlier writes. */
	if (hwio_incoming_is_writing() &&
		(hwio_delegated_elsewhere(status.st_dev, status.st_ino) ||
			hwio_delegated_overlaps(status.st_dev, status.st_ino, (uint64_t)low, (uint64_t)high)))
		hwio_incoming_wait();
	hwio_before_access(&status, low, high);
	if (S_ISREG(status.st_mode))
		change(&status, low, high);
	errno = saved;
}

void hwio_before_change_of(const char *path, int directory)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || !path)
		return;
	int saved = errno;
	hwio_kernel_uses(path, PATH_MAX);
	if (hwio_incoming_is_writing())
		hwio_incoming_wait();
	if (fstatat(directory, path, &status, 0) == 0 && S_ISREG(status.st_mode))
		change(&status, 0, INT64_MAX);
	errno = saved;
}

void hwio_before_reading(const char *path)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_kernel_uses(path, PATH_MAX);
	hwio_incoming_wait();
	errno = saved;
}

void hwio_after_change(int descriptor)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
		hwio_file_refresh(&status);
	errno = saved;
}

void hwio_settle_for_others(void)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_incoming_fetch_all();
	hwio_incoming_wait();
	hwio_outstanding_detach(NULL, true);
	errno = saved;
}

void hwio_settle_everything(void)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_settle_for_others();
	hwio_incoming_fetch(0, UINTPTR_MAX);
	hwio_deferred_fill_all();
	errno = saved;
}

#define OPENS(name, parameters, arguments, directory) \
	int hwio_##name parameters \
	{ \
		if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) \
			hwio_before_change_of(path, directory); \
		else \
			hwio_before_reading(path); \
		return hwio_libc.name arguments; \
	}

OPENS(open, (const char *path, int flags, mode_t mode), (path, flags, mode), AT_FDCWD)
OPENS(open64, (const char *path, int flags, mode_t mode), (path, flags, mode), AT_FDCWD)
OPENS(openat, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode), at)
OPENS(openat64, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode), at)
OPENS(__open_2, (const char *path, int flags), (path, flags), AT_FDCWD)
OPENS(__open64_2, (const char *path, int flags), (path, flags), AT_FDCWD)
OPENS(__openat_2, (int at, const char *path, int flags), (at, path, flags), at)
OPENS(__openat64_2, (int at, const char *path, int flags), (at, path, flags), at)

/* Calls that change the file of a path. */
#define CHANGES(result, name, parameters, arguments, path, directory) \
	result hwio_##name parameters \
	{ \
		hwio_before_change_of(path, directory); \
		return hwio_libc.name arguments; \
	}

CHANGES(int, creat, (const char *path, mode_t mode), (path, mode), path, AT_FDCWD)
CHANGES(int, creat64, (const char *path, mode_t mode), (path, mode), path, AT_FDCWD)
CHANGES(int, truncate, (const char *path, off_t bytes), (path, bytes), path, AT_FDCWD)
CHANGES(int, truncate64, (const char *path, off64_t bytes), (path, bytes), path, AT_FDCWD)

/* Other processes can't open a removed or replaced file any more; this process still has it open. */
static void before_removal(const char *path, int directory)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || !path)
		return;
	int saved = errno;
	hwio_kernel_uses(path, PATH_MAX);
	hwio_incoming_wait();
	if (fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode)) {
		struct hwio_file *file = hwio_file_known(status.st_dev, status.st_ino);
		if (file) {
			hwio_outstanding_detach(file, false);
			hwio_file_forget_path(&status);
			hwio_enter();
			hwio_file_release(file);
			hwio_leave();
		}
	}
	errno = saved;
}

#define REMOVES(name, parameters, arguments, first, first_at, second, second_at) \
	int hwio_##name parameters \
	{ \
		before_removal(first, first_at); \
		before_removal(second, second_at); \
		return hwio_libc.name arguments; \
	}

REMOVES(rename, (const char *from, const char *to), (from, to), from, AT_FDCWD, to, AT_FDCWD)
REMOVES(renameat, (int at, const char *from, int to_at, const char *to), (at, from, to_at, to), from, at, to, to_at)
REMOVES(renameat2, (int at, const char *from, int to_at, const char *to, unsigned int flags),
	(at, from, to_at, to, flags), from, at, to, to_at)
REMOVES(unlink, (const char *path), (path), path, AT_FDCWD, NULL, 0)
REMOVES(unlinkat, (int at, const char *path, int flags), (at, path, flags), path, at, NULL, 0)

/* Calls that change a descriptor's file from an offset on. */
#define RESIZES(name, offset) \
	int hwio_##name(int descriptor, offset bytes) \
	{ \
		hwio_before_change(descriptor, bytes, INT64_MAX); \
		int result = hwio_libc.name(descriptor, bytes); \
		hwio_after_change(descriptor); \
		return result; \
	}

RESIZES(ftruncate, off_t)
RESIZES(ftruncate64, off64_t)

ssize_t hwio_copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t bytes,
	unsigned int flags)
{
	hwio_before_change(to, 0, INT64_MAX);
	ssize_t result = hwio_libc.copy_file_range(from, from_offset, to, to_offset, bytes, flags);
	hwio_after_change(to);
	return result;
}

ssize_t hwio_sendfile(int to, int from, off_t *offset, size_t bytes)
{
	hwio_before_change(to, 0, INT64_MAX);
	ssize_t result = hwio_libc.sendfile(to, from, offset, bytes);
	hwio_after_change(to);
	return result;
}

ssize_t hwio_sendfile64(int to, int from, off64_t *offset, size_t bytes)
{
	hwio_before_change(to, 0, INT64_MAX);
	ssize_t result = hwio_libc.sendfile64(to, from, offset, bytes);
	hwio_after_change(to);
	return result;
}

ssize_t hwio_splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t bytes, unsigned int flags)
{
	hwio_before_change(to, 0, INT64_MAX);
	ssize_t result = hwio_libc.splice(from, from_offset, to, to_offset, bytes, flags);
	hwio_after_change(to);
	return result;
}

#define ALLOCATES(name, parameters, arguments) \
	int hwio_##name parameters \
	{ \
		hwio_before_change(descriptor, 0, INT64_MAX); \
		int result = hwio_libc.name arguments; \
		hwio_after_change(descriptor); \
		return result; \
	}

ALLOCATES(fallocate, (int descriptor, int mode, off_t offset, off_t bytes), (descriptor, mode, offset, bytes))
ALLOCATES(fallocate64, (int descriptor, int mode, off64_t offset, off64_t bytes), (descriptor, mode, offset, bytes))
ALLOCATES(posix_fallocate, (int descriptor, off_t offset, off_t bytes), (descriptor, offset, bytes))
ALLOCATES(posix_fallocate64, (int descriptor, off64_t offset, off64_t bytes), (descriptor, offset, bytes))
