/*
 * Two paths to one call of read, in turn: on one, rank 0 reads the buffer before it scatters it, on the other it does
 * not. Usage: call_sites DIR
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PART (1 << 16)
#define ROUNDS 60
#define APART __attribute__((noinline, noipa))

static int rank, size, input;
static char *all, *mine;
static unsigned long sum;

APART static void read_all(void)
{
	if (rank == 0 && pread(input, all, (size_t)(size * PART), 0) != (ssize_t)size * PART)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

APART static void scatter(void)
{
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (int at = 0; at < PART; at += 512)
		sum = sum * 31 + (unsigned char)mine[at];
}

APART static void reads_first(void)
{
	read_all();
	for (int at = 0; rank == 0 && at < size * PART; at += 4096)
		sum += (unsigned char)all[at];
	scatter();
}

APART static void passes_on(void)
{
	read_all();
	for (int at = 0; rank == 0 && at < 0; at += 4096)
		sum += (unsigned char)all[at];
	scatter();
}

int main(int argc, char **argv)
{
	char path[4096];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	mine = malloc(PART);
	all = rank ? NULL : malloc((size_t)size * PART);
	if (rank == 0) {
		snprintf(path, sizeof(path), "%s/in", argc > 1 ? argv[1] : ".");
		FILE *file = fopen(path, "w");

		for (int at = 0; at < size * PART; at++)
			fputc(at * 7 + at / 4096, file);
		fclose(file);
		input = open(path, O_RDONLY);
	}
	for (int round = 0; round < ROUNDS; round++) {
		reads_first();
		passes_on();
	}
	printf("rank %d: %lu\n", rank, sum);
	MPI_Finalize();
	return 0;
}
