/* stat and its relatives, and access: answered from the table's copy of the original's attributes.
 *
 * A descriptor of the store's copy shows the original's attributes, found by the copy's inode. The copy of a
 * passthrough path follows its original: it shows its own size, times and permissions. */
#include "wrap.h"

#include <errno.h>
#include <unistd.h>

#include "sys.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout serves both names");

#define STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT)
/* The fields of statx that the table has. */
#define STATX_KEPT (STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID)

/* The mode bits that a copy has of its original, and those that it always has. */
#define MODE_KEPT 0777u
#define OWNER_READS 0400u

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

/* dev_t as libc packs it. */
static dev_t device(uint32_t major, uint32_t minor)
{
	return (dev_t)(major & 0xfffu) << 8 | (dev_t)(major & ~0xfffu) << 32 | (minor & 0xffu) |
		(dev_t)(minor & ~0xffu) << 12;
}

static uint32_t device_major(dev_t dev)
{
	return (uint32_t)(dev >> 8 & 0xfff) | (uint32_t)(dev >> 32 & ~UINT64_C(0xfff));
}

static uint32_t device_minor(dev_t dev)
{
	return (uint32_t)(dev & 0xff) | (uint32_t)(dev >> 12 & ~UINT64_C(0xff));
}

static void give_stat(const struct hw_attr *attr, struct stat *out)
{
	*out = (struct stat){
		.st_dev = device(attr->dev_major, attr->dev_minor),
		.st_ino = attr->ino,
		.st_nlink = attr->nlink,
		.st_mode = attr->mode,
		.st_uid = attr->uid,
		.st_gid = attr->gid,
		.st_rdev = device(attr->rdev_major, attr->rdev_minor),
		.st_size = (off_t)attr->size,
		.st_blksize = attr->blksize,
		.st_blocks = (blkcnt_t)attr->blocks,
		.st_atim = {attr->atime_s, attr->atime_ns},
		.st_mtim = {attr->mtime_s, attr->mtime_ns},
		.st_ctim = {attr->ctime_s, attr->ctime_ns},
	};
}

/* The kernel returns the basic fields and the mount's number in any case, and the time of birth only if requested. */
static void give_statx(const struct hw_attr *attr, unsigned mask, struct statx *out)
{
	uint32_t given = attr->mask & (STATX_BASIC_STATS | STATX_MNT_ID | (mask & STATX_BTIME));
	*out = (struct statx){
		.stx_mask = given,
		.stx_blksize = attr->blksize,
		.stx_attributes = attr->attributes,
		.stx_nlink = attr->nlink,
		.stx_uid = attr->uid,
		.stx_gid = attr->gid,
		.stx_mode = (uint16_t)attr->mode,
		.stx_ino = attr->ino,
		.stx_size = attr->size,
		.stx_blocks = attr->blocks,
		.stx_attributes_mask = attr->attributes_mask,
		.stx_atime = {.tv_sec = attr->atime_s, .tv_nsec = attr->atime_ns},
		.stx_ctime = {.tv_sec = attr->ctime_s, .tv_nsec = attr->ctime_ns},
		.stx_mtime = {.tv_sec = attr->mtime_s, .tv_nsec = attr->mtime_ns},
		.stx_rdev_major = attr->rdev_major,
		.stx_rdev_minor = attr->rdev_minor,
		.stx_dev_major = attr->dev_major,
		.stx_dev_minor = attr->dev_minor,
	};
	if (given & STATX_BTIME) {
		out->stx_btime.tv_sec = attr->btime_s;
		out->stx_btime.tv_nsec = attr->btime_ns;
	}
	if (given & STATX_MNT_ID)
		out->stx_mnt_id = attr->mnt_id;
}

/* The object of the call: a path, or the descriptor `fd` if that is NULL or empty. */
struct place {
	int fd;
	const char *path;
};
#define OF_DESCRIPTOR(fd) ((struct place){(fd), NULL})
#define OF_PATH(dirfd, path) ((struct place){(dirfd), (path)})

/* The record of a file in a memory domain's mirror or in the mount, whose inode the table does not know. A program
 * reaches one by a descriptor or by a link of /proc. */
static __attribute__((noinline)) const struct hw_record *by_name(struct place place, uint64_t *state)
{
	char link[HWA_LINK_BYTES];
	HWA_PATH_APART(original);
	if (!place.path || !*place.path) {
		hwa_descriptor_link(place.fd, link);
		place = OF_PATH(AT_FDCWD, link);
	}
	return hwa_link_into_store(place.fd, place.path, &original) ? hwa_find(original.at, original.bytes, state)
								    : NULL;
}

/* An evicted copy's inode number may have been given to another file since; but then that file has
 * a name, while the evicted one, open somewhere still, has none. */
static const struct hw_record *store_file(uint32_t major, uint32_t minor, uint64_t ino, uint32_t mode, uint64_t links,
	uint64_t size, struct place place, bool *follows)
{
	uint64_t state;
	bool in_mount = hwa_is_mount_dev(major, minor);
	if (!hwa_attached() || !(in_mount || hwa_is_store_dev(major, minor)) || !S_ISREG(mode))
		return NULL;
	const struct hw_record *record = in_mount ? NULL : hwa_find_inode(ino, &state);
	if (!record && (in_mount || hwa_has_replicas()))
		record = by_name(place, &state);
	if (!record || !(state & HW_ATTR))
		return NULL;
	*follows = (state & HW_PASSTHROUGH) != 0;
	if (record->attr.size != size && !*follows)
		return NULL;
	return links == 0 || in_mount || state & (HW_LOADABLE | HW_WHOLE) ? record : NULL;
}

static const struct hw_record *store_stat(const struct stat *st, struct place place, bool *follows)
{
	return store_file(device_major(st->st_dev), device_minor(st->st_dev), st->st_ino, st->st_mode, st->st_nlink,
		(uint64_t)st->st_size, place, follows);
}

const struct hw_record *hwa_store_file(int fd, const struct stat *st)
{
	bool follows;
	return store_stat(st, OF_DESCRIPTOR(fd), &follows);
}

const struct hw_record *hwa_store_descriptor(int fd)
{
	struct stat st;
	if (!hwa_attached() || hwa_sys(__NR_fstat, fd, &st) < 0)
		return NULL;
	return hwa_store_file(fd, &st);
}

/* True if (dirfd, path) names the record's file, whatever has changed in it. Its inode number may have been reused
 * since; then the time of birth is later. Devices have other numbers on other nodes. */
static bool is_original(const struct hw_record *record, int dirfd, const char *path, struct statx *now)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
	if (hwa_sys(__NR_statx, dirfd, path, flags, STATX_BASIC_STATS | STATX_BTIME, now) < 0 ||
		now->stx_ino != record->attr.ino || !S_ISREG(now->stx_mode))
		return false;
	return !(record->attr.mask & now->stx_mask & STATX_BTIME) ||
		(now->stx_btime.tv_sec == record->attr.btime_s && now->stx_btime.tv_nsec == record->attr.btime_ns);
}

int hwa_open_original(const struct hw_record *record, int flags)
{
	struct statx now;
	char link[HWA_LINK_BYTES];
	/* Without access, for closing another one would end this process's locks on a file that is not meant. */
	long place = hwa_sys(__NR_openat, AT_FDCWD, record->path, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = place;
	if (place < 0)
		return -1;
	bool same = is_original(record, (int)place, "", &now);
	if (same && flags & O_PATH)
		return (int)place;
	if (same) {
		hwa_descriptor_link((int)place, link);
		fd = hwa_sys(__NR_openat, AT_FDCWD, link, flags);
	}
	hwa_sys(__NR_close, place);
	return same && fd >= 0 ? (int)fd : -1;
}

bool hwa_is_replaced(const char *original)
{
	struct statx now;
	uint64_t state;
	const struct hw_record *record = hwa_find(original, strlen(original), &state);
	return record && state & HW_PASSTHROUGH && state & HW_ATTR && !is_original(record, AT_FDCWD, original, &now);
}

/* Completes the size and times of a copy that follows its original: the other attributes are the original's. A file
 * that is no longer at its path has most likely been removed. */
static __attribute__((noinline)) void complete(const struct hw_record *record, uint32_t copy_mode, struct hw_attr *attr)
{
	struct statx now;
	/* A confined process must make only system calls of its own. */
	if (!hwa_in_use())
		return;
	if (!is_original(record, AT_FDCWD, record->path, &now)) {
		attr->nlink -= attr->nlink > 0;
		if ((copy_mode ^ attr->mode) & MODE_KEPT & ~OWNER_READS)
			attr->mode = (attr->mode & ~MODE_KEPT) | (copy_mode & MODE_KEPT);
		return;
	}
	attr->mode = now.stx_mode;
	attr->nlink = now.stx_nlink;
	attr->uid = now.stx_uid;
	attr->gid = now.stx_gid;
	if (attr->size == now.stx_size && attr->mtime_s == now.stx_mtime.tv_sec &&
		attr->mtime_ns == now.stx_mtime.tv_nsec) {
		attr->blocks = now.stx_blocks;
		attr->ctime_s = now.stx_ctime.tv_sec;
		attr->ctime_ns = now.stx_ctime.tv_nsec;
	}
}

/* Returns the original's result, or the source file's attributes if it shows the store's copy. */
static int mapped(int result, struct stat *st, struct place place)
{
	bool follows;
	const struct hw_record *record = result == 0 ? store_stat(st, place, &follows) : NULL;
	if (!record)
		return result;
	struct hw_attr attr = record->attr;
	if (follows) {
		attr.size = (uint64_t)st->st_size;
		attr.blocks = (uint64_t)st->st_blocks;
		attr.mtime_s = st->st_mtim.tv_sec;
		attr.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
		attr.ctime_s = st->st_ctim.tv_sec;
		attr.ctime_ns = (uint32_t)st->st_ctim.tv_nsec;
		complete(record, st->st_mode, &attr);
	}
	give_stat(&attr, st);
	return result;
}

static int mapped_statx(int result, unsigned mask, struct statx *st, struct place place)
{
	bool follows;
	const struct hw_record *record = result ? NULL
						: store_file(st->stx_dev_major, st->stx_dev_minor, st->stx_ino,
							  st->stx_mode, st->stx_nlink, st->stx_size, place, &follows);
	if (!record)
		return result;
	struct hw_attr attr = record->attr;
	if (follows) {
		attr.size = st->stx_size;
		attr.blocks = st->stx_blocks;
		attr.mtime_s = st->stx_mtime.tv_sec;
		attr.mtime_ns = st->stx_mtime.tv_nsec;
		attr.ctime_s = st->stx_ctime.tv_sec;
		attr.ctime_ns = st->stx_ctime.tv_nsec;
		complete(record, st->stx_mode, &attr);
	}
	give_statx(&attr, mask, st);
	return result;
}

/* Finds a path's attributes. Returns 0, UNSERVED, or -1 with errno set. */
static int serve(struct hwa_namespace *ns, int dirfd, const char *path, int flags, struct hwa_found *found)
{
	unsigned want = HW_WANT_ATTR | (flags & AT_SYMLINK_NOFOLLOW ? HW_WANT_NO_FOLLOW : 0);
	int result = look_up(ns, dirfd, path, want, found);
	return result == 0 && !(found->state & HW_ATTR) ? UNSERVED : result;
}

static __attribute__((noinline)) int serve_stat(struct hwa_namespace *ns, int dirfd, const char *path, struct stat *out,
	int flags)
{
	HWA_FOUND(found);
	if (!hwa_is_address(out) || flags & ~STAT_FLAGS)
		return UNSERVED;
	int result = serve(ns, dirfd, path, flags, &found);
	if (result == 0)
		give_stat(&found.record->attr, out);
	return result;
}

/* The table's answer for (dirfd, path), or the original's as it is mapped. */
#define STAT(name, parameters, arguments, serve, dirfd) \
	WRAP(int, name, parameters, arguments) \
	{ \
		int result = serve; \
		return result != UNSERVED ? result : mapped(REAL(name) arguments, out, OF_PATH(dirfd, path)); \
	}
#define WRAP_STAT(name, flags) \
	STAT(name, (const char *path, struct stat *out), (path, out), serve_stat(ns, AT_FDCWD, path, out, flags), \
		AT_FDCWD)
WRAP_STAT(stat, 0)
WRAP_STAT(stat64, 0)
WRAP_STAT(lstat, AT_SYMLINK_NOFOLLOW)
WRAP_STAT(lstat64, AT_SYMLINK_NOFOLLOW)

#define WRAP_FSTAT(name) \
	WRAP(int, name, (int fd, struct stat *out), (fd, out)) \
	{ \
		return mapped(REAL(name)(fd, out), out, OF_DESCRIPTOR(fd)); \
	}
WRAP_FSTAT(fstat)
WRAP_FSTAT(fstat64)

#define WRAP_FSTATAT(name) \
	STAT(name, (int dirfd, const char *path, struct stat *out, int flags), (dirfd, path, out, flags), \
		serve_stat(ns, dirfd, path, out, flags), dirfd)
WRAP_FSTATAT(fstatat)
WRAP_FSTATAT(fstatat64)

/* The names that programs built before glibc 2.33 bind. */
#if defined(__x86_64__)
#define VERSION_HOLDS(version) ((version) == 0 || (version) == 1)
#else
#define VERSION_HOLDS(version) ((version) == 0)
#endif

#define WRAP_XSTAT(name, flags) \
	STAT(name, (int version, const char *path, struct stat *out), (version, path, out), \
		VERSION_HOLDS(version) ? serve_stat(ns, AT_FDCWD, path, out, flags) : UNSERVED, AT_FDCWD)
WRAP_XSTAT(__xstat, 0)
WRAP_XSTAT(__xstat64, 0)
WRAP_XSTAT(__lxstat, AT_SYMLINK_NOFOLLOW)
WRAP_XSTAT(__lxstat64, AT_SYMLINK_NOFOLLOW)

#define WRAP_FXSTAT(name) \
	WRAP(int, name, (int version, int fd, struct stat *out), (version, fd, out)) \
	{ \
		return mapped(REAL(name)(version, fd, out), out, OF_DESCRIPTOR(fd)); \
	}
WRAP_FXSTAT(__fxstat)
WRAP_FXSTAT(__fxstat64)

#define WRAP_FXSTATAT(name) \
	STAT(name, (int version, int dirfd, const char *path, struct stat *out, int flags), \
		(version, dirfd, path, out, flags), \
		VERSION_HOLDS(version) ? serve_stat(ns, dirfd, path, out, flags) : UNSERVED, dirfd)
WRAP_FXSTATAT(__fxstatat)
WRAP_FXSTATAT(__fxstatat64)

static int serve_statx(struct hwa_namespace *ns, int dirfd, const char *path, int flags, unsigned mask,
	struct statx *out)
{
	HWA_FOUND(found);
	if (!hwa_is_address(out) || flags & ~(STAT_FLAGS | AT_STATX_DONT_SYNC) || mask & ~STATX_KEPT)
		return UNSERVED;
	int result = serve(ns, dirfd, path, flags, &found);
	if (result == 0)
		give_statx(&found.record->attr, mask, out);
	return result;
}

WRAP(int, statx, (int dirfd, const char *path, int flags, unsigned mask, struct statx *out),
	(dirfd, path, flags, mask, out))
{
	int result = serve_statx(ns, dirfd, path, flags, mask, out);
	struct place place = OF_PATH(dirfd, path);
	return result != UNSERVED ? result : mapped_statx(REAL(statx)(dirfd, path, flags, mask, out), mask, out, place);
}

long hwa_mapped_by_number(long number, long result, long a, long b, long c, long d, long e)
{
	if (result != 0)
		return result;
	switch (number) {
#ifdef __NR_stat
	case __NR_stat:
		return mapped(0, (struct stat *)b, OF_PATH(AT_FDCWD, (const char *)a));
#endif
	case __NR_fstat:
		return mapped(0, (struct stat *)b, OF_DESCRIPTOR((int)a));
	case __NR_newfstatat:
		return mapped(0, (struct stat *)c, OF_PATH((int)a, (const char *)b));
	case __NR_statx:
		return mapped_statx(0, (unsigned)d, (struct statx *)e, OF_PATH((int)a, (const char *)b));
	default:
		return result;
	}
}

/* Access is decided here only where all users may, or none. Owners, groups, access lists and capabilities are left
 * to the kernel. */
static int serve_access(struct hwa_namespace *ns, int dirfd, const char *path, int mode, int flags)
{
	HWA_FOUND(found);
	if (mode & ~(R_OK | X_OK) || flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW))
		return UNSERVED;
	int result = serve(ns, dirfd, path, flags, &found);
	if (result != 0 || mode == F_OK)
		return result;
	uint32_t bits = found.record->attr.mode;
	uint32_t needed = (mode & R_OK ? 0444 : 0) | (mode & X_OK ? 0111 : 0);
	if (S_ISLNK(bits))
		return UNSERVED;
	if ((bits & needed) == needed)
		return 0;
	return S_ISREG(bits) && mode == X_OK && !(bits & 0111) ? fail(ns, EACCES) : UNSERVED;
}

#define WRAP_ACCESS(name, flags) \
	SERVED(int, name, (const char *path, int mode), (path, mode), serve_access(ns, AT_FDCWD, path, mode, flags))
WRAP_ACCESS(access, 0)
WRAP_ACCESS(eaccess, AT_EACCESS)
WRAP_ACCESS(euidaccess, AT_EACCESS)

SERVED(int, faccessat, (int dirfd, const char *path, int mode, int flags), (dirfd, path, mode, flags),
	serve_access(ns, dirfd, path, mode, flags))
