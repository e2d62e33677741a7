/*
 * Rank 0 reads and sends, and the others' receives have half the room: an error, and nobody waits. Usage: short DIR
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

int main(int argc, char **argv)
{
	int rank, size, error_class = 0;
	char path[4096], *data = malloc(BYTES);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rank == 0) {
		snprintf(path, sizeof(path), "%s/in", argc > 1 ? argv[1] : ".");
		FILE *file = fopen(path, "w");

		memset(data, 7, BYTES);
		fwrite(data, 1, BYTES, file);
		fclose(file);
		file = fopen(path, "r");
		if (fread(data, 1, BYTES, file) != BYTES)
			MPI_Abort(MPI_COMM_WORLD, 1);
		fclose(file);
		for (int to = 1; to < size; to++)
			MPI_Send(data, BYTES, MPI_BYTE, to, 6, MPI_COMM_WORLD);
	} else {
		MPI_Error_class(MPI_Recv(data, BYTES / 2, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &error_class);
	}
	printf("rank %d: %s\n", rank, error_class == MPI_ERR_TRUNCATE ? "truncated" : "whole");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
