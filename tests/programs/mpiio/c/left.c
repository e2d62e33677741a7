/*
 * Operations that are too small to be transformed: rank 0 reads and scatters, reads and sends, gathers and writes, some
 * times each, and reads for itself. Usage: left DIR BYTES none|some|threads, where threads do it one after the other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCATTERS = 5, SENDS = 3, GATHERS = 2 };

static int rank, size;
static size_t bytes;
static char input[4096], output[4096];

static void must(int is_true)
{
	if (!is_true)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static void make(void)
{
	char *all = calloc((size_t)size, bytes);
	int file = open(input, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	must(write(file, all, bytes * (size_t)size) == (ssize_t)(bytes * (size_t)size));
	close(file);
	free(all);
}

/* From its own memory, since the library no longer knows what has been read. */
static void read_for_itself(void)
{
	char *all = malloc(bytes * (size_t)size);
	int file = open(input, O_RDONLY);

	must(read(file, all, bytes * (size_t)size) == (ssize_t)(bytes * (size_t)size));
	close(file);
	free(all);
}

static void *all_of_it(void *unused)
{
	char *all = malloc(bytes * (size_t)size), *mine = malloc(bytes), *gathered = malloc(bytes * (size_t)size);
	int file = rank ? -1 : open(input, O_RDONLY), made = rank ? -1 : open(output, O_WRONLY | O_CREAT, 0666);

	for (int i = 0; i < SCATTERS; i++) {
		must(rank || pread(file, all, bytes * (size_t)size, 0) == (ssize_t)(bytes * (size_t)size));
		MPI_Scatter(all, (int)bytes, MPI_BYTE, mine, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
	}
	for (int i = 0; i < SENDS; i++) {
		must(rank || pread(file, all, bytes, 0) == (ssize_t)bytes);
		if (rank == 0)
			MPI_Send(all, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		else if (rank == 1)
			MPI_Recv(mine, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	for (int i = 0; i < GATHERS; i++) {
		MPI_Gather(mine, (int)bytes, MPI_BYTE, gathered, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
		must(rank || write(made, gathered, bytes * (size_t)size) == (ssize_t)(bytes * (size_t)size));
	}
	close(file);
	close(made);
	free(all);
	free(mine);
	free(gathered);
	return unused;
}

int main(int count, char **argv)
{
	int level;

	MPI_Init_thread(&count, &argv, MPI_THREAD_SERIALIZED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	bytes = (size_t)atol(argv[2]);
	snprintf(input, sizeof(input), "%s/in", argv[1]);
	snprintf(output, sizeof(output), "%s/out", argv[1]);
	if (rank == 0)
		make();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		read_for_itself();
	for (int i = 0; i < 4 && strcmp(argv[3], "threads") == 0; i++) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, all_of_it, NULL) == 0 && pthread_join(thread, NULL) == 0);
	}
	if (strcmp(argv[3], "some") == 0)
		all_of_it(NULL);
	MPI_Finalize();
	return 0;
}
