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

/* Of the kernel's getdents64(). */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Closes each descriptor of the range that a piece of the process's own list names. */
static void close_listed(const char *piece, long bytes, int first, int last, int list)
{
	for (long at = 0; at < bytes;) {
		const struct entry *entry = (const struct entry *)(piece + at);
		int fd = atoi(entry->name);
		if (entry->name[0] != '.' && fd >= first && fd <= last && fd != list)
			close(fd);
		at += entry->bytes;
	}
}

void hwsp_close_range(int first, int last)
{
	_Alignas(struct entry) char piece[1024];
	long bytes;

	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	/* Before Linux 5.9. */
	int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (list >= 0 && (bytes = syscall(SYS_getdents64, list, piece, sizeof piece)) > 0)
		close_listed(piece, bytes, first, last, list);
	if (list >= 0)
		close(list);
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
