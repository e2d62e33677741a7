/* Headwater's interface for programs: C (C99 or later) and C++, with no library to link.
 *
 * Each call does what the C library's of the same name does, with the same results and errno, from the node's memory
 * where the path is served, and from the file system elsewhere. Without a session it is the C library's call. All calls
 * may be used by several threads. Names that end in an underscore are not for programs. */
#ifndef HEADWATER_H
#define HEADWATER_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "headwater/calls.h"

#ifdef __cplusplus
extern "C" {
#elif defined(__STRICT_ANSI__)
/* The C library hides these from -std=c99. */
extern int lstat(const char *path, struct stat *out);
extern ssize_t readlink(const char *path, char *buffer, size_t bytes);
#endif

/* ---- whether calls are served ---- */

static inline const struct headwater_calls *headwater_calls_(void)
{
	int before = errno;
	const struct headwater_calls *calls = (const struct headwater_calls *)getauxval(HEADWATER_AUXV);

	errno = before;
	return calls;
}

/* Longer paths are not looked for in a mount. */
#define HEADWATER_PATH_BYTES_ 4096

static inline int headwater_has_attribute_(const char *path)
{
	return getxattr(path, HEADWATER_ATTRIBUTE, NULL, 0) >= 0;
}

/* Where the session has a mount with paths of its own (--via mount): writes the path below it, and returns 1. */
static inline int headwater_below_(const char *path, char below[HEADWATER_PATH_BYTES_])
{
	const char *mount = getenv("HEADWATER_MOUNT");
	size_t prefix, used, bytes;

	if (!mount || !path || !*path)
		return 0;
	prefix = used = strlen(mount);
	bytes = strlen(path);
	if (prefix >= HEADWATER_PATH_BYTES_ / 2 || strncmp(path, mount, prefix) == 0)
		return 0;
	memcpy(below, mount, prefix + 1);
	if (*path != '/') {
		if (!getcwd(below + prefix, HEADWATER_PATH_BYTES_ - prefix) ||
			strncmp(below + prefix, mount, prefix) == 0)
			return 0;
		used = strlen(below);
		below[used++] = '/';
	}
	if (bytes >= HEADWATER_PATH_BYTES_ - used)
		return 0;
	memcpy(below + used, path, bytes + 1);
	return 1;
}

/* The same, if the path's directory is served there: its names, and that others are absent, are the mount's to tell. */
static inline int headwater_serves_below_(const char *path, char below[HEADWATER_PATH_BYTES_])
{
	int before = errno, is_served = 0;
	char *name;

	if (headwater_below_(path, below) && (name = strrchr(below, '/')) != NULL) {
		*name = '\0';
		is_served = headwater_has_attribute_(below);
		*name = '/';
	}
	errno = before;
	return is_served;
}

/* Returns 1 if the file at this path is served from the node's memory, else 0. For NULL: if this process runs in a
 * session that serves it. */
static inline int headwater_is_served(const char *path)
{
	const struct headwater_calls *calls = headwater_calls_();
	char below[HEADWATER_PATH_BYTES_];
	int before = errno, is_served;

	if (calls)
		return calls->serves(path);
	if (!path)
		return getenv("HEADWATER_SESSION") != NULL && !getenv("HEADWATER_TABLE");
	is_served = headwater_has_attribute_(headwater_below_(path, below) ? below : path);
	errno = before;
	return is_served;
}

/* ---- switching ---- */

static inline int headwater_shift_(long by)
{
	const struct headwater_calls *calls = headwater_calls_();

	if (calls && calls->shift(by) != LONG_MIN)
		return 0;
	if (!calls && (by > 0 || !headwater_is_served(NULL)))
		return 0;
	errno = calls ? EAGAIN : EOPNOTSUPP;
	return -1;
}

/* Switches interception off for the calling thread. From here on its ordinary calls (open, fopen, stat, opendir, …)
 * use the file system: they see what is there at that moment. Other threads, libraries that are loaded, programs that
 * are executed, and the calls of this header are served as before. A child of fork inherits it. Returns 0 also without
 * a session, or -1 and errno: EOPNOTSUPP, if the kernel serves the files (--via namespace or mount), so that nothing
 * can be switched off; EAGAIN, if too many threads have done so (256). */
static inline int headwater_disable(void)
{
	return headwater_shift_(-1);
}

/* Undoes one headwater_disable. Calls of the two are counted for each thread; ordinary calls are intercepted unless
 * there were more of the latter. */
static inline int headwater_enable(void)
{
	return headwater_shift_(1);
}

/* Returns how often this thread has called headwater_enable more often than headwater_disable; 0 if nothing can be
 * switched. */
static inline long headwater_count_(void)
{
	const struct headwater_calls *calls = headwater_calls_();

	return calls ? calls->shift(0) : 0;
}

/* Lets this thread be served, and returns what headwater_end_ needs. In between its count is 0, which leaves nothing
 * behind in a thread that is cancelled. */
static inline long headwater_begin_(void)
{
	long count = headwater_count_();

	if (count < 0)
		headwater_shift_(-count);
	return count;
}

static inline void headwater_end_(long count)
{
	if (count < 0)
		headwater_shift_(count);
}

/* ---- calls ---- */

#ifdef __O_TMPFILE
#define HEADWATER_CREATES_(flags) (((flags)&O_CREAT) || ((flags)&__O_TMPFILE))
#else
#define HEADWATER_CREATES_(flags) ((flags)&O_CREAT)
#endif

/* Opens a file, as open(2) does. */
static inline int headwater_open(const char *path, int flags, ...)
{
	int is_read = (flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC) && !HEADWATER_CREATES_(flags), fd;
	char below[HEADWATER_PATH_BYTES_];
	mode_t mode = 0;
	long count;

	if (HEADWATER_CREATES_(flags)) {
		va_list rest;

		va_start(rest, flags);
		mode = va_arg(rest, mode_t);
		va_end(rest);
	}
	if (is_read && headwater_serves_below_(path, below))
		return open(below, flags);
	count = headwater_begin_();
	fd = open(path, flags, mode);
	headwater_end_(count);
	return fd;
}

/* Opens a stream, as fopen(3) does. */
static inline FILE *headwater_fopen(const char *path, const char *mode)
{
	char below[HEADWATER_PATH_BYTES_];
	FILE *file;
	long count;

	if (mode && *mode == 'r' && !strchr(mode, '+') && headwater_serves_below_(path, below))
		return fopen(below, mode);
	count = headwater_begin_();
	file = fopen(path, mode);
	headwater_end_(count);
	return file;
}

/* Gets a file's attributes, as stat(2) does. */
static inline int headwater_stat(const char *path, struct stat *out)
{
	char below[HEADWATER_PATH_BYTES_];
	long count;
	int result;

	if (headwater_serves_below_(path, below))
		return stat(below, out);
	count = headwater_begin_();
	result = stat(path, out);
	headwater_end_(count);
	return result;
}

/* Gets a file's or a link's own attributes, as lstat(2) does. */
static inline int headwater_lstat(const char *path, struct stat *out)
{
	char below[HEADWATER_PATH_BYTES_];
	long count;
	int result;

	/* The mount shows absolute links as relative ones. */
	if (headwater_serves_below_(path, below)) {
		result = lstat(below, out);
		if (result != 0 || !S_ISLNK(out->st_mode))
			return result;
	}
	count = headwater_begin_();
	result = lstat(path, out);
	headwater_end_(count);
	return result;
}

/* Gets where a link leads, as readlink(2) does. */
static inline ssize_t headwater_readlink(const char *path, char *buffer, size_t bytes)
{
	long count = headwater_begin_();
	ssize_t result = readlink(path, buffer, bytes);

	headwater_end_(count);
	return result;
}

#ifdef __cplusplus
}
#endif

#endif
