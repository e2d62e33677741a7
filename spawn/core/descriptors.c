/* Descriptors of this library in a program that did not open them. */
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
