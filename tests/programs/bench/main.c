/* Reports when main began: to the descriptor in BENCH_FD, nanoseconds of the monotonic clock. With an argument it stays
 * until it is killed. With "forks N ROUND" it forks itself N times, each time waiting for the processes of a round: no
 * zygote can be quicker. It prints the microseconds that each took. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double microseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int fork_itself(int count, int round)
{
	for (int done = 0; done < count; done += round) {
		double began = microseconds();
		for (int i = 0; i < round; i++) {
			pid_t pid = fork();
			if (pid == 0)
				return 0;
			if (pid < 0)
				return 1;
		}
		for (int i = 0; i < round; i++)
			wait(NULL);
		/* Unbuffered: a fork would print it again. */
		dprintf(1, "%.1f\n", (microseconds() - began) / round);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	const char *fd = getenv("BENCH_FD");
	long ns = now.tv_sec * 1000000000L + now.tv_nsec;
	if (argc > 3)
		return fork_itself(atoi(argv[2]), atoi(argv[3]));
	while (argc > 1)
		pause();
	return fd && write(atoi(fd), &ns, sizeof ns) != sizeof ns;
}
