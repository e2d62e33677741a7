/*
 * Rank 0 reads a file, scatters it, and writes small pieces to another file while nothing has used what was read.
 * Usage: small_writes --in FILE --out FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART_BYTES = 512 * 1024, PIECES = 200, PIECE_BYTES = 1000 };

int main(int count, char **argv)
{
	int rank, size;
	unsigned long sum = 0, sums = 0;

	MPI_Init(&count, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	size_t bytes = (size_t)size * PART_BYTES;
	unsigned char *all = rank == 0 ? malloc(bytes) : NULL, *part = malloc(PART_BYTES);
	int out = -1;

	if (count != 5)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (rank == 0) {
		int in = open(argv[2], O_RDONLY);
		if (in < 0 || read(in, all, bytes) != (ssize_t)bytes)
			MPI_Abort(MPI_COMM_WORLD, 1);
		close(in);
	}
	MPI_Scatter(all, PART_BYTES, MPI_BYTE, part, PART_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		char piece[PIECE_BYTES];
		out = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0666);
		for (int i = 0; i < PIECES; i++) {
			memset(piece, 'a' + i % 26, sizeof(piece));
			if (write(out, piece, sizeof(piece)) != (ssize_t)sizeof(piece))
				MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	for (int i = 0; i < PART_BYTES; i++)
		sum = sum * 31 + part[i];
	MPI_Reduce(&sum, &sums, 1, MPI_UNSIGNED_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
	if (rank == 0 && (dprintf(out, "%lx\n", sums) < 0 || close(out) != 0))
		MPI_Abort(MPI_COMM_WORLD, 1);
	free(all);
	free(part);
	MPI_Finalize();
	return 0;
}
