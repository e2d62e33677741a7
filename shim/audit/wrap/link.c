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

/* The original's path in a text of /proc's that names the store's copy, its length in *bytes; NULL if it does not. */
static const char *original_in(char *target, size_t *bytes)
{
	target[*bytes] = 0;
	const char *original = hw_strip_store(target);
	if (original)
		*bytes = unmarked(target + (original - target), strlen(original));
	return original && *bytes < HW_PATH_MAX ? original : NULL;
}

/* The link's target as the original's path, if it lies in the store; its length or 0. */
static __attribute__((noinline)) size_t read_into_store(int dirfd, const char *path, char out[HW_PATH_MAX])
{
	char target[HW_PATH_MAX];
	long bytes = hw_sys(__NR_readlinkat, dirfd, path, target, sizeof target - 1);
	size_t length = bytes > 0 ? (size_t)bytes : 0;
	const char *original = length ? original_in(target, &length) : NULL;
	if (!original)
		return 0;
	memcpy(out, original, length + 1);
	return length;
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

/* What the kernel says, read where the caller does not see it: the buffer may hold no more than is returned, and
 * what it cuts off may be all of the original's path. */
static __attribute__((noinline)) ssize_t show(struct hw_namespace *ns, int dirfd, const char *path, char *buffer,
	size_t size)
{
	char target[HW_PATH_MAX];
	long bytes = hw_sys(__NR_readlinkat, dirfd, path, target, sizeof target - 1);
	if (bytes < 0)
		return fail(ns, (int)-bytes);
	size_t given = (size_t)bytes;
	const char *original = original_in(target, &given);
	given = given < size ? given : size;
	memcpy(buffer, original ? original : target, given);
	return (ssize_t)given;
}

/* The link from the table, or as the kernel shows it; UNSERVED if the original must be called. */
static ssize_t read_link(struct hw_namespace *ns, int dirfd, const char *path, char *buffer, size_t size)
{
	ssize_t result = serve_readlink(ns, dirfd, path, buffer, size);
	if (result != UNSERVED || !hw_attached() || size == 0 || size > INT_MAX || !is_address(buffer))
		return result;
	return show(ns, dirfd, path, buffer, size);
}

WRAP(ssize_t, readlink, (const char *path, char *buffer, size_t size), (path, buffer, size))
{
	ssize_t result = read_link(ns, AT_FDCWD, path, buffer, size);
	return result != UNSERVED ? result : REAL(readlink)(path, buffer, size);
}

WRAP(ssize_t, readlinkat, (int dirfd, const char *path, char *buffer, size_t size), (dirfd, path, buffer, size))
{
	ssize_t result = read_link(ns, dirfd, path, buffer, size);
	return result != UNSERVED ? result : REAL(readlinkat)(dirfd, path, buffer, size);
}

/* The fortified forms abort if the buffer is smaller than the size. */
WRAP(ssize_t, __readlink_chk, (const char *path, char *buffer, size_t size, size_t room), (path, buffer, size, room))
{
	ssize_t result = size > room ? UNSERVED : read_link(ns, AT_FDCWD, path, buffer, size);
	return result != UNSERVED ? result : REAL(__readlink_chk)(path, buffer, size, room);
}

WRAP(ssize_t, __readlinkat_chk, (int dirfd, const char *path, char *buffer, size_t size, size_t room),
	(dirfd, path, buffer, size, room))
{
	ssize_t result = size > room ? UNSERVED : read_link(ns, dirfd, path, buffer, size);
	return result != UNSERVED ? result : REAL(__readlinkat_chk)(dirfd, path, buffer, size, room);
}

typedef char *duplicates(const char *);

/* Memory comes from libc's strdup, which allocates as realpath does: with the program's own malloc if
 * it has one. */
static char *serve_realpath(struct hw_namespace *ns, const char *path, char *resolved)
{
	struct hw_found found;
	duplicates *duplicate = REAL_AS(duplicates *, strdup);
	/* The same file may have another name by now. */
	if (hw_unaudited())
		return UNSERVED_POINTER;
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

/* The kernel's name of what lies on a disk that is mounted nowhere leads nowhere, the original's path does. */
static __attribute__((noinline)) char *serve_proc_link(struct hw_namespace *ns, const char *path, char *resolved)
{
	char original[HW_PATH_MAX];
	duplicates *duplicate = REAL_AS(duplicates *, strdup);
	if (!hw_attached() || !hw_store_can_vanish() || !hw_link_into_store(AT_FDCWD, path, original))
		return UNSERVED_POINTER;
	if (!resolved)
		return duplicate ? duplicate(original) : UNSERVED_POINTER;
	memcpy(resolved, original, strlen(original) + 1);
	return resolved;
}

static char *serve_real(struct hw_namespace *ns, const char *path, char *resolved)
{
	char *result = serve_realpath(ns, path, resolved);
	return result != UNSERVED_POINTER ? result : serve_proc_link(ns, path, resolved);
}

typedef char *resolves(const char *path, char *resolved);

/* realpath of one of /proc's links may lead into the store. libc's own buffer is another than the caller's, which
 * gets what is returned; if that is nothing, the part that could not be resolved, if libc tells it. */
static __attribute__((noinline)) char *call_realpath(resolves *real, const char *path, char *resolved)
{
	char room[PATH_MAX];
	room[0] = 0;
	char *result = real(path, room);
	const char *original = result ? hw_strip_store(room) : NULL;
	if (result || room[0]) {
		const char *given = original ? original : room;
		memcpy(resolved, given, strlen(given) + 1);
	}
	return result ? resolved : NULL;
}

/* A path that libc has allocated. */
static char *stripped(char *path)
{
	const char *original = path && hw_attached() ? hw_strip_store(path) : NULL;
	if (original)
		memmove(path, original, strlen(original) + 1);
	return path;
}

static char *resolve_path(struct hw_namespace *ns, resolves *real, const char *path, char *resolved)
{
	char *result = serve_real(ns, path, resolved);
	if (result != UNSERVED_POINTER)
		return result;
	if (!resolved)
		return stripped(real(path, NULL));
	return hw_attached() ? call_realpath(real, path, resolved) : real(path, resolved);
}

WRAP(char *, realpath, (const char *path, char *resolved), (path, resolved))
{
	return resolve_path(ns, REAL(realpath), path, resolved);
}

/* Aborts if the caller's buffer is too small for any path. */
WRAP(char *, __realpath_chk, (const char *path, char *resolved, size_t room), (path, resolved, room))
{
	if (room < PATH_MAX)
		return REAL(__realpath_chk)(path, resolved, room);
	return resolve_path(ns, REAL(realpath), path, resolved);
}

WRAP(char *, canonicalize_file_name, (const char *path), (path))
{
	char *result = serve_real(ns, path, NULL);
	return result != UNSERVED_POINTER ? result : stripped(REAL(canonicalize_file_name)(path));
}
