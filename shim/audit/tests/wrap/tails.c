/* What is written into buffers: tails DIR. Each call gets a buffer full of two marks, one after the other; what it
 * leaves of them is as much as libc leaves, behind the result and around it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "show.h"

ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buffer, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

#define AROUND 64
#define ROOM (2 * PATH_MAX)

/* What a call writes into, with its own size. */
struct call {
	const char *path;
	size_t size;
	int fd;
	DIR *dir;
};
typedef long calls(const struct call *call, char *buffer);

/* Calls twice, and prints between which bytes something was written. */
static void show_written(const char *name, calls *function, const struct call *call)
{
	static _Alignas(64) char buffers[2][AROUND + ROOM + AROUND];
	long results[2];
	size_t first = sizeof *buffers, last = 0;
	for (int i = 0; i < 2; i++) {
		memset(buffers[i], i ? 0xa5 : 0x5a, sizeof *buffers);
		results[i] = function(call, buffers[i] + AROUND);
	}
	for (size_t at = 0; at < sizeof *buffers; at++) {
		if ((buffers[0][at] == 0x5a && buffers[1][at] == (char)0xa5))
			continue;
		first = at < first ? at : first;
		last = at + 1;
	}
	printf("%s %s %zu: %ld %ld, written from %ld to %ld\n", name, call->path, call->size, results[0], results[1],
		last ? (long)first - AROUND : 0, last ? (long)last - AROUND : 0);
}

static long by_readlink(const struct call *call, char *buffer)
{
	return readlink(call->path, buffer, call->size);
}

static long by_readlinkat(const struct call *call, char *buffer)
{
	return readlinkat(AT_FDCWD, call->path, buffer, call->size);
}

static long by_readlink_chk(const struct call *call, char *buffer)
{
	return __readlink_chk(call->path, buffer, call->size, ROOM);
}

static long by_readlinkat_chk(const struct call *call, char *buffer)
{
	return __readlinkat_chk(AT_FDCWD, call->path, buffer, call->size, ROOM);
}

static long by_realpath(const struct call *call, char *buffer)
{
	return realpath(call->path, buffer) ? 0 : -1;
}

static long by_realpath_chk(const struct call *call, char *buffer)
{
	return __realpath_chk(call->path, buffer, ROOM) ? 0 : -1;
}

static long by_getcwd(const struct call *call, char *buffer)
{
	return getcwd(buffer, call->size) ? 0 : -1;
}

static long by_stat(const struct call *call, char *buffer)
{
	return stat(call->path, (struct stat *)buffer);
}

static long by_lstat(const struct call *call, char *buffer)
{
	return lstat(call->path, (struct stat *)buffer);
}

static long by_fstat(const struct call *call, char *buffer)
{
	return fstat(call->fd, (struct stat *)buffer);
}

static long by_fstatat(const struct call *call, char *buffer)
{
	return fstatat(call->fd, "", (struct stat *)buffer, AT_EMPTY_PATH);
}

static long by_statx(const struct call *call, char *buffer)
{
	return statx(AT_FDCWD, call->path, 0, STATX_BASIC_STATS, (struct statx *)buffer);
}

static long by_fstatfs(const struct call *call, char *buffer)
{
	return fstatfs(call->fd, (struct statfs *)buffer);
}

static long by_fstatvfs(const struct call *call, char *buffer)
{
	return fstatvfs(call->fd, (struct statvfs *)buffer);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* The entries' names differ in length, and their order is the directory's. */
static long by_readdir_r(const struct call *call, char *buffer)
{
	struct dirent *entry = (struct dirent *)buffer, *result = NULL;
	rewinddir(call->dir);
	int error = readdir_r(call->dir, entry, &result);
	return result ? (long)(result == entry && strlen(entry->d_name) < NAME_MAX) : -error;
}

static long by_dlinfo(const struct call *call, char *buffer)
{
	(void)call;
	return dlinfo(dlopen("libc.so.6", RTLD_NOW), RTLD_DI_ORIGIN, buffer);
}

static void look_at(const char *path)
{
	static const size_t sizes[] = {0, 1, 4, 20, 60, 100, PATH_MAX - 1, ROOM};
	struct call call = {.path = path, .fd = open(path, O_RDONLY | O_NONBLOCK)};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		call.size = sizes[i];
		show_written("readlink", by_readlink, &call);
		show_written("readlinkat", by_readlinkat, &call);
		show_written("__readlink_chk", by_readlink_chk, &call);
		show_written("__readlinkat_chk", by_readlinkat_chk, &call);
	}
	show_written("realpath", by_realpath, &call);
	show_written("__realpath_chk", by_realpath_chk, &call);
	show_written("stat", by_stat, &call);
	show_written("lstat", by_lstat, &call);
	show_written("fstat", by_fstat, &call);
	show_written("fstatat", by_fstatat, &call);
	show_written("statx", by_statx, &call);
	show_written("fstatfs", by_fstatfs, &call);
	show_written("fstatvfs", by_fstatvfs, &call);
	close(call.fd);
}

int main(int argc, char **argv)
{
	static const char *const own[] = {"/proc/self/exe", "/proc/self/cwd", "/proc/self/root/proc/self/exe"};
	char link[64];
	if (argc != 2)
		return 2;
	for (size_t i = 0; i < NAME_COUNT; i++)
		look_at(join(argv[1], NAMES[i]));
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		look_at(own[i]);
	int fd = open(join(argv[1], "lib/large"), O_RDONLY);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	look_at(link);
	snprintf(link, sizeof link, "/dev/fd/%d", fd);
	look_at(link);
	struct call call = {.path = "here", .size = ROOM, .dir = opendir(join(argv[1], "empty"))};
	show_written("readdir_r", by_readdir_r, &call);
	show_written("dlinfo", by_dlinfo, &call);
	if (chdir(argv[1]) == 0)
		show_written("getcwd", by_getcwd, &call);
	return 0;
}
