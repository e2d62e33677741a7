/* Says when main began: to the descriptor in BENCH_FD, nanoseconds of the monotonic clock. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	const char *fd = getenv("BENCH_FD");
	long ns = now.tv_sec * 1000000000L + now.tv_nsec;
	return fd && write(atoi(fd), &ns, sizeof ns) != sizeof ns;
}
