/*
 * Rank 0 reads and sends, and some of the others' receives have half the room: an error, no rank waits, and what is
 * received besides is whole. Usage: short DIR
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, MESSAGES = 3 };

static int rank;

static void send_all(const char *path, char *data, int size)
{
	FILE *file = fopen(path, "w");

	memset(data, 7, BYTES);
	fwrite(data, 1, BYTES, file);
	fclose(file);
	for (int tag = 0; tag < MESSAGES; tag++) {
		file = fopen(path, "r");
		if (fread(data, 1, BYTES, file) != BYTES)
			MPI_Abort(MPI_COMM_WORLD, 1);
		fclose(file);
		for (int to = 1; to < size; to++)
			MPI_Send(data, BYTES, MPI_BYTE, to, tag, MPI_COMM_WORLD);
	}
}

static const char *error_text(int code)
{
	int class = MPI_SUCCESS;

	MPI_Error_class(code, &class);
	return class == MPI_SUCCESS ? "whole" : class == MPI_ERR_TRUNCATE ? "truncated" : "wrong";
}

static void receive_two(char *one, char *other)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	long sum = 0;

	memset(other, 0, BYTES);
	MPI_Irecv(one, BYTES / 2, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Irecv(other, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[1]);
	int result = MPI_Waitall(2, requests, statuses);
	if (requests[1] != MPI_REQUEST_NULL)
		statuses[1].MPI_ERROR = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
	for (int n = 0; n < BYTES; n++)
		sum += other[n];
	printf("rank %d: error %d, first %s, second %s, %ld\n", rank, result != MPI_SUCCESS,
		error_text(statuses[0].MPI_ERROR), error_text(statuses[1].MPI_ERROR), sum);
}

int main(int argc, char **argv)
{
	int size;
	char path[4096], *one = malloc(BYTES), *other = malloc(BYTES);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	snprintf(path, sizeof(path), "%s/in", argc > 1 ? argv[1] : ".");
	if (rank == 0) {
		send_all(path, one, size);
	} else {
		printf("rank %d: %s\n", rank,
			error_text(MPI_Recv(one, BYTES / 2, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
		receive_two(one, other);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
