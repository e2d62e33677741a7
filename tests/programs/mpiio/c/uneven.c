/*
 * The ranks of a scatter and of a gather name sizes of a part that aren't the same, which the standard forbids and MPIs
 * let pass: some find the operation large, others don't. Usage: uneven DIR
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 3000, ROOM = 9000, ROUNDS = 5 };

static void scatter(FILE *file, char *all, char *mine, int rank, int size)
{
	long sum = 0;

	memset(mine, 0, ROOM);
	if (rank == 0) {
		rewind(file);
		if (fread(all, 1, (size_t)(ROOM * size), file) != (size_t)(ROOM * size))
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, rank == 0 ? PART : ROOM, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (int n = 0; n < ROOM; n++)
		sum += mine[n] * (n % 7);
	printf("rank %d scattered %ld\n", rank, sum);
}

static void gather(char *all, const char *mine, int rank, int size)
{
	long sum = 0;

	memset(all, 0, (size_t)(ROOM * size));
	MPI_Gather(mine, PART, MPI_BYTE, all, ROOM, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (int n = 0; n < ROOM * size; n++)
		sum += all[n] * (n % 7);
	printf("rank %d gathered %ld\n", rank, sum);
}

int main(int argc, char **argv)
{
	int rank, size;
	char path[4096];
	FILE *file = NULL;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	char *all = malloc((size_t)(ROOM * size)), *mine = malloc(ROOM);
	if (rank == 0) {
		snprintf(path, sizeof(path), "%s/in", argc > 1 ? argv[1] : ".");
		file = fopen(path, "w");
		for (int n = 0; n < ROOM * size; n++)
			putc(n % 101, file);
		fclose(file);
		file = fopen(path, "r");
	}
	for (int round = 0; round < ROUNDS; round++) {
		scatter(file, all, mine, rank, size);
		gather(all, mine, rank, size);
	}
	MPI_Finalize();
	return 0;
}
