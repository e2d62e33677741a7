/* What several files ask of the system. Without the C library's memory: a zygote may not use it yet. */
#include "internal.h"

#include <fcntl.h>
#include <unistd.h>

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
