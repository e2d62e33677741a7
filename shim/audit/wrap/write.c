/* Calls that change the tree. The change is announced to the daemon first, so that every node uses the original.
 * Then the original is changed with the program's own arguments.
 *
 * A change by a descriptor of the store's copy (mode, owner, times, extended attributes) is made to the original,
 * and such queries go there, because the mirror is never written. If the original has been renamed or removed
 * meanwhile, it can't be found, and the call fails. */
#include "wrap.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "sys.h"

#define HERE(path) hwa_announce_change(AT_FDCWD, path, 0)
#define AT(dirfd, path) hwa_announce_change(dirfd, path, 0)
/* Announce the path's target; with AT_SYMLINK_NOFOLLOW in the call's flags, the path itself. */
#define FILE_HERE(path) hwa_announce_change(AT_FDCWD, path, HWA_CHANGES_TARGET)
#define FILE_AT(dirfd, path, flags) \
	hwa_announce_change(dirfd, path, (flags)&AT_SYMLINK_NOFOLLOW ? 0 : HWA_CHANGES_TARGET)
/* The path may be a directory's. */
#define TREE(dirfd, path) hwa_announce_change(dirfd, path, HWA_CHANGES_TREE)
#define NEW(dirfd, path) hwa_announce_change(dirfd, path, HWA_CHANGES_NEW)

NOTED(int, mkdir, (const char *path, mode_t mode), (path, mode), NEW(AT_FDCWD, path))
NOTED(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), NEW(fd, path))
NOTED(int, mkfifo, (const char *path, mode_t mode), (path, mode), HERE(path))
NOTED(int, mkfifoat, (int fd, const char *path, mode_t mode), (fd, path, mode), AT(fd, path))
NOTED(int, mknod, (const char *path, mode_t mode, dev_t dev), (path, mode, dev), HERE(path))
NOTED(int, mknodat, (int fd, const char *path, mode_t mode, dev_t dev), (fd, path, mode, dev), AT(fd, path))
NOTED(int, __xmknod, (int version, const char *path, mode_t mode, dev_t *dev), (version, path, mode, dev), HERE(path))
NOTED(int, __xmknodat, (int version, int fd, const char *path, mode_t mode, dev_t *dev), (version, fd, path, mode, dev),
	AT(fd, path))
NOTED(int, symlink, (const char *target, const char *path), (target, path), HERE(path))
NOTED(int, symlinkat, (const char *target, int fd, const char *path), (target, fd, path), AT(fd, path))

/* The file's link count changes with its names. */
NOTED(int, link, (const char *old, const char *path), (old, path), (HERE(old), HERE(path)))
NOTED(int, linkat, (int old_fd, const char *old, int fd, const char *path, int flags), (old_fd, old, fd, path, flags),
	(FILE_AT(old_fd, old, flags &AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW), AT(fd, path)))

NOTED(int, unlink, (const char *path), (path), HERE(path))
NOTED(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags),
	hwa_announce_change(fd, path, flags &AT_REMOVEDIR ? HWA_CHANGES_TREE : 0))
NOTED(int, rmdir, (const char *path), (path), TREE(AT_FDCWD, path))
NOTED(int, remove, (const char *path), (path), TREE(AT_FDCWD, path))
NOTED(int, rename, (const char *old, const char *path), (old, path), (TREE(AT_FDCWD, old), TREE(AT_FDCWD, path)))
NOTED(int, renameat, (int old_fd, const char *old, int fd, const char *path), (old_fd, old, fd, path),
	(TREE(old_fd, old), TREE(fd, path)))
NOTED(int, renameat2, (int old_fd, const char *old, int fd, const char *path, unsigned flags),
	(old_fd, old, fd, path, flags), (TREE(old_fd, old), TREE(fd, path)))

NOTED(int, truncate, (const char *path, off_t bytes), (path, bytes), hwa_announce_content(AT_FDCWD, path))
NOTED(int, truncate64, (const char *path, off64_t bytes), (path, bytes), hwa_announce_content(AT_FDCWD, path))
NOTED(int, chmod, (const char *path, mode_t mode), (path, mode), FILE_HERE(path))
NOTED(int, lchmod, (const char *path, mode_t mode), (path, mode), HERE(path))
NOTED(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags),
	FILE_AT(fd, path, flags))
NOTED(int, chown, (const char *path, uid_t owner, gid_t group), (path, owner, group), FILE_HERE(path))
NOTED(int, lchown, (const char *path, uid_t owner, gid_t group), (path, owner, group), HERE(path))
NOTED(int, utime, (const char *path, const struct utimbuf *times), (path, times), FILE_HERE(path))
NOTED(int, utimes, (const char *path, const struct timeval times[2]), (path, times), FILE_HERE(path))
NOTED(int, lutimes, (const char *path, const struct timeval times[2]), (path, times), HERE(path))
NOTED(int, setxattr, (const char *path, const char *name, const void *value, size_t bytes, int flags),
	(path, name, value, bytes, flags), FILE_HERE(path))
NOTED(int, lsetxattr, (const char *path, const char *name, const void *value, size_t bytes, int flags),
	(path, name, value, bytes, flags), HERE(path))
NOTED(int, removexattr, (const char *path, const char *name), (path, name), FILE_HERE(path))
NOTED(int, lremovexattr, (const char *path, const char *name), (path, name), HERE(path))

/* Announces the template's directory: the name is not yet known, and then no longer secret. */
NOTED(int, mkstemp, (char *path), (path), HERE(path))
NOTED(int, mkstemp64, (char *path), (path), HERE(path))
NOTED(int, mkostemp, (char *path, int flags), (path, flags), HERE(path))
NOTED(int, mkostemp64, (char *path, int flags), (path, flags), HERE(path))
NOTED(int, mkstemps, (char *path, int suffix), (path, suffix), HERE(path))
NOTED(int, mkstemps64, (char *path, int suffix), (path, suffix), HERE(path))
NOTED(int, mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), HERE(path))
NOTED(int, mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags), HERE(path))
NOTED(char *, mkdtemp, (char *path), (path), HERE(path))

/* ---- through a descriptor ---- */

#define OWN (-1)
#define GONE (-2)

/* Returns the record of the original whose copy a descriptor has; NULL if it has none. */
static __attribute__((noinline)) const struct hw_record *behind(int fd, bool *directory)
{
	struct stat st;
	bool open = hwa_sys(__NR_fstat, fd, &st) == 0;
	*directory = open && S_ISDIR(st.st_mode);
	return open ? hwa_store_file(fd, &st) : NULL;
}

/* Opens a descriptor of the original, without access, if `fd` is the store's copy of it, and announces the path. GONE:
 * the original is no longer at its path. OWN: `fd` is no copy, and its own path is announced. */
static int announced(int fd)
{
	bool directory = false;
	const struct hw_record *record = hwa_attached() ? behind(fd, &directory) : NULL;
	if (record)
		hwa_announce_change(AT_FDCWD, record->path, 0);
	else if (directory)
		hwa_announce_change(fd, ".", 0);
	int original = record ? hwa_open_original(record, O_PATH) : OWN;
	return record && original < 0 ? GONE : original;
}

/* A wrapper for a descriptor's file. Where that is the store's copy, `find` opens the original, and `call` uses it by
 * `original` or by its path `link`. */
#define BY_ORIGINAL(type, name, parameters, arguments, find, call) \
	static __attribute__((noinline)) type name##_of(struct hwa_namespace *ns, int original, SPLICE parameters) \
	{ \
		char link[HWA_LINK_BYTES]; \
		(void)fd; \
		if (original == GONE) \
			return fail(ns, ESTALE); \
		hwa_descriptor_link(original, link); \
		type result = call; \
		hwa_sys(__NR_close, original); \
		return result; \
	} \
	WRAP(type, name, parameters, arguments) \
	{ \
		int original = find(fd); \
		return original != OWN ? name##_of(ns, original, SPLICE arguments) : REAL(name) arguments; \
	}

static int settled(struct hwa_namespace *ns, long result)
{
	return result < 0 ? fail(ns, (int)-result) : (int)result;
}

BY_ORIGINAL(int, fchmod, (int fd, mode_t mode), (fd, mode), announced,
	settled(ns, hwa_sys(__NR_fchmodat, AT_FDCWD, link, mode)))
BY_ORIGINAL(int, fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group), announced,
	settled(ns, hwa_sys(__NR_fchownat, AT_FDCWD, link, owner, group, 0)))
BY_ORIGINAL(int, futimens, (int fd, const struct timespec times[2]), (fd, times), announced,
	settled(ns, hwa_sys(__NR_utimensat, AT_FDCWD, link, times, 0)))
BY_ORIGINAL(int, futimes, (int fd, const struct timeval times[2]), (fd, times), announced, REAL(utimes)(link, times))
BY_ORIGINAL(int, fsetxattr, (int fd, const char *name, const void *value, size_t bytes, int flags),
	(fd, name, value, bytes, flags), announced, REAL(setxattr)(link, name, value, bytes, flags))
BY_ORIGINAL(int, fremovexattr, (int fd, const char *name), (fd, name), announced, REAL(removexattr)(link, name))

WRAP(int, fchownat, (int fd, const char *path, uid_t owner, gid_t group, int flags), (fd, path, owner, group, flags))
{
	if (path && !*path && flags & AT_EMPTY_PATH) {
		int original = announced(fd);
		if (original != OWN)
			return fchown_of(ns, original, fd, owner, group);
	}
	FILE_AT(fd, path, flags);
	return REAL(fchownat)(fd, path, owner, group, flags);
}

/* Without a path the call changes the descriptor's file, here and in futimesat. */
WRAP(int, utimensat, (int fd, const char *path, const struct timespec times[2], int flags), (fd, path, times, flags))
{
	bool itself = !path || (!*path && flags & AT_EMPTY_PATH);
	int original = itself ? announced(fd) : OWN;
	if (original != OWN)
		return futimens_of(ns, original, fd, times);
	FILE_AT(fd, path, flags);
	return REAL(utimensat)(fd, path, times, flags);
}

WRAP(int, futimesat, (int fd, const char *path, const struct timeval times[2]), (fd, path, times))
{
	int original = path ? OWN : announced(fd);
	if (original != OWN)
		return futimes_of(ns, original, fd, times);
	FILE_AT(fd, path, 0);
	return REAL(futimesat)(fd, path, times);
}

long hwa_changed_by_number(struct hwa_namespace *ns, long number, long a, long b, long c, long d, long e)
{
	int fd = (int)a;
	switch (number) {
	case __NR_fchmod:
		return impl_fchmod(ns, fd, (mode_t)b);
	case __NR_fchown:
		return impl_fchown(ns, fd, (uid_t)b, (gid_t)c);
	case __NR_fsetxattr:
		return impl_fsetxattr(ns, fd, (const char *)b, (const void *)c, (size_t)d, (int)e);
	case __NR_fremovexattr:
		return impl_fremovexattr(ns, fd, (const char *)b);
	case __NR_utimensat:
		return b ? UNCALLED : impl_futimens(ns, fd, (const struct timespec *)c);
	}
	return UNCALLED;
}

/* ---- by the kernel ---- */

/* Announces that the kernel may write core files, unless a program gets them. */
static __attribute__((noinline)) void note_limit(int resource, const struct rlimit *limit)
{
	char first = 0;
	if (resource != RLIMIT_CORE || !hwa_is_address(limit) || !limit->rlim_cur)
		return;
	long fd = hwa_sys(__NR_openat, AT_FDCWD, "/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		hwa_sys(__NR_read, fd, &first, 1);
		hwa_sys(__NR_close, fd);
	}
	if (first != '|')
		hwa_announce_unaudited();
}

NOTED(int, setrlimit, (int resource, const struct rlimit *limit), (resource, limit), note_limit(resource, limit))
NOTED(int, setrlimit64, (int resource, const struct rlimit *limit), (resource, limit), note_limit(resource, limit))
NOTED(int, prlimit, (pid_t process, int resource, const struct rlimit *limit, struct rlimit *old),
	(process, resource, limit, old), note_limit(resource, limit))
NOTED(int, prlimit64, (pid_t process, int resource, const struct rlimit *limit, struct rlimit *old),
	(process, resource, limit, old), note_limit(resource, limit))

/* ---- what only the original knows ---- */

/* Returns a descriptor of the original to query instead of the store's copy; OWN if `fd` itself is to be queried. */
static int original_of(int fd)
{
	const struct hw_record *record = hwa_store_descriptor(fd);
	return record ? hwa_open_original(record, O_PATH) : OWN;
}

BY_ORIGINAL(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t bytes), (fd, name, value, bytes),
	original_of, LIBC(getxattr)(link, name, value, bytes))
BY_ORIGINAL(ssize_t, flistxattr, (int fd, char *list, size_t bytes), (fd, list, bytes), original_of,
	LIBC(listxattr)(link, list, bytes))

#define WRAP_FSTATFS(name, structure) \
	BY_ORIGINAL(int, name, (int fd, struct structure *out), (fd, out), original_of, LIBC(name)(original, out))
WRAP_FSTATFS(fstatfs, statfs)
WRAP_FSTATFS(fstatfs64, statfs64)
WRAP_FSTATFS(fstatvfs, statvfs)
WRAP_FSTATFS(fstatvfs64, statvfs64)
