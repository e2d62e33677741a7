/* Says when main began: to the descriptor in BENCH_FD, nanoseconds of the monotonic clock. With an argument it stays
 * until it is killed. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	(void)argv;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	const char *fd = getenv("BENCH_FD");
	long ns = now.tv_sec * 1000000000L + now.tv_nsec;
	while (argc > 1)
		pause();
	return fd && write(atoi(fd), &ns, sizeof ns) != sizeof ns;
}
