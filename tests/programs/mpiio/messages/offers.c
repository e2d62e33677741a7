/*
 * Ranks with several sends under way at once, whose receivers take the data by one write each, or touch it, in another
 * order than it was sent. Receivers print checksums.
 *
 *   offers DIRECTORY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer than what any MPI sends before it is received. */
enum { PART = (4 << 20) + 4096, MANY = 3, ROUNDS = 4 };

static int rank, size;
static const char *directory;
static unsigned char *table, *sent;

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void fill(int round)
{
	for (size_t at = 0; at < (size_t)MANY * PART; at += 8)
		memset(sent + at, (int)(at / 4096 * 7 + at / PART + (size_t)(rank * 31 + round)), 8);
}

static void put(const char *name, size_t bytes)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s-%d", directory, name, rank);
	int fd = open(path, O_RDWR | O_CREAT, 0644);
	must(fd >= 0 && write(fd, table, bytes) == (ssize_t)bytes && close(fd) == 0, path);
}

static void print(const char *what, int round, size_t bytes)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < bytes; at += 512)
		sum = sum * 31 + table[at];
	printf("%s %d, rank %d: %llu\n", what, round, rank, (unsigned long long)sum);
}

/* Each other rank sends rank 0 several parts, which it receives in this order or in the inverse one. */
static void to_one(int round, int is_inverse)
{
	MPI_Request requests[MANY];

	for (int part = 0; rank > 0 && part < MANY; part++)
		MPI_Isend(sent + (size_t)part * PART, PART, MPI_BYTE, 0, part, MPI_COMM_WORLD, &requests[part]);
	if (rank > 0) {
		MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
		return;
	}
	for (int turn = 0; turn < (size - 1) * MANY; turn++) {
		int from = 1 + turn / MANY, part = is_inverse ? MANY - 1 - turn % MANY : turn % MANY;
		MPI_Recv(table + (size_t)((from - 1) * MANY + part) * PART, PART, MPI_BYTE, from, part, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	}
	put(is_inverse ? "inverse" : "same", (size_t)(size - 1) * MANY * PART);
	print(is_inverse ? "inverse" : "same", round, (size_t)(size - 1) * MANY * PART);
}

/* The second half of the ranks send to two of the first half, which receive from them in different orders. */
static void to_two(int round)
{
	MPI_Request requests[2];
	int half = size / 2;

	if (rank >= half) {
		for (int turn = 0; turn < 2; turn++) {
			int to = (rank + turn) % 2;
			MPI_Isend(sent + (size_t)to * PART, PART, MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[turn]);
		}
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	} else if (rank < 2) {
		for (int turn = 0; turn < size - half; turn++) {
			int number = rank == 0 ? turn : size - half - 1 - turn;
			MPI_Recv(table + (size_t)number * PART, PART, MPI_BYTE, half + number, 0, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		}
		put("two", (size_t)(size - half) * PART);
		print("two", round, (size_t)(size - half) * PART);
	}
}

/* Neighbours exchange parts, and use what they have received before their own sends are complete. */
static void mutual(int round, int is_written)
{
	MPI_Request send, receive;
	int other = rank ^ 1;

	if (other >= size)
		return;
	MPI_Isend(sent, PART, MPI_BYTE, other, 0, MPI_COMM_WORLD, &send);
	MPI_Irecv(table, PART, MPI_BYTE, other, 0, MPI_COMM_WORLD, &receive);
	MPI_Wait(&receive, MPI_STATUS_IGNORE);
	if (is_written)
		put("mutual", PART);
	print("mutual", round, PART);
	MPI_Wait(&send, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(argc == 2 && size >= 2, "the arguments");
	directory = argv[1];
	sent = malloc((size_t)MANY * PART);
	table = malloc((size_t)size * MANY * PART);
	must(sent && table, "malloc");
	for (int round = 0; round < ROUNDS; round++) {
		fill(round);
		to_one(round, 0);
		to_one(round, 1);
		to_two(round);
		mutual(round, 1);
		mutual(round, 0);
	}
	MPI_Finalize();
	return 0;
}
