/*
 * Programs without any pattern of I/O, for the library's cost to these: `messages` sends small messages back and forth
 * and adds numbers of all ranks, `compute` computes and prints a line now and then. Each rank looks a file up before
 * and after it, by which a trace of its system calls shows the part between. Rank 0 prints `seconds=…` on standard
 * error; of messages it is the median of all blocks, times their number, and each rank has a processor, if there are
 * enough: otherwise runs differ by a third in how often others had the processor. `calls` does what `messages` does in
 * pairs of blocks, once by the functions of MPI's library themselves, and once as programs call them: `ratio=…` for
 * each pair.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "past.h"

static int rank, size;

struct calls {
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	int (*receive)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
	int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
};

static const struct calls usual = {MPI_Send, MPI_Recv, MPI_Allreduce};
static struct calls past_it;

static void messages(const struct calls *calls, long count)
{
	char small[64] = {0};
	double sum = rank, all;

	for (long n = 0; n < count; n++) {
		int peer = rank ^ 1;

		if (peer < size && rank < peer) {
			calls->send(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
			calls->receive(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (peer < size) {
			calls->receive(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			calls->send(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
		}
		if (n % 16 == 0)
			calls->reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
}

#define BLOCK 1000

static double block_seconds(const struct calls *calls)
{
	PMPI_Barrier(MPI_COMM_WORLD);
	double start = PMPI_Wtime();
	messages(calls, BLOCK);
	return PMPI_Wtime() - start;
}

static void compare(long count)
{
	past_it = (struct calls){past(NULL, "PMPI_Send"), past(NULL, "PMPI_Recv"), past(NULL, "PMPI_Allreduce")};
	for (long n = 0; n < count / BLOCK; n++) {
		double usual_s = n % 2 ? block_seconds(&usual) : 0;
		double past_s = block_seconds(&past_it);
		usual_s += n % 2 ? 0 : block_seconds(&usual);
		if (rank == 0)
			fprintf(stderr, "ratio=%.6f\n", past_s / usual_s);
	}
}

static int order(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static double of_blocks(long count)
{
	long blocks = count < BLOCK ? 1 : count / BLOCK;
	double *seconds = calloc((size_t)blocks, sizeof(*seconds));

	for (long n = 0; seconds && n < blocks; n++)
		seconds[n] = block_seconds(&usual);
	if (!seconds)
		return 0;
	qsort(seconds, (size_t)blocks, sizeof(*seconds), order);
	double median = seconds[blocks / 2];
	free(seconds);
	return median * (double)blocks;
}

/* A processor for this rank alone, if there are so many. */
static void settle_down(void)
{
	cpu_set_t all, mine;
	int count = 0;

	CPU_ZERO(&mine);
	if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < size)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && count++ == rank)
			CPU_SET(cpu, &mine);
	sched_setaffinity(0, sizeof(mine), &mine);
}

static void compute(long count)
{
	volatile double value = rank;

	for (long n = 0; n < count; n++) {
		for (int m = 0; m < 100000; m++)
			value = value * 0.999999 + 1;
		if (rank == 0)
			printf("step %ld value %.9f\n", n, value);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	settle_down();
	MPI_Barrier(MPI_COMM_WORLD);
	int checked = access("/headwater-begin", F_OK);
	double start = MPI_Wtime(), blocks = 0;
	if (!strcmp(argv[1], "messages"))
		blocks = of_blocks(atol(argv[2]));
	else if (!strcmp(argv[1], "calls"))
		compare(atol(argv[2]));
	else
		compute(atol(argv[2]));
	double took = blocks > 0 ? blocks : MPI_Wtime() - start;
	checked += access("/headwater-end", F_OK);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		fprintf(stderr, "seconds=%.6f %s\n", took,
			checked == -2 ? "" : "a file has a name that none should have");
	MPI_Finalize();
	return 0;
}
