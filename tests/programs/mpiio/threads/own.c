/*
 * Each thread has variables of a megabyte. What rank 0 reads is sent to all others.
 *
 *   own DIRECTORY
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, ROUNDS = 4 };

static _Thread_local unsigned char own[BYTES];

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void read_all(const char *path, unsigned char *data)
{
	int fd = open(path, O_RDONLY);

	must(fd >= 0 && read(fd, data, BYTES) == BYTES && close(fd) == 0, path);
}

int main(int argc, char **argv)
{
	int rank, size;
	char path[4096];
	unsigned char *data = malloc(BYTES);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(argc == 2 && data, "the arguments");
	snprintf(path, sizeof path, "%s/input", argv[1]);
	memset(own, 7, BYTES);
	if (rank == 0) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		must(fd >= 0 && write(fd, own, BYTES) == BYTES && close(fd) == 0, path);
	}
	for (int round = 0; round < ROUNDS; round++) {
		if (rank == 0)
			read_all(path, data);
		for (int to = 1; rank == 0 && to < size; to++)
			MPI_Send(data, BYTES, MPI_BYTE, to, 0, MPI_COMM_WORLD);
		if (rank > 0)
			MPI_Recv(data, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		printf("rank %d: %d\n", rank, memcmp(data, own, BYTES));
	}
	MPI_Finalize();
	return 0;
}
