/* open, fopen and their relatives.
 *
 * A file that is only read is opened in the store. A directory is opened at its original path, so that the descriptor
 * is a real one. A file that may be written or created is announced first, then opened at its original path. */
#include "wrap.h"

#include <errno.h>
#include <stdio.h>

#include "sys.h"

static bool writes(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

static enum hwa_place place_of(const struct hwa_found *found)
{
	return found->state & HW_WHOLE ? HWA_IN_STORE : HWA_IN_MOUNT;
}

/* Opens the store's copy. Returns a descriptor or a negative error number. */
static int open_copy(struct hwa_found *found, int flags)
{
	const char *copy = hwa_copy_of(&found->path, place_of(found));
	if (!copy)
		return -ENAMETOOLONG;
	long fd = hwa_sys(__NR_openat, AT_FDCWD, copy, flags, 0);
	if (fd == -EINVAL && flags & O_DIRECT)
		fd = hwa_sys(__NR_openat, AT_FDCWD, copy, flags & ~O_DIRECT, 0);
	return (int)fd;
}

static __attribute__((noinline)) int serve_read(struct hwa_namespace *ns, int dirfd, const char *path, int flags)
{
	HWA_FOUND(found);
	unsigned want = HW_WANT_WHOLE | (flags & O_NOFOLLOW ? HW_WANT_NO_FOLLOW : 0);
	/* Twice, because the copy may be evicted between the look-up and the open. */
	for (int attempt = 0; attempt < 2; attempt++) {
		int result = look_up(ns, dirfd, path, want, &found);
		if (result != 0)
			return result;
		if (HW_KIND(found.state) == HW_LINK)
			return fail(ns, flags & O_DIRECTORY ? ENOTDIR : ELOOP);
		if (HW_KIND(found.state) != HW_FILE)
			return UNSERVED;
		if (flags & O_DIRECTORY)
			return fail(ns, ENOTDIR);
		int fd = open_copy(&found, flags);
		if (fd >= 0)
			return fd;
		if (fd != -ENOENT)
			break;
	}
	hwa_count(HWA_COUNT_FALLBACKS);
	return UNSERVED;
}

/* A descriptor's link names the store's copy, which is read-only. So the original is opened, if it is the file that
 * was copied. */
static int find_original(struct hwa_namespace *ns, int dirfd, const char *path, struct hwa_path *original)
{
	if (!hwa_link_into_store(dirfd, path, original))
		return UNSERVED;
	hwa_announce_change(AT_FDCWD, original->at, 0);
	return hwa_is_replaced(original->at) ? fail(ns, ESTALE) : 0;
}

static __attribute__((noinline)) int serve_reopen(struct hwa_namespace *ns, int dirfd, const char *path, int flags,
	mode_t mode)
{
	if (!hwa_is_proc(path))
		return UNSERVED;
	HWA_PATH_APART(original);
	int result = find_original(ns, dirfd, path, &original);
	if (result != 0)
		return result;
	long fd = hwa_sys(__NR_openat, AT_FDCWD, original.at, flags, mode);
	return fd < 0 ? fail(ns, (int)-fd) : (int)fd;
}

void hwa_note_opening(int dirfd, const char *path, int flags)
{
	/* O_PATH opens nothing, and a file without a name changes no directory. */
	if (!path || flags & O_PATH || !writes(flags) || (flags & O_TMPFILE) == O_TMPFILE)
		return;
	if (flags & O_CREAT && flags & O_EXCL)
		hwa_announce_change(dirfd, path, 0);
	else
		hwa_announce_content(dirfd, path);
}

static int serve_open(struct hwa_namespace *ns, int dirfd, const char *path, int flags, mode_t mode)
{
	if (!path || flags & O_PATH)
		return UNSERVED;
	/* Only a file's owner may use O_NOATIME. */
	if (!writes(flags))
		return flags & O_NOATIME ? UNSERVED : serve_read(ns, dirfd, path, flags);
	int result = serve_reopen(ns, dirfd, path, flags, mode);
	if (result == UNSERVED)
		hwa_note_opening(dirfd, path, flags);
	return result;
}

/* Without O_CREAT the mode is whatever the caller's register holds, and means nothing. */
#define WRAP_OPEN(name) \
	SERVED(int, name, (const char *path, int flags, mode_t mode), (path, flags, mode), \
		serve_open(ns, AT_FDCWD, path, flags, mode))
WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPEN(__open)
WRAP_OPEN(__open64)

#define WRAP_OPENAT(name) \
	SERVED(int, name, (int dirfd, const char *path, int flags, mode_t mode), (dirfd, path, flags, mode), \
		serve_open(ns, dirfd, path, flags, mode))
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

/* The fortified forms abort if the flags ask for a mode. */
#define NEEDS_MODE(flags) ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE)

#define WRAP_OPEN_2(name) \
	SERVED(int, name, (const char *path, int flags), (path, flags), \
		NEEDS_MODE(flags) ? UNSERVED : serve_open(ns, AT_FDCWD, path, flags, 0))
WRAP_OPEN_2(__open_2)
WRAP_OPEN_2(__open64_2)

#define WRAP_OPENAT_2(name) \
	SERVED(int, name, (int dirfd, const char *path, int flags), (dirfd, path, flags), \
		NEEDS_MODE(flags) ? UNSERVED : serve_open(ns, dirfd, path, flags, 0))
WRAP_OPENAT_2(__openat_2)
WRAP_OPENAT_2(__openat64_2)

#define WRAP_CREAT(name) \
	SERVED(int, name, (const char *path, mode_t mode), (path, mode), \
		serve_open(ns, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode))
WRAP_CREAT(creat)
WRAP_CREAT(creat64)

typedef FILE *opens_file(const char *path, const char *mode);

static bool mode_writes(const char *mode)
{
	if (mode[0] != 'r')
		return true;
	/* Behind a comma is the name of a character set. */
	for (; *mode && *mode != ','; mode++) {
		if (*mode == '+')
			return true;
	}
	return false;
}

static __attribute__((noinline)) FILE *serve_fopen_read(struct hwa_namespace *ns, opens_file *real, const char *path,
	const char *mode)
{
	HWA_FOUND(found);
	for (int attempt = 0; attempt < 2; attempt++) {
		int result = look_up(ns, AT_FDCWD, path, HW_WANT_WHOLE, &found);
		if (result != 0)
			return pointer_for(result);
		if (HW_KIND(found.state) != HW_FILE)
			return UNSERVED_POINTER;
		int *error = ns->errno_location(), before = *error;
		const char *copy = hwa_copy_of(&found.path, place_of(&found));
		FILE *file = copy ? real(copy, mode) : NULL;
		if (file)
			return file;
		bool evicted = *error == ENOENT;
		*error = before;
		if (!evicted)
			break;
	}
	hwa_count(HWA_COUNT_FALLBACKS);
	return UNSERVED_POINTER;
}

static __attribute__((noinline)) FILE *serve_fopen_reopen(struct hwa_namespace *ns, opens_file *real, const char *path,
	const char *mode)
{
	if (!hwa_is_proc(path))
		return UNSERVED_POINTER;
	HWA_PATH_APART(original);
	int result = find_original(ns, AT_FDCWD, path, &original);
	return result == 0 ? real(original.at, mode) : pointer_for(result);
}

static FILE *serve_fopen(struct hwa_namespace *ns, opens_file *real, const char *path, const char *mode)
{
	if (!path || !mode)
		return UNSERVED_POINTER;
	if (!mode_writes(mode))
		return serve_fopen_read(ns, real, path, mode);
	FILE *file = serve_fopen_reopen(ns, real, path, mode);
	if (file == UNSERVED_POINTER)
		hwa_announce_content(AT_FDCWD, path);
	return file;
}

SERVED(FILE *, fopen, (const char *path, const char *mode), (path, mode), serve_fopen(ns, REAL(fopen), path, mode))
SERVED(FILE *, fopen64, (const char *path, const char *mode), (path, mode), serve_fopen(ns, REAL(fopen64), path, mode))

/* A freopen that fails has closed the stream and can't be repeated elsewhere, so the original is opened for reading. */
static void note_freopen(const char *path, const char *mode)
{
	if (path && mode && mode_writes(mode))
		hwa_announce_content(AT_FDCWD, path);
}

NOTED(FILE *, freopen, (const char *path, const char *mode, FILE *stream), (path, mode, stream),
	note_freopen(path, mode))
NOTED(FILE *, freopen64, (const char *path, const char *mode, FILE *stream), (path, mode, stream),
	note_freopen(path, mode))
