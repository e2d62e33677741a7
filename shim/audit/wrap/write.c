/* What changes the tree: the daemon hears first, so that every node turns to the original, and then the
 * original is changed with the program's own arguments.
 *
 * What a descriptor of the store's copy would change (its mode, owner, times, extended attributes) is
 * changed at the original's path, and asked there: the mirror is never written. */
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

/* A tail call after the announcement. */
#define WRITER(type, name, parameters, arguments, announce) \
	WRAP(type, name, parameters, arguments) \
	{ \
		announce; \
		return REAL(name) arguments; \
	}
#define HERE(path) hw_goes_live(AT_FDCWD, path, 0)
#define AT(dirfd, path) hw_goes_live(dirfd, path, 0)
/* What the path leads to; with these flags of a call itself. */
#define FILE_HERE(path) hw_goes_live(AT_FDCWD, path, HW_CHANGES_TARGET)
#define FILE_AT(dirfd, path, flags) \
	hw_goes_live(dirfd, path, (flags) & AT_SYMLINK_NOFOLLOW ? 0 : HW_CHANGES_TARGET)
/* The path may be a directory's. */
#define TREE(dirfd, path) hw_goes_live(dirfd, path, HW_CHANGES_TREE)

WRITER(int, mkdir, (const char *path, mode_t mode), (path, mode), HERE(path))
WRITER(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), AT(fd, path))
WRITER(int, mkfifo, (const char *path, mode_t mode), (path, mode), HERE(path))
WRITER(int, mkfifoat, (int fd, const char *path, mode_t mode), (fd, path, mode), AT(fd, path))
WRITER(int, mknod, (const char *path, mode_t mode, dev_t dev), (path, mode, dev), HERE(path))
WRITER(int, mknodat, (int fd, const char *path, mode_t mode, dev_t dev), (fd, path, mode, dev), AT(fd, path))
WRITER(int, __xmknod, (int version, const char *path, mode_t mode, dev_t *dev), (version, path, mode, dev), HERE(path))
WRITER(int, __xmknodat, (int version, int fd, const char *path, mode_t mode, dev_t *dev),
	(version, fd, path, mode, dev), AT(fd, path))
WRITER(int, symlink, (const char *target, const char *path), (target, path), HERE(path))
WRITER(int, symlinkat, (const char *target, int fd, const char *path), (target, fd, path), AT(fd, path))

/* The file's link count changes with its names. */
WRITER(int, link, (const char *old, const char *path), (old, path), (HERE(old), HERE(path)))
WRITER(int, linkat, (int old_fd, const char *old, int fd, const char *path, int flags),
	(old_fd, old, fd, path, flags),
	(FILE_AT(old_fd, old, flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW), AT(fd, path)))

WRITER(int, unlink, (const char *path), (path), HERE(path))
WRITER(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags),
	hw_goes_live(fd, path, flags & AT_REMOVEDIR ? HW_CHANGES_TREE : 0))
WRITER(int, rmdir, (const char *path), (path), TREE(AT_FDCWD, path))
WRITER(int, remove, (const char *path), (path), TREE(AT_FDCWD, path))
WRITER(int, rename, (const char *old, const char *path), (old, path), (TREE(AT_FDCWD, old), TREE(AT_FDCWD, path)))
WRITER(int, renameat, (int old_fd, const char *old, int fd, const char *path), (old_fd, old, fd, path),
	(TREE(old_fd, old), TREE(fd, path)))
WRITER(int, renameat2, (int old_fd, const char *old, int fd, const char *path, unsigned flags),
	(old_fd, old, fd, path, flags), (TREE(old_fd, old), TREE(fd, path)))

WRITER(int, truncate, (const char *path, off_t bytes), (path, bytes), FILE_HERE(path))
WRITER(int, truncate64, (const char *path, off64_t bytes), (path, bytes), FILE_HERE(path))
WRITER(int, chmod, (const char *path, mode_t mode), (path, mode), FILE_HERE(path))
WRITER(int, lchmod, (const char *path, mode_t mode), (path, mode), HERE(path))
WRITER(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags),
	FILE_AT(fd, path, flags))
WRITER(int, chown, (const char *path, uid_t owner, gid_t group), (path, owner, group), FILE_HERE(path))
WRITER(int, lchown, (const char *path, uid_t owner, gid_t group), (path, owner, group), HERE(path))
WRITER(int, utime, (const char *path, const struct utimbuf *times), (path, times), FILE_HERE(path))
WRITER(int, utimes, (const char *path, const struct timeval times[2]), (path, times), FILE_HERE(path))
WRITER(int, lutimes, (const char *path, const struct timeval times[2]), (path, times), HERE(path))
WRITER(int, setxattr, (const char *path, const char *name, const void *value, size_t bytes, int flags),
	(path, name, value, bytes, flags), FILE_HERE(path))
WRITER(int, lsetxattr, (const char *path, const char *name, const void *value, size_t bytes, int flags),
	(path, name, value, bytes, flags), HERE(path))
WRITER(int, removexattr, (const char *path, const char *name), (path, name), FILE_HERE(path))
WRITER(int, lremovexattr, (const char *path, const char *name), (path, name), HERE(path))

/* The template's directory is what matters: the name is not yet known, and then no longer secret. */
WRITER(int, mkstemp, (char *path), (path), HERE(path))
WRITER(int, mkstemp64, (char *path), (path), HERE(path))
WRITER(int, mkostemp, (char *path, int flags), (path, flags), HERE(path))
WRITER(int, mkostemp64, (char *path, int flags), (path, flags), HERE(path))
WRITER(int, mkstemps, (char *path, int suffix), (path, suffix), HERE(path))
WRITER(int, mkstemps64, (char *path, int suffix), (path, suffix), HERE(path))
WRITER(int, mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), HERE(path))
WRITER(int, mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags), HERE(path))
WRITER(char *, mkdtemp, (char *path), (path), HERE(path))

/* ---- through a descriptor ---- */

/* The original's path if `fd` is the store's copy of it; NULL if the descriptor is the program's own
 * business. Either way the path is announced. */
static const char *announced(int fd)
{
	struct stat st;
	if (!hw_attached() || hw_sys(__NR_fstat, fd, &st) < 0)
		return NULL;
	const struct hw_record *record = hw_store_file(fd, &st);
	if (record)
		hw_goes_live(AT_FDCWD, record->path, 0);
	else if (S_ISDIR(st.st_mode))
		hw_goes_live(fd, ".", 0);
	return record ? record->path : NULL;
}

static int settled(struct hw_namespace *ns, long result)
{
	return result < 0 ? fail(ns, (int)-result) : (int)result;
}

WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode))
{
	const char *path = announced(fd);
	return path ? settled(ns, hw_sys(__NR_fchmodat, AT_FDCWD, path, mode)) : REAL(fchmod)(fd, mode);
}

WRAP(int, fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group))
{
	const char *path = announced(fd);
	return path ? settled(ns, hw_sys(__NR_fchownat, AT_FDCWD, path, owner, group, 0))
		    : REAL(fchown)(fd, owner, group);
}

WRAP(int, fchownat, (int fd, const char *path, uid_t owner, gid_t group, int flags), (fd, path, owner, group, flags))
{
	if (path && !*path && flags & AT_EMPTY_PATH) {
		const char *original = announced(fd);
		if (original)
			return settled(ns, hw_sys(__NR_fchownat, AT_FDCWD, original, owner, group, 0));
	}
	FILE_AT(fd, path, flags);
	return REAL(fchownat)(fd, path, owner, group, flags);
}

WRAP(int, futimens, (int fd, const struct timespec times[2]), (fd, times))
{
	const char *path = announced(fd);
	return path ? settled(ns, hw_sys(__NR_utimensat, AT_FDCWD, path, times, 0)) : REAL(futimens)(fd, times);
}

/* Without a path the descriptor itself is meant, here and in futimesat. */
WRAP(int, utimensat, (int fd, const char *path, const struct timespec times[2], int flags), (fd, path, times, flags))
{
	bool itself = !path || (!*path && flags & AT_EMPTY_PATH);
	const char *original = itself ? announced(fd) : NULL;
	if (original)
		return settled(ns, hw_sys(__NR_utimensat, AT_FDCWD, original, times, 0));
	FILE_AT(fd, path, flags);
	return REAL(utimensat)(fd, path, times, flags);
}

WRAP(int, futimes, (int fd, const struct timeval times[2]), (fd, times))
{
	const char *path = announced(fd);
	return path ? REAL(utimes)(path, times) : REAL(futimes)(fd, times);
}

WRAP(int, futimesat, (int fd, const char *path, const struct timeval times[2]), (fd, path, times))
{
	const char *original = path ? NULL : announced(fd);
	if (original)
		return REAL(utimes)(original, times);
	FILE_AT(fd, path, 0);
	return REAL(futimesat)(fd, path, times);
}

WRAP(int, fsetxattr, (int fd, const char *name, const void *value, size_t bytes, int flags),
	(fd, name, value, bytes, flags))
{
	const char *path = announced(fd);
	return path ? REAL(setxattr)(path, name, value, bytes, flags) : REAL(fsetxattr)(fd, name, value, bytes, flags);
}

WRAP(int, fremovexattr, (int fd, const char *name), (fd, name))
{
	const char *path = announced(fd);
	return path ? REAL(removexattr)(path, name) : REAL(fremovexattr)(fd, name);
}

/* ---- by the kernel ---- */

/* A core file is written without a word. One that goes to a program is that program's matter. */
static __attribute__((noinline)) void note_limit(int resource, const struct rlimit *limit)
{
	char first = 0;
	if (resource != RLIMIT_CORE || !is_address(limit) || !limit->rlim_cur)
		return;
	long fd = hw_sys(__NR_openat, AT_FDCWD, "/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		hw_sys(__NR_read, fd, &first, 1);
		hw_sys(__NR_close, fd);
	}
	if (first != '|')
		hw_goes_unaudited();
}

WRITER(int, setrlimit, (int resource, const struct rlimit *limit), (resource, limit), note_limit(resource, limit))
WRITER(int, setrlimit64, (int resource, const struct rlimit *limit), (resource, limit), note_limit(resource, limit))
WRITER(int, prlimit, (pid_t process, int resource, const struct rlimit *limit, struct rlimit *old),
	(process, resource, limit, old), note_limit(resource, limit))
WRITER(int, prlimit64, (pid_t process, int resource, const struct rlimit *limit, struct rlimit *old),
	(process, resource, limit, old), note_limit(resource, limit))

/* ---- what only the original knows ---- */

/* The path to ask in place of a descriptor of the store's copy. */
static const char *original_of(int fd)
{
	const struct hw_record *record = hw_store_descriptor(fd);
	return record ? record->path : NULL;
}

WRAP(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t bytes), (fd, name, value, bytes))
{
	const char *path = original_of(fd);
	return path ? REAL_AS(__typeof__(&getxattr), getxattr)(path, name, value, bytes)
		    : REAL(fgetxattr)(fd, name, value, bytes);
}

WRAP(ssize_t, flistxattr, (int fd, char *list, size_t bytes), (fd, list, bytes))
{
	const char *path = original_of(fd);
	return path ? REAL_AS(__typeof__(&listxattr), listxattr)(path, list, bytes) : REAL(flistxattr)(fd, list, bytes);
}

#define WRAP_FSTATFS(name, by_path, structure) \
	WRAP(int, name, (int fd, struct structure *out), (fd, out)) \
	{ \
		const char *path = original_of(fd); \
		return path ? REAL_AS(__typeof__(&by_path), by_path)(path, out) : REAL(name)(fd, out); \
	}
WRAP_FSTATFS(fstatfs, statfs, statfs)
WRAP_FSTATFS(fstatfs64, statfs64, statfs64)
WRAP_FSTATFS(fstatvfs, statvfs, statvfs)
WRAP_FSTATFS(fstatvfs64, statvfs64, statvfs64)
