/* readlink and realpath: links from the table, and /proc's links into the store shown as links to the
 * originals. */
#include "wrap.h"

#include <errno.h>

#include "sys.h"

#define DELETED " (deleted)"

/* The path in `out` without the mark that /proc puts behind an evicted copy's name; its length. */
static size_t unmarked(char *path, size_t bytes)
{
	size_t mark = sizeof DELETED - 1;
	uint64_t state;
	if (bytes > mark && memcmp(path + bytes - mark, DELETED, mark) == 0 && !hw_find(path, bytes, &state))
		bytes -= mark;
	path[bytes] = 0;
	return bytes;
}

static bool is_prefix(const char *prefix, const char *path)
{
	while (*prefix && *prefix == *path)
		prefix++, path++;
	return !*prefix;
}

/* The link's target as the original's path, if it lies in the store; its length or 0. */
static __attribute__((noinline)) size_t read_into_store(int dirfd, const char *path, char out[HW_PATH_MAX])
{
	char target[2 * HW_PATH_MAX];
	long bytes = hw_sys(__NR_readlinkat, dirfd, path, target, sizeof target - 1);
	if (bytes <= 0)
		return 0;
	target[bytes] = 0;
	const char *original = hw_strip_store(target);
	size_t length = original ? strlen(original) : 0;
	if (length == 0 || length >= HW_PATH_MAX)
		return 0;
	memcpy(out, original, length + 1);
	return unmarked(out, length);
}

size_t hw_link_into_store(int dirfd, const char *path, char out[HW_PATH_MAX])
{
	if (!hw_attached() || !is_address(path) || !(is_prefix("/proc/", path) || is_prefix("/dev/fd/", path)))
		return 0;
	return read_into_store(dirfd, path, out);
}

static ssize_t serve_readlink(struct hw_namespace *ns, int dirfd, const char *path, char *buffer, size_t size)
{
	struct hw_found found;
	if (size == 0 || size > SSIZE_MAX || !is_address(buffer))
		return UNSERVED;
	switch (hw_resolve(dirfd, path, HW_WANT_ATTR | HW_WANT_NO_FOLLOW, &found)) {
	case HW_FAILS:
		return fail(ns, found.error);
	case HW_KNOWN:
		break;
	default:
		return UNSERVED;
	}
	if (HW_KIND(found.state) != HW_LINK)
		return fail(ns, EINVAL);
	size_t bytes;
	const char *target = hw_link_target(found.record, &bytes);
	if (!target)
		return UNSERVED;
	bytes = bytes < size ? bytes : size;
	memcpy(buffer, target, bytes);
	return (ssize_t)bytes;
}

static __attribute__((noinline)) ssize_t show(ssize_t result, int dirfd, const char *path, char *buffer, size_t size)
{
	char original[HW_PATH_MAX];
	size_t bytes = read_into_store(dirfd, path, original);
	if (bytes == 0)
		return result;
	bytes = bytes < size ? bytes : size;
	memcpy(buffer, original, bytes);
	return (ssize_t)bytes;
}

/* The original's result, or the original's path if it shows the store's. What the buffer cut off may
 * hold all of the original's path, so the link is read again. */
static ssize_t shown(ssize_t result, int dirfd, const char *path, char *buffer, size_t size)
{
	size_t bytes;
	if (result <= 0 || !hw_attached())
		return result;
	const char *prefix = hw_store_prefix(&bytes);
	size_t seen = (size_t)result < bytes ? (size_t)result : bytes;
	return bytes > 0 && memcmp(buffer, prefix, seen) == 0 ? show(result, dirfd, path, buffer, size) : result;
}

WRAP(ssize_t, readlink, (const char *path, char *buffer, size_t size), (path, buffer, size))
{
	ssize_t result = serve_readlink(ns, AT_FDCWD, path, buffer, size);
	return result != UNSERVED ? result : shown(REAL(readlink)(path, buffer, size), AT_FDCWD, path, buffer, size);
}

WRAP(ssize_t, readlinkat, (int dirfd, const char *path, char *buffer, size_t size), (dirfd, path, buffer, size))
{
	ssize_t result = serve_readlink(ns, dirfd, path, buffer, size);
	return result != UNSERVED ? result : shown(REAL(readlinkat)(dirfd, path, buffer, size), dirfd, path, buffer, size);
}

/* The fortified forms abort if the buffer is smaller than the size. */
WRAP(ssize_t, __readlink_chk, (const char *path, char *buffer, size_t size, size_t room), (path, buffer, size, room))
{
	ssize_t result = size > room ? UNSERVED : serve_readlink(ns, AT_FDCWD, path, buffer, size);
	return result != UNSERVED ? result
				  : shown(REAL(__readlink_chk)(path, buffer, size, room), AT_FDCWD, path, buffer, size);
}

WRAP(ssize_t, __readlinkat_chk, (int dirfd, const char *path, char *buffer, size_t size, size_t room),
	(dirfd, path, buffer, size, room))
{
	ssize_t result = size > room ? UNSERVED : serve_readlink(ns, dirfd, path, buffer, size);
	return result != UNSERVED
		       ? result
		       : shown(REAL(__readlinkat_chk)(dirfd, path, buffer, size, room), dirfd, path, buffer, size);
}

typedef char *duplicates(const char *);

/* Memory comes from libc's strdup, which allocates as realpath does: with the program's own malloc if
 * it has one. */
static char *serve_realpath(struct hw_namespace *ns, const char *path, char *resolved)
{
	struct hw_found found;
	duplicates *duplicate = REAL_AS(duplicates *, strdup);
	switch (hw_resolve(AT_FDCWD, path, HW_WANT_ATTR, &found)) {
	case HW_FAILS:
		/* On failure the caller's buffer gets the part that could not be resolved. */
		if (resolved)
			return UNSERVED_POINTER;
		fail(ns, found.error);
		return NULL;
	case HW_KNOWN:
		break;
	default:
		return UNSERVED_POINTER;
	}
	if (!resolved)
		return duplicate ? duplicate(found.path) : UNSERVED_POINTER;
	memcpy(resolved, found.path, found.path_bytes + 1);
	return resolved;
}

/* realpath of one of /proc's links may lead into the store. */
static char *stripped(char *path)
{
	const char *original = path && hw_attached() ? hw_strip_store(path) : NULL;
	if (original)
		memmove(path, original, strlen(original) + 1);
	return path;
}

WRAP(char *, realpath, (const char *path, char *resolved), (path, resolved))
{
	char *result = serve_realpath(ns, path, resolved);
	return result != UNSERVED_POINTER ? result : stripped(REAL(realpath)(path, resolved));
}

/* Aborts if the caller's buffer is too small for any path. */
WRAP(char *, __realpath_chk, (const char *path, char *resolved, size_t room), (path, resolved, room))
{
	char *result = room < PATH_MAX ? UNSERVED_POINTER : serve_realpath(ns, path, resolved);
	return result != UNSERVED_POINTER ? result : stripped(REAL(__realpath_chk)(path, resolved, room));
}

WRAP(char *, canonicalize_file_name, (const char *path), (path))
{
	char *result = serve_realpath(ns, path, NULL);
	return result != UNSERVED_POINTER ? result : stripped(REAL(canonicalize_file_name)(path));
}
