/* What several files ask of the system. Without the C library's memory: a zygote may not use it yet. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than the oldest headers; all architectures have this number. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* So many below the highest. */
#define HIGH_FDS 64

int hwsp_move_high(int fd)
{
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return fd;
	int lowest = (int)(limit.rlim_cur < HWSP_BOUNDARY_MAX ? limit.rlim_cur : HWSP_BOUNDARY_MAX) - HIGH_FDS;
	int moved = lowest > fd ? fcntl(fd, F_DUPFD_CLOEXEC, lowest) : -1;
	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

/* A directory entry as the kernel returns it. */
struct entry {
	uint64_t number;
	int64_t offset;
	uint16_t bytes;
	uint8_t kind;
	char name[];
};

int hwsp_find_entry(const char *path, bool (*is_it)(int directory, const char *name, void *context), void *context)
{
	_Alignas(struct entry) char entries[4096];
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
	long got;

	if (directory < 0)
		return -1;
	while (!found && (got = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0) {
		for (long at = 0; !found && at < got;) {
			const struct entry *entry = (const struct entry *)(entries + at);
			found = entry->name[0] != '.' && is_it(directory, entry->name, context);
			at += entry->bytes;
		}
	}
	close(directory);
	return found;
}

static bool close_in_range(int directory, const char *name, void *context)
{
	const int *range = context;
	int fd = atoi(name);

	if (fd >= range[0] && fd <= range[1] && fd != directory)
		close(fd);
	return false;
}

void hwsp_close_range(int first, int last)
{
	int range[] = {first, last};

	if (first < 0 || first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	/* Before Linux 5.9, or where a filter refuses it. */
	hwsp_find_entry("/proc/self/fd", close_in_range, range);
}

long hwsp_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

ssize_t hwsp_read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
	return got;
}

ssize_t hwsp_read_link(const char *path, char *text, size_t bytes)
{
	ssize_t got = readlink(path, text, bytes - 1);
	text[got > 0 ? got : 0] = 0;
	return got;
}
