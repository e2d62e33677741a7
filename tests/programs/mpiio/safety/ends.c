/* The job ends early: as it would have, with the same files. */
#define _GNU_SOURCE
#include "safety.h"

#include <signal.h>
#include <sys/resource.h>

#define STEP(name) static void name(struct work *work)

/* Some MPIs return, and are ended by others a moment later. */
static void abort_here(int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
	for (;;)
		pause();
}

STEP(root_aborts)
{
	(void)work;
	if (rank == 0)
		abort_here(5);
}

STEP(another_aborts)
{
	(void)work;
	if (rank == size - 1)
		abort_here(6);
}

STEP(root_is_killed)
{
	(void)work;
	if (rank == 0)
		raise(SIGKILL);
}

STEP(another_is_killed)
{
	(void)work;
	if (rank == size - 1)
		raise(SIGKILL);
}

STEP(root_faults)
{
	(void)work;
	if (rank == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGSEGV, SIG_DFL);
		fault(48);
	}
}

STEP(root_leaves)
{
	(void)work;
	if (rank == 0)
		_exit(7);
}

/* All have received a message of each other, so that all that was written before is there. */
STEP(killed_later)
{
	(void)work;
	MPI_Barrier(MPI_COMM_WORLD);
	raise(SIGKILL);
}

#define AFTER_READ(X) \
	X(root_aborts) X(another_aborts) X(root_is_killed) X(another_is_killed) X(root_faults) X(root_leaves)

#define CASES(name) READ_SCATTER(name##_after_read, name, NULL)
AFTER_READ(CASES)
GATHER_WRITE(all_are_killed_after_write, NULL, killed_later)
GATHER_WRITE(root_aborts_after_gather, root_aborts, NULL)
GATHER_WRITE(root_is_killed_after_gather, root_is_killed, NULL)

/* Rank 0 writes, another receives a message about it, and all are ended. */
static void killed_after_write(void)
{
	gather_write(NULL, NULL);
	MPI_Barrier(MPI_COMM_WORLD);
	if (odd())
		raise(SIGKILL);
}

/* The end of the process does what fclose would have done. */
static void left_open(void)
{
	static FILE *stream;
	char *all = rank ? NULL : memory(all_bytes()), *mine = memory(PART);

	fill(mine, PART, (unsigned)rank);
	MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		stream = fopen(path("out"), "w");
		note("fwrite %zu", fwrite(all, 1, all_bytes(), stream));
		fprintf(stream, "end %d\n", round_now);
	}
	free(all);
	free(mine);
}

#define ROWS(name) {#name "_after_read", name##_after_read, ENDS},

const struct test ends_tests[] = {
	AFTER_READ(ROWS){"all_are_killed_after_write", all_are_killed_after_write, ENDS},
	{"root_aborts_after_gather", root_aborts_after_gather, ENDS},
	{"root_is_killed_after_gather", root_is_killed_after_gather, ENDS},
	{"killed_after_write", killed_after_write, ENDS},
	{"left_open", left_open, 0},
	{NULL, NULL, 0},
};
