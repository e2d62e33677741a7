/*
 * Programs without any pattern of I/O, for what the library costs these: `messages` sends small messages back and forth
 * and adds numbers of all ranks, `compute` computes and prints a line now and then. Each rank looks for a file before
 * and after it, by which a trace of its system calls finds the part between. Rank 0 prints `seconds=…` on standard error.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void messages(long count)
{
	char small[64] = { 0 };
	double sum = rank, all;

	for (long n = 0; n < count; n++) {
		int peer = rank ^ 1;

		if (peer < size && rank < peer) {
			MPI_Send(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
			MPI_Recv(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (peer < size) {
			MPI_Recv(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(small, sizeof small, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
		}
		if (n % 16 == 0)
			MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
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
		messages(atol(argv[2]));
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
