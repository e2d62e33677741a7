/*
 * A thread that C11's function makes, or the C library for a timer's notifications, sums what rank 0 has gathered, while
 * that rank writes it. Usage: other DIR thread|timer
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define PART (1 << 20)
#define ROUNDS 10

static int rank, size;
static atomic_int is_asked, is_over;
static unsigned char *gathered;
static uint64_t sum;

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void sum_it(union sigval value)
{
	(void)value;
	sum = 0;
	for (size_t at = 0; at < (size_t)size * PART; at++)
		sum = sum * 31 + gathered[at];
	is_asked = 0;
}

static int wait_and_sum(void *nothing)
{
	(void)nothing;
	while (!is_over)
		if (is_asked)
			sum_it((union sigval){0});
		else
			thrd_yield();
	return 0;
}

static void write_all(const char *directory)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/out", directory);
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(file >= 0 && write(file, gathered, (size_t)size * PART) == (ssize_t)size * PART && close(file) == 0, path);
}

int main(int argc, char **argv)
{
	int level, is_timer = argc > 2 && !strcmp(argv[2], "timer");
	struct sigevent event = {.sigev_notify = SIGEV_THREAD};
	struct itimerspec soon = {.it_value = {0, 1000000}};
	timer_t timer;
	thrd_t thread;

	event.sigev_notify_function = sum_it;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	unsigned char *part = malloc(PART);
	gathered = malloc((size_t)size * PART);
	must(argc > 2 && part && gathered, "start");
	if (rank == 0 && is_timer)
		must(!timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
	else if (rank == 0)
		must(thrd_create(&thread, wait_and_sum, NULL) == thrd_success, "thrd_create");
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t at = 0; at < PART; at++)
			part[at] = (unsigned char)(at * 7 + (size_t)(rank + round));
		MPI_Gather(part, PART, MPI_BYTE, gathered, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
		if (rank)
			continue;
		is_asked = 1;
		must(!is_timer || !timer_settime(timer, 0, &soon, NULL), "timer_settime");
		write_all(argv[1]);
		while (is_asked)
			thrd_yield();
		printf("%d: %lx\n", round, (unsigned long)sum);
	}
	is_over = 1;
	if (rank == 0 && !is_timer)
		thrd_join(thread, NULL);
	MPI_Finalize();
	return 0;
}
