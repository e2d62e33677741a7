/*
 * The ranks of a scatter and of a gather name sizes of a part that aren't the same, which the standard forbids and MPIs
 * let pass: some find the operation large, others don't. Before that they name the same by two types. Usage: uneven DIR
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 3000, ROOM = 9000, ROUNDS = 5, SMALL = 96, SMALL_ROUNDS = 9 };

/* Small and even, on a communicator of their own; but each other rank describes it by a type of its own, as may be. */
static void in_two_types(char *all, char *mine, int rank)
{
	MPI_Comm comm;
	MPI_Datatype type;
	long sum = 0;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Type_contiguous(SMALL, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	int count = rank % 2 ? 1 : SMALL;
	MPI_Datatype one = rank % 2 ? type : MPI_BYTE;
	for (int round = 0; round < SMALL_ROUNDS; round++) {
		MPI_Scatter(all, SMALL, MPI_BYTE, mine, count, one, 0, comm);
		mine[round]++;
		MPI_Gather(mine, count, one, all, SMALL, MPI_BYTE, 0, comm);
	}
	for (int n = 0; n < SMALL; n++)
		sum += mine[n] * (n % 7);
	printf("rank %d in two types %ld\n", rank, sum);
	MPI_Type_free(&type);
	MPI_Comm_free(&comm);
}

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
	memset(all, 1, (size_t)(ROOM * size));
	in_two_types(all, mine, rank);
	for (int round = 0; round < ROUNDS; round++) {
		scatter(file, all, mine, rank, size);
		gather(all, mine, rank, size);
	}
	MPI_Finalize();
	return 0;
}
