/*
 * Rank 0 sends what it has read of a long file, and both ranks wait for each other before rank 1 receives it: with the
 * request not posted yet, then posted. Rank 1 prints checksums.
 *
 *   long_message DIRECTORY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* More than 64 pieces of 4 MB. The file has a number in each of its megabytes. */
#define BYTES ((size_t)257 << 20)
#define APART ((size_t)1 << 20)

static void make(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (size_t at = 0; at < BYTES; at += APART)
		if (pwrite(fd, &at, sizeof at, (off_t)at) != sizeof at)
			abort();
	if (ftruncate(fd, (off_t)BYTES) != 0)
		abort();
	close(fd);
}

static void read_all(const char *path, char *data)
{
	int fd = open(path, O_RDONLY);

	if (read(fd, data, BYTES) != (ssize_t)BYTES)
		abort();
	close(fd);
}

static uint64_t sum(const char *data)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < BYTES; at += 512)
		sum = sum * 31 + (unsigned char)data[at + at / APART % 8];
	return sum;
}

int main(int argc, char **argv)
{
	int rank;
	char path[1024];
	char *data = malloc(BYTES);
	MPI_Request request;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	snprintf(path, sizeof path, "%s/in", argv[1]);
	if (rank == 0)
		make(path);
	for (int is_posted = 0; is_posted < 2; is_posted++) {
		if (rank == 0)
			read_all(path, data);
		if (rank == 0)
			MPI_Isend(data, (int)BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
		else if (is_posted)
			MPI_Irecv(data, (int)BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 1 && !is_posted)
			MPI_Recv(data, (int)BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		if (rank == 1)
			printf("%llu\n", (unsigned long long)sum(data));
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (rank == 0)
		unlink(path);
	MPI_Finalize();
	return 0;
}
