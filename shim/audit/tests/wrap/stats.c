/* stat, its relatives, and access: stats DIR. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "show.h"

int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstatat(int version, int fd, const char *path, struct stat *out, int flags);

static void show_stat(const char *what, const char *path, int result, const struct stat *st)
{
	show(what, path, result);
	if (result != 0)
		return;
	/* The time of access is the reader's business. */
	printf("  dev %lx ino %lu mode %o links %lu uid %u gid %u rdev %lx size %ld blksize %ld blocks %ld "
	       "mtime %ld.%09ld ctime %ld.%09ld\n",
		st->st_dev, st->st_ino, st->st_mode, st->st_nlink, st->st_uid, st->st_gid, st->st_rdev, st->st_size,
		st->st_blksize, st->st_blocks, st->st_mtim.tv_sec, st->st_mtim.tv_nsec, st->st_ctim.tv_sec,
		st->st_ctim.tv_nsec);
}

/* Fields that were not requested may be set or not. */
static void show_statx(const char *what, const char *path, int result, unsigned mask, const struct statx *st)
{
	show(what, path, result);
	if (result != 0)
		return;
	printf("  mask %x blksize %u dev %u:%u rdev %u:%u", st->stx_mask & mask, st->stx_blksize, st->stx_dev_major,
		st->stx_dev_minor, st->stx_rdev_major, st->stx_rdev_minor);
	if (mask & STATX_SIZE)
		printf(" size %llu", st->stx_size);
	if ((mask & STATX_BASIC_STATS) == STATX_BASIC_STATS)
		printf(" links %u uid %u gid %u mode %o ino %llu blocks %llu mtime %lld.%09u ctime %lld.%09u",
			st->stx_nlink, st->stx_uid, st->stx_gid, st->stx_mode, st->stx_ino, st->stx_blocks,
			st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec, st->stx_ctime.tv_sec, st->stx_ctime.tv_nsec);
	if (mask & STATX_BTIME)
		printf(" btime %lld.%09u", st->stx_btime.tv_sec, st->stx_btime.tv_nsec);
	if (mask & STATX_MNT_ID)
		printf(" mount %llu", st->stx_mnt_id);
	printf(" attributes %llx of %llx\n", st->stx_attributes, st->stx_attributes_mask);
}

static void by_descriptor(const char *path)
{
	struct stat st;
	struct statx stx;
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return;
	MARK();
	show_stat("fstat", path, fstat(fd, &st), &st);
	MARK();
	show_stat("fstatat empty", path, fstatat(fd, "", &st, AT_EMPTY_PATH), &st);
	MARK();
	show_statx("statx empty", path, statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx), STATX_ALL, &stx);
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	MARK();
	show_stat("stat of descriptor", path, stat(link, &st), &st);
#ifdef SYS_stat
	MARK();
	show_stat("stat by number", path, (int)syscall(SYS_stat, link, &st), &st);
#endif
	MARK();
	show_stat("fstat by number", path, (int)syscall(SYS_fstat, fd, &st), &st);
	MARK();
	show_stat("newfstatat by number", path, (int)syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH), &st);
	MARK();
	show_statx("statx by number", path, (int)syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_ALL, &stx), STATX_ALL,
		&stx);
	close(fd);
}

static void by_path(int dirfd, const char *name, const char *path)
{
	struct stat st;
	struct statx stx;
	MARK();
	show_stat("stat", path, stat(path, &st), &st);
	MARK();
	show_stat("lstat", path, lstat(path, &st), &st);
	MARK();
	show_stat("__xstat", path, __xstat(1, path, &st), &st);
	MARK();
	show_stat("__lxstat", path, __lxstat(1, path, &st), &st);
	MARK();
	show_stat("fstatat", name, fstatat(dirfd, name, &st, 0), &st);
	MARK();
	show_stat("fstatat nofollow", name, fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), &st);
	MARK();
	show_stat("fstatat bad flags", name, fstatat(dirfd, name, &st, 0x8000), &st);
	MARK();
	show_stat("__fxstatat", name, __fxstatat(1, dirfd, name, &st, 0), &st);
	static const unsigned masks[] = {0, STATX_BASIC_STATS, STATX_ALL, STATX_SIZE, STATX_MNT_ID};
	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
		MARK();
		show_statx("statx", name, statx(dirfd, name, 0, masks[i], &stx), masks[i], &stx);
	}
	MARK();
	show_statx("statx nofollow", path, statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_ALL, &stx), STATX_ALL,
		&stx);
	static const int modes[] = {F_OK, R_OK, X_OK, R_OK | X_OK, W_OK, 8};
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		printf("mode %d ", modes[i]);
		MARK();
		show("access", path, access(path, modes[i]));
		MARK();
		show("eaccess", path, eaccess(path, modes[i]));
		MARK();
		show("faccessat", name, faccessat(dirfd, name, modes[i], 0));
		MARK();
		show("faccessat nofollow", name, faccessat(dirfd, name, modes[i], AT_SYMLINK_NOFOLLOW));
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	int dirfd = open(argv[1], O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < NAME_COUNT; i++) {
		by_path(dirfd, NAMES[i], join(argv[1], NAMES[i]));
		by_descriptor(join(argv[1], NAMES[i]));
	}
	if (chdir(argv[1]) == 0) {
		for (size_t i = 0; i < NAME_COUNT; i++)
			by_path(AT_FDCWD, NAMES[i], NAMES[i]);
	}
	return 0;
}
