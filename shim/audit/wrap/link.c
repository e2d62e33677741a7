/* readlink and realpath: links from the table, and /proc's links into the store shown as links to the
 * originals. */
#include "wrap.h"

#include <errno.h>
#include <string.h>

#include "path.h"
#include "sys.h"

#define DELETED " (deleted)"

/* Copies the path into `out` without the mark that /proc appends to an evicted copy's name. Returns its length. */
static size_t unmarked(char *path, size_t bytes)
{
	size_t mark = sizeof DELETED - 1;
	uint64_t state;
	if (bytes > mark && memcmp(path + bytes - mark, DELETED, mark) == 0 && !hwa_find(path, bytes, &state))
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

/* Returns true if the path, a text of /proc's, names the store's copy, and replaces it by the original's path. */
static bool is_original_in(struct hwa_path *path)
{
	const char *original = hwa_strip_store(path->at);
	if (!original)
		return false;
	size_t before = (size_t)(original - path->at);
	path->at += before;
	path->room -= before;
	path->bytes = unmarked(path->at, path->bytes - before);
	return true;
}

bool hwa_is_proc(const char *path)
{
	return hwa_attached() && hwa_is_address(path) && (is_prefix("/proc/", path) || is_prefix("/dev/fd/", path));
}

bool hwa_link_into_store(int dirfd, const char *path, struct hwa_path *out)
{
	return hwa_is_proc(path) && hwa_read_link(dirfd, path, out) > 0 && is_original_in(out);
}

static __attribute__((noinline)) ssize_t serve_readlink(struct hwa_namespace *ns, int dirfd, const char *path,
	char *buffer, size_t size)
{
	HWA_FOUND(found);
	if (size == 0 || size > SSIZE_MAX || !hwa_is_address(buffer))
		return UNSERVED;
	int result = look_up(ns, dirfd, path, HW_WANT_ATTR | HW_WANT_NO_FOLLOW, &found);
	if (result != 0)
		return result;
	if (HW_KIND(found.state) != HW_LINK)
		return fail(ns, EINVAL);
	size_t bytes;
	const char *target = hwa_link_target(found.record, &bytes);
	if (!target)
		return UNSERVED;
	bytes = bytes < size ? bytes : size;
	memcpy(buffer, target, bytes);
	return (ssize_t)bytes;
}

/* Reads the link into a buffer of our own: the caller's may be too short, and the part that the kernel cuts off may
 * be all of the original's path. */
static __attribute__((noinline)) ssize_t show(struct hwa_namespace *ns, int dirfd, const char *path, char *buffer,
	size_t size)
{
	HWA_PATH(target);
	long bytes = hwa_read_link(dirfd, path, &target);
	if (bytes < 0)
		return fail(ns, (int)-bytes);
	is_original_in(&target);
	size_t given = target.bytes < size ? target.bytes : size;
	memcpy(buffer, target.at, given);
	return (ssize_t)given;
}

/* Reads the link from the table, or as the kernel shows it; UNSERVED if the original must be called. */
static ssize_t read_link(struct hwa_namespace *ns, int dirfd, const char *path, char *buffer, size_t size)
{
	ssize_t result = serve_readlink(ns, dirfd, path, buffer, size);
	if (result != UNSERVED || !hwa_in_use() || size == 0 || size > INT_MAX || !hwa_is_address(buffer))
		return result;
	return show(ns, dirfd, path, buffer, size);
}

/* Converts the original's result for a process that must make no system calls of the library's. */
static __attribute__((noinline)) ssize_t stripped_link(ssize_t result, char *buffer)
{
	if (result <= 0 || !hwa_attached())
		return result;
	HWA_PATH(target);
	if (!hwa_copy(&target, buffer, (size_t)result) || !is_original_in(&target))
		return result;
	memcpy(buffer, target.at, target.bytes);
	return (ssize_t)target.bytes;
}

long hwa_shown_by_number(struct hwa_namespace *ns, int dirfd, const char *path, char *buffer, size_t size)
{
	if (!hwa_in_use() || size == 0 || size > INT_MAX || !hwa_is_address(buffer))
		return UNCALLED;
	return show(ns, dirfd, path, buffer, size);
}

WRAP(ssize_t, readlink, (const char *path, char *buffer, size_t size), (path, buffer, size))
{
	ssize_t result = read_link(ns, AT_FDCWD, path, buffer, size);
	return result != UNSERVED ? result : stripped_link(REAL(readlink)(path, buffer, size), buffer);
}

WRAP(ssize_t, readlinkat, (int dirfd, const char *path, char *buffer, size_t size), (dirfd, path, buffer, size))
{
	ssize_t result = read_link(ns, dirfd, path, buffer, size);
	return result != UNSERVED ? result : stripped_link(REAL(readlinkat)(dirfd, path, buffer, size), buffer);
}

/* The fortified forms abort if the buffer is smaller than the size. */
SERVED(ssize_t, __readlink_chk, (const char *path, char *buffer, size_t size, size_t room), (path, buffer, size, room),
	size > room ? UNSERVED : read_link(ns, AT_FDCWD, path, buffer, size))
SERVED(ssize_t, __readlinkat_chk, (int dirfd, const char *path, char *buffer, size_t size, size_t room),
	(dirfd, path, buffer, size, room), size > room ? UNSERVED : read_link(ns, dirfd, path, buffer, size))

/* Copies the path into the caller's buffer, or into new memory. That is from libc's strdup, which allocates as realpath
 * does: with the program's own malloc if it has one. */
static char *give_path(struct hwa_namespace *ns, const struct hwa_path *path, char *resolved)
{
	if (!resolved)
		return LIBC(strdup) ? LIBC(strdup)(path->at) : UNSERVED_POINTER;
	return memcpy(resolved, path->at, path->bytes + 1);
}

static __attribute__((noinline)) char *serve_realpath(struct hwa_namespace *ns, const char *path, char *resolved)
{
	/* The file may have another name by now. */
	if (hwa_unaudited() || hwa_is_off())
		return UNSERVED_POINTER;
	HWA_FOUND(found);
	switch (hwa_resolve(AT_FDCWD, path, HW_WANT_ATTR, &found)) {
	case HWA_FAILS:
		/* On failure the caller's buffer gets the part that could not be resolved. */
		if (resolved)
			return UNSERVED_POINTER;
		fail(ns, found.error);
		return NULL;
	case HWA_KNOWN:
		break;
	default:
		return UNSERVED_POINTER;
	}
	return give_path(ns, &found.path, resolved);
}

/* The kernel's name of a file on a disk that is mounted nowhere leads nowhere; the original's path does. */
static __attribute__((noinline)) char *serve_proc_link(struct hwa_namespace *ns, const char *path, char *resolved)
{
	if (!hwa_is_proc(path) || !hwa_store_can_vanish())
		return UNSERVED_POINTER;
	HWA_PATH_APART(original);
	if (!hwa_link_into_store(AT_FDCWD, path, &original))
		return UNSERVED_POINTER;
	return give_path(ns, &original, resolved);
}

static char *serve_real(struct hwa_namespace *ns, const char *path, char *resolved)
{
	char *result = serve_realpath(ns, path, resolved);
	return result != UNSERVED_POINTER ? result : serve_proc_link(ns, path, resolved);
}

typedef char *resolves(const char *path, char *resolved);

/* realpath of one of /proc's links may lead into the store. libc gets another buffer than the caller's. On success the
 * caller's buffer gets the result, on failure the part that could not be resolved, if libc provides it. */
static __attribute__((noinline)) char *call_realpath(resolves *real, const char *path, char *resolved)
{
	HWA_PATH_APART(room);
	if (!room.apart)
		return real(path, resolved);
	char *result = real(path, room.at);
	const char *original = result ? hwa_strip_store(room.at) : NULL;
	if (result || *room.at) {
		const char *given = original ? original : room.at;
		memcpy(resolved, given, strlen(given) + 1);
	}
	return result ? resolved : NULL;
}

static char *resolve_path(struct hwa_namespace *ns, resolves *real, const char *path, char *resolved)
{
	char *result = serve_real(ns, path, resolved);
	if (result != UNSERVED_POINTER)
		return result;
	if (!resolved)
		return hwa_strip_in_place(real(path, NULL));
	return hwa_attached() ? call_realpath(real, path, resolved) : real(path, resolved);
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
	return result != UNSERVED_POINTER ? result : hwa_strip_in_place(REAL(canonicalize_file_name)(path));
}
