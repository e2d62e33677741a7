/*
 * Rank 1 waits for a broadcast of rank 2 while a copy of what it has sent to rank 0 is under way, and a read is deferred.
 * MPI takes the data from the memory of rank 2 by a call of the C library.
 *
 *   within DIRECTORY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer than what any MPI sends before it is received, and short enough for a copy to be sent soon. */
enum { PART = 1 << 20, ROUNDS = 2, LATE_US = 300000, WAYS = 5 };

static int rank;
static MPI_Comm last_two;
static unsigned char *data, *received;

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static unsigned long sum(const unsigned char *of)
{
	unsigned long all = 0;

	for (size_t at = 0; at < PART; at += 64)
		all = all * 31 + of[at];
	return all;
}

static void complete(int way, MPI_Request *request)
{
	MPI_Status status;
	int flag = 0, index, done = 0;

	while (way == 1 && !flag)
		MPI_Test(request, &flag, &status);
	while (way == 4 && !done)
		MPI_Testsome(1, request, &done, &index, &status);
	if (way == 0)
		MPI_Wait(request, &status);
	else if (way == 2)
		MPI_Waitall(1, request, &status);
	else if (way == 3)
		MPI_Waitany(1, request, &index, &status);
}

static void receive_within(const char *path, int way)
{
	MPI_Request request;
	int fd;

	memset(data, 7 + way, PART);
	MPI_Send(data, PART, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	fd = open(path, O_RDONLY);
	must(fd >= 0 && read(fd, data, PART) == PART && close(fd) == 0, path);
	MPI_Ibcast(received, PART, MPI_BYTE, 1, last_two, &request);
	complete(way, &request);
	printf("way %d: received %lu, read %lu\n", way, sum(received), sum(data));
}

static void work(const char *path, int way)
{
	MPI_Request request;

	if (rank == 0) {
		usleep(LATE_US);
		MPI_Recv(received, PART, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		receive_within(path, way);
	} else if (rank == 2) {
		memset(data, 40 + way, PART);
		MPI_Ibcast(data, PART, MPI_BYTE, 1, last_two, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

int main(int argc, char **argv)
{
	char path[4096];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &last_two);
	data = malloc(PART);
	received = malloc(PART);
	must(argc == 2 && data && received, "the arguments");
	snprintf(path, sizeof path, "%s/within", argv[1]);
	if (rank == 1) {
		memset(data, 5, PART);
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		must(fd >= 0 && write(fd, data, PART) == PART && close(fd) == 0, path);
	}
	for (int round = 0; round < ROUNDS * WAYS; round++)
		work(path, round % WAYS);
	MPI_Finalize();
	return 0;
}
