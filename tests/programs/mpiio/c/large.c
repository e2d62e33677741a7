/*
 * MPI_Scatterv_c of what rank 0 has read, and MPI_Gatherv_c of what it writes, as Python's mpi4py calls them: numbers are
 * larger than they need be. Rank 0 prints checksums. Of an MPI without them, the plain functions.
 *
 *   large DIRECTORY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART = 100003, ROUNDS = 6, RANKS_MAX = 64 };

#if MPI_VERSION >= 4
typedef MPI_Count number;
typedef MPI_Aint displacement;
#define Scatterv MPI_Scatterv_c
#define Gatherv MPI_Gatherv_c
#else
typedef int number, displacement;
#define Scatterv MPI_Scatterv
#define Gatherv MPI_Gatherv
#endif

static uint64_t sum(const char *data, size_t bytes)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < bytes; at++)
		sum = sum * 31 + (unsigned char)data[at];
	return sum;
}

static void make(const char *path, size_t bytes)
{
	char *data = malloc(bytes);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (size_t at = 0; at < bytes; at++)
		data[at] = (char)(at * 7 + at / 251);
	if (write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	close(fd);
	free(data);
}

int main(int argc, char **argv)
{
	int rank, size;
	char in[1024], out[1024];
	number counts[RANKS_MAX];
	displacement starts[RANKS_MAX], total = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	snprintf(in, sizeof in, "%s/in", argv[1]);
	snprintf(out, sizeof out, "%s/out", argv[1]);
	for (int to = 0; to < size && to < RANKS_MAX; to++) {
		counts[to] = PART + 17 * to;
		starts[to] = total;
		total += (displacement)counts[to];
	}
	if (rank == 0)
		make(in, (size_t)total);
	char *all = rank == 0 ? malloc((size_t)total) : NULL, *mine = malloc((size_t)counts[rank]);
	for (int round = 0; round < ROUNDS; round++) {
		if (rank == 0) {
			int fd = open(in, O_RDONLY);
			if (read(fd, all, (size_t)total) != (ssize_t)total)
				abort();
			close(fd);
		}
		Scatterv(all, counts, starts, MPI_BYTE, mine, counts[rank], MPI_BYTE, 0, MPI_COMM_WORLD);
		uint64_t own = sum(mine, (size_t)counts[rank]), both = 0;
		MPI_Reduce(&own, &both, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
		memset(mine, round + rank, 1000);
		Gatherv(mine, counts[rank], MPI_BYTE, all, counts, starts, MPI_BYTE, 0, MPI_COMM_WORLD);
		if (rank == 0) {
			int fd = open(out, O_WRONLY | O_CREAT, 0644);
			if (pwrite(fd, all, (size_t)total, (off_t)round * total) != (ssize_t)total)
				abort();
			close(fd);
			printf("%llu\n", (unsigned long long)both);
		}
	}
	MPI_Finalize();
	return 0;
}
