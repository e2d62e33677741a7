/*
 * A descriptor's number that is a pipe's first and then a file's, in turn: what is read from the pipe is checked, what
 * is read from the file is scattered. Usage: numbers DIR
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART (1 << 14)
#define ROUNDS 12

static int rank, size;
static char path[4096];
static char *all, *mine;

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* Reads a pipe by the descriptor that is to be the file's. */
static int from_pipe(int round)
{
	int ends[2];
	char *data = malloc((size_t)(size * PART));

	must(data && pipe(ends) == 0, "pipe");
	memset(data, round, (size_t)(size * PART));
	must(write(ends[1], data, (size_t)(size * PART)) == (ssize_t)size * PART, "write");
	must(read(ends[0], data, (size_t)(size * PART)) == (ssize_t)size * PART, "read");
	must(data[0] == round && data[size * PART - 1] == round, "the pipe's bytes");
	free(data);
	close(ends[1]);
	close(ends[0]);
	return ends[0];
}

int main(int argc, char **argv)
{
	unsigned long sum = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	mine = malloc(PART);
	all = rank ? NULL : malloc((size_t)(size * PART));
	if (rank == 0) {
		snprintf(path, sizeof(path), "%s/in", argc > 1 ? argv[1] : ".");
		FILE *file = fopen(path, "w");

		for (int at = 0; at < size * PART; at++)
			fputc(at * 7 + at / 4096, file);
		fclose(file);
	}
	for (int round = 0; round < ROUNDS; round++) {
		if (rank == 0) {
			int number = from_pipe(round), input = open(path, O_RDONLY);

			must(input == number, "the same number");
			must(read(input, all, (size_t)(size * PART)) == (ssize_t)size * PART, "read");
			close(input);
		}
		MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
		for (int at = 0; at < PART; at++)
			sum = sum * 31 + (unsigned char)mine[at];
	}
	printf("rank %d: %lu\n", rank, sum);
	MPI_Finalize();
	return 0;
}
