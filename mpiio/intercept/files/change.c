/* All of this process's calls that change files pass here. */
#include "intercept/files/change.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "memory/deferred.h"
#include "transfer/delegated.h"
#include "transfer/incoming.h"
#include "transfer/outstanding.h"

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

static bool prepare_change(int descriptor, off_t low, off_t high, bool is_delegated)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || !hwio_status_untimed(descriptor, NULL, &status))
		return false;
	int saved = errno;
	uint64_t device = status.st_dev, inode = status.st_ino, from = (uint64_t)low, to = (uint64_t)high;
	bool is_any = hwio_incoming_is_writing();
	bool overlaps = is_any && hwio_delegated_is_awaited(device, inode, from, to);
	/* The reader of this write may rely on earlier writes. */
	if (overlaps || (is_any && hwio_delegated_elsewhere(device, inode)) ||
		(is_any && !is_delegated && hwio_delegated_overlaps(device, inode, from, to)))
		hwio_incoming_wait();
	hwio_before_access(&status, low, high);
	if (S_ISREG(status.st_mode))
		change(&status, low, high);
	errno = saved;
	return overlaps;
}

void hwio_before_change(int descriptor, off_t low, off_t high)
{
	prepare_change(descriptor, low, high, false);
}

bool hwio_before_delegating(int descriptor, off_t low, off_t high)
{
	return prepare_change(descriptor, low, high, true);
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

void hwio_complete_writes(void)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_incoming_wait();
	errno = saved;
}

void hwio_before_reading(const char *path)
{
	if (hwio_is_busy && hwio_depth == 0)
		hwio_kernel_uses(path, PATH_MAX);
	hwio_complete_writes();
}

void hwio_after_change(int descriptor)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_file_refresh(descriptor);
	errno = saved;
}

void hwio_settle_for_others(void)
{
	if (!hwio_is_busy || hwio_depth > 0 || hwio_is_copy())
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
	hwio_deferred_fill_all();
	errno = saved;
}

void hwio_before_open(int directory, const char *path, int flags)
{
	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
		hwio_before_change_of(path, directory);
	else
		hwio_before_reading(path);
}

void hwio_before_removal(const char *path, int directory)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || !path)
		return;
	int saved = errno;
	hwio_kernel_uses(path, PATH_MAX);
	hwio_incoming_wait();
	bool is_known = fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
	if (is_known && S_ISDIR(status.st_mode)) {
		hwio_settle_everything();
	} else if (is_known && S_ISREG(status.st_mode)) {
		struct hwio_file *file = hwio_file_known(status.st_dev, status.st_ino);
		if (file) {
			hwio_outstanding_detach(file, false);
			hwio_file_forget_path(&status);
			hwio_file_release(file);
		}
	}
	errno = saved;
}
