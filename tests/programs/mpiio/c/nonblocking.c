/*
 * MPI_Iscatter(v) of what the root has read, and MPI_Igather(v) of what it writes, completed by each of MPI's calls. In
 * some rounds two operations are under way, of two communicators, which the ranks begin in different orders. Ranks print
 * checksums.
 *
 *   nonblocking DIRECTORY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART = 300007, ROUNDS = 18, RANKS_MAX = 64 };

#if MPI_VERSION >= 4
typedef MPI_Count number;
typedef MPI_Aint displacement;
#define Iscatter MPI_Iscatter_c
#define Igather MPI_Igather_c
#define Iscatterv MPI_Iscatterv_c
#define Igatherv MPI_Igatherv_c
#else
typedef int number, displacement;
#define Iscatter MPI_Iscatter
#define Igather MPI_Igather
#define Iscatterv MPI_Iscatterv
#define Igatherv MPI_Igatherv
#endif

static int rank, size, root;
static MPI_Comm comms[2];
static char in[1024], out[1024];
static int counts[RANKS_MAX], starts[RANKS_MAX];
static number large_counts[RANKS_MAX];
static displacement large_starts[RANKS_MAX];

static uint64_t sum(const char *data, size_t bytes)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < bytes; at++)
		sum = sum * 31 + (unsigned char)data[at];
	return sum;
}

static void must(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "rank %d: not so: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void make(size_t bytes)
{
	char *data = malloc(bytes);
	int fd = open(in, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (size_t at = 0; at < bytes; at++)
		data[at] = (char)(at * 7 + at / 251);
	must(write(fd, data, bytes) == (ssize_t)bytes, in);
	close(fd);
	free(data);
}

/* Reads what the root of the first communicator distributes. */
static void read_at(char *all, size_t bytes, off_t offset)
{
	int fd = open(in, O_RDONLY);

	must(pread(fd, all, bytes, offset) == (ssize_t)bytes, "read");
	close(fd);
}

static void write_at(const char *all, size_t bytes, off_t offset)
{
	int fd = open(out, O_WRONLY | O_CREAT, 0644);

	must(pwrite(fd, all, bytes, offset) == (ssize_t)bytes, "write");
	close(fd);
}

/* Completes requests by one of MPI's calls. */
static void complete(int how, int count, MPI_Request *requests)
{
	MPI_Status statuses[4];
	int indices[4], is_done = 0, done = 0, index, left = count;

	switch (how % 9) {
	case 0:
		for (int one = 0; one < count; one++)
			MPI_Wait(&requests[one], &statuses[one]);
		break;
	case 1:
		for (int one = count - 1; one >= 0; one--)
			for (is_done = 0; !is_done;)
				MPI_Test(&requests[one], &is_done, MPI_STATUS_IGNORE);
		break;
	case 2:
		MPI_Waitall(count, requests, statuses);
		break;
	case 3:
		while (!is_done)
			MPI_Testall(count, requests, &is_done, MPI_STATUSES_IGNORE);
		break;
	case 4:
		for (; left > 0; left--)
			MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
		break;
	case 5:
		for (; left > 0; left -= done)
			MPI_Waitsome(count, requests, &done, indices, statuses);
		break;
	case 6:
		for (; left > 0; left -= done)
			MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
		break;
	case 7:
		for (; left > 0; left -= is_done)
			MPI_Testany(count, requests, &index, &is_done, MPI_STATUS_IGNORE);
		break;
	default:
		for (int one = 0; one < count; one++) {
			for (is_done = 0; !is_done;)
				MPI_Request_get_status(requests[one], &is_done, &statuses[one]);
			MPI_Wait(&requests[one], MPI_STATUS_IGNORE);
		}
	}
	for (int one = 0; one < count; one++)
		must(requests[one] == MPI_REQUEST_NULL, "no request is left");
}

/* One round with parts of one size, in one communicator. */
static void even(int round, char *all, char *mine)
{
	MPI_Request request;
	MPI_Comm comm = comms[round % 2];
	int is_root, own;

	MPI_Comm_rank(comm, &own);
	is_root = own == root;
	if (is_root)
		read_at(all, (size_t)size * PART, round);
	memset(mine, 0, PART);
	if (is_root && round % 3 == 0) {
		Iscatter(all, PART, MPI_BYTE, MPI_IN_PLACE, PART, MPI_BYTE, root, comm, &request);
		complete(round, 1, &request);
		memcpy(mine, all + (size_t)root * PART, PART);
	} else {
		MPI_Iscatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, root, comm, &request);
		complete(round, 1, &request);
	}
	printf("rank %d round %d: %llu\n", rank, round, (unsigned long long)sum(mine, PART));
	memset(mine, round + rank, 1000);
	if (is_root && round % 3 == 0) {
		memcpy(all + (size_t)root * PART, mine, PART);
		MPI_Igather(MPI_IN_PLACE, PART, MPI_BYTE, all, PART, MPI_BYTE, root, comm, &request);
	} else {
		Igather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, root, comm, &request);
	}
	complete(round, 1, &request);
	memset(mine, 0xee, PART);
	if (is_root)
		write_at(all, (size_t)size * PART, (off_t)round * size * PART);
}

/* Two at once, with parts of different sizes in the first one. */
static void two(int round, char *all, char *mine, char *others, char *other)
{
	MPI_Request requests[2];
	int own, total = starts[size - 1] + counts[size - 1];

	MPI_Comm_rank(comms[1], &own);
	if (rank == 0)
		read_at(all, (size_t)total, 5 * round);
	if (own == root)
		read_at(others, (size_t)size * PART, 7 * round);
	for (int turn = 0; turn < 2; turn++) {
		if ((turn + rank) % 2)
			MPI_Iscatterv(all, counts, starts, MPI_BYTE, mine, counts[rank], MPI_BYTE, 0, comms[0],
				&requests[0]);
		else
			MPI_Iscatter(others, PART, MPI_BYTE, other, PART, MPI_BYTE, root, comms[1], &requests[1]);
	}
	complete(round, 2, requests);
	printf("rank %d round %d: %llu %llu\n", rank, round, (unsigned long long)sum(mine, (size_t)counts[rank]),
		(unsigned long long)sum(other, PART));
	memset(mine, round + rank, 1000);
	for (int turn = 0; turn < 2; turn++) {
		if ((turn + rank) % 2)
			Igatherv(mine, counts[rank], MPI_BYTE, all, large_counts, large_starts, MPI_BYTE, 0, comms[0],
				&requests[0]);
		else
			MPI_Igather(other, PART, MPI_BYTE, others, PART, MPI_BYTE, root, comms[1], &requests[1]);
	}
	complete(round, 2, requests);
	memset(other, 0xdd, PART);
	if (rank == 0)
		write_at(all, (size_t)total, (off_t)(ROUNDS + 2 * round) * size * PART);
	if (own == root)
		write_at(others, (size_t)size * PART, (off_t)(ROUNDS + 2 * round + 1) * size * PART);
}

int main(int argc, char **argv)
{
	int total = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(argc == 2 && size <= RANKS_MAX, "the arguments");
	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
	snprintf(in, sizeof in, "%s/in", argv[1]);
	snprintf(out, sizeof out, "%s/out", argv[1]);
	for (int to = 0; to < size; to++) {
		large_counts[to] = counts[to] = PART - 1000 * to;
		large_starts[to] = starts[to] = total;
		total += counts[to];
	}
	if (rank == 0)
		make((size_t)size * PART + 1000);
	MPI_Barrier(MPI_COMM_WORLD);
	char *all = malloc((size_t)size * PART), *others = malloc((size_t)size * PART);
	char *mine = malloc(PART), *other = malloc(PART);
	for (int round = 0; round < ROUNDS; round++) {
		root = round % 3 == 2 ? size - 1 : 0;
		even(round, all, mine);
		two(round, all, mine, others, other);
	}
	MPI_Comm_free(&comms[1]);
	MPI_Finalize();
	return 0;
}
