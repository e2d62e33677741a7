/* inotify_add_watch: a reader of the store's copy is notified once the change is in the copy.
 *
 * The copy of a passthrough path follows its original, a moment later. A reader that waits for a change of the
 * original (tail -f) would read its descriptor before that, and wait for ever. The path need not be a passthrough
 * path yet, and the writer may not announce its change. A process that watches a path expects a change, so the path
 * becomes a passthrough path. */
#include "wrap.h"

#include <sys/inotify.h>

#include "sys.h"

/* Number of descriptors that are examined: a reader of few files has low ones. */
#define HELD_MAX 256

/* Returns a descriptor of this process that has the store's copy of the file at `path` open; or -1. */
static __attribute__((noinline)) int held(const char *path)
{
	struct stat watched, original;
	if (hwa_sys(__NR_newfstatat, AT_FDCWD, path, &watched, 0) < 0)
		return -1;
	for (int fd = 0; fd < HELD_MAX; fd++) {
		const struct hw_record *record = hwa_store_descriptor(fd);
		/* The record's device is the reader's node's, which may have another number for it. */
		if (record && record->attr.ino == watched.st_ino &&
			hwa_sys(__NR_newfstatat, AT_FDCWD, record->path, &original, 0) == 0 &&
			original.st_ino == watched.st_ino && original.st_dev == watched.st_dev)
			return fd;
	}
	return -1;
}

/* Only events about content: all others happen to the original alone. */
static __attribute__((noinline)) int serve_watch(struct hwa_namespace *ns, int instance, const char *path,
	uint32_t mask)
{
	char link[HWA_LINK_BYTES];
	if (!hwa_attached() || !hwa_is_address(path) || (mask & IN_ALL_EVENTS) != IN_MODIFY)
		return UNSERVED;
	int fd = held(path);
	if (fd < 0)
		return UNSERVED;
	const struct hw_record *record = hwa_store_descriptor(fd);
	if (record)
		hwa_announce_change(AT_FDCWD, record->path, 0);
	hwa_descriptor_link(fd, link);
	long watch = hwa_sys(__NR_inotify_add_watch, instance, link, mask & ~(uint32_t)IN_DONT_FOLLOW);
	return watch < 0 ? fail(ns, (int)-watch) : (int)watch;
}

SERVED(int, inotify_add_watch, (int instance, const char *path, uint32_t mask), (instance, path, mask),
	serve_watch(ns, instance, path, mask))
