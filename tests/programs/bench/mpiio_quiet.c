/*
 * Programs without any pattern of I/O, for what the library costs these: `messages` sends small messages back and forth
 * and adds numbers of all ranks, `compute` computes and prints a line now and then. Each rank looks for a file before
 * and after it, by which a trace of its system calls finds the part between. Rank 0 prints `seconds=…` on standard error.
 * `calls` does what `messages` does in pairs of blocks, once by MPI's profiling names, where nothing can stand before
 * them, and once by its usual ones: `ratio=…` for each pair.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

struct calls {
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	int (*receive)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
	int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
};

static const struct calls usual = { MPI_Send, MPI_Recv, MPI_Allreduce };
static const struct calls profiling = { PMPI_Send, PMPI_Recv, PMPI_Allreduce };

static void messages(const struct calls *calls, long count)
{
	char small[64] = { 0 };
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
	for (long n = 0; n < count / BLOCK; n++) {
		double usual_s = n % 2 ? block_seconds(&usual) : 0;
		double profiling_s = block_seconds(&profiling);
		usual_s += n % 2 ? 0 : block_seconds(&usual);
		if (rank == 0)
			fprintf(stderr, "ratio=%.6f\n", profiling_s / usual_s);
	}
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
	MPI_Barrier(MPI_COMM_WORLD);
	int looked = access("/headwater-begin", F_OK);
	double start = MPI_Wtime();
	if (!strcmp(argv[1], "messages"))
		messages(&usual, atol(argv[2]));
	else if (!strcmp(argv[1], "calls"))
		compare(atol(argv[2]));
	else
		compute(atol(argv[2]));
	double took = MPI_Wtime() - start;
	looked += access("/headwater-end", F_OK);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		fprintf(stderr, "seconds=%.6f %s\n", took, looked == -2 ? "" : "a file has a name that none should have");
	MPI_Finalize();
	return 0;
}
