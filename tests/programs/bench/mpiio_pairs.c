/*
 * The library's effect on one operation, measured in pairs within one run: by calls that the library interposes, and
 * past the library, by the functions of MPI's and the C library themselves. Processes stay on their processors
 * meanwhile, and other load stays the same. Both variants are measured in each of two sets of memory and files: which
 * pages of the machine a set lies in makes it up to a third slower or faster than the other.
 *
 * Usage: mpiio_pairs PATTERN BYTES PAIRS_MIN PAIRS_MAX SECONDS_MAX DIR. There is a file DIR/in of so many bytes; there
 * are as many pairs as the time allows. For each of them rank 0 prints `pair=PAST,WITH`, both in seconds. Short
 * operations are done several times in each turn.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "past.h"

/* As read and write, but all of it. */
struct calls {
	void (*read_at)(int, char *, size_t, off_t);
	void (*write_at)(int, const char *, size_t, off_t);
	int (*scatter)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
	int (*gather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	int (*receive)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
	int (*broadcast)(void *, int, MPI_Datatype, int, MPI_Comm);
};

/* The output file, and memory: all of it at rank 0, and this rank's. What is broadcast is both. */
struct set {
	int out;
	char *all, *mine;
};

/* An operation is repeated for about so many bytes. */
#define TURN_BYTES (256UL << 10)
#define REPEATED_MAX 64UL

static int rank, size;
static size_t bytes, part;
/* Of blocks: a matrix of `rows` rows, of which each rank has a block of `block_rows` by `block_row` bytes. */
static size_t row, block_rows, block_row;
static int blocks_across;

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

#define MOVES(name, type, one_call) \
	static void name(int fd, type *memory, size_t left, off_t at) \
	{ \
		while (left > 0) { \
			ssize_t moved = one_call; \
			must(moved > 0, #name); \
			memory += moved; \
			at += moved; \
			left -= (size_t)moved; \
		} \
	}

/* As the C library has them: they aren't bare system calls in a process with threads. */
static ssize_t (*own_pread)(int, void *, size_t, off_t);
static ssize_t (*own_pwrite)(int, const void *, size_t, off_t);

MOVES(read_with, char, pread(fd, memory, left, at))
MOVES(read_past, char, own_pread(fd, memory, left, at))
MOVES(write_with, const char, pwrite(fd, memory, left, at))
MOVES(write_past, const char, own_pwrite(fd, memory, left, at))

static void find_own(void)
{
	*(void **)&own_pread = past(LIBC_SO, "pread");
	*(void **)&own_pwrite = past(LIBC_SO, "pwrite");
}

static int input, zeros;

static void read_scatter(const struct calls *c, const struct set *s)
{
	if (rank == 0)
		c->read_at(input, s->all, bytes, 0);
	c->scatter(s->all, (int)part, MPI_BYTE, s->mine, (int)part, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void read_broadcast(const struct calls *c, const struct set *s)
{
	if (rank == 0)
		c->read_at(input, s->mine, part, 0);
	c->broadcast(s->mine, (int)part, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void gather_write(const struct calls *c, const struct set *s)
{
	c->gather(s->mine, (int)part, MPI_BYTE, s->all, (int)part, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0)
		c->write_at(s->out, s->all, bytes, 0);
}

static off_t block_at(int of, size_t in_block)
{
	size_t down = (size_t)(of / blocks_across) * block_rows + in_block, across = (size_t)(of % blocks_across);
	return (off_t)(down * row + across * block_row);
}

static void read_send(const struct calls *c, const struct set *s)
{
	for (int to = size - 1; to >= 0 && rank == 0; to--) {
		for (size_t n = 0; n < block_rows; n++)
			c->read_at(input, s->mine + n * block_row, block_row, block_at(to, n));
		if (to > 0)
			c->send(s->mine, (int)(block_rows * block_row), MPI_BYTE, to, 0, MPI_COMM_WORLD);
	}
	if (rank > 0)
		c->receive(s->mine, (int)(block_rows * block_row), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_write(const struct calls *c, const struct set *s)
{
	if (rank > 0)
		c->send(s->mine, (int)(block_rows * block_row), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	for (int from = 0; from < size && rank == 0; from++) {
		char *block = from ? s->all : s->mine;

		if (from > 0)
			c->receive(block, (int)(block_rows * block_row), MPI_BYTE, from, 0, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		for (size_t n = 0; n < block_rows; n++)
			c->write_at(s->out, block + n * block_row, block_row, block_at(from, n));
	}
}

static const struct pattern {
	const char *name;
	void (*run)(const struct calls *, const struct set *);
	int is_write;
} patterns[] = {
	{"read+scatter", read_scatter, 0},
	{"gather+write", gather_write, 1},
	{"read+send", read_send, 0},
	{"receive+write", receive_write, 1},
	{"read+bcast", read_broadcast, 0},
};
#define PATTERNS (sizeof(patterns) / sizeof(*patterns))

static void fill(char *memory, uint64_t seed)
{
	for (size_t at = 0; at + sizeof(seed) <= part; at += sizeof(seed)) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		memcpy(memory + at, &seed, sizeof(seed));
	}
}

/* Reads all of a part, as a computation with it would. */
static uint64_t sum(const char *memory)
{
	uint64_t all = 0, word;

	for (size_t at = 0; at + sizeof(word) <= part; at += sizeof(word)) {
		memcpy(&word, memory + at, sizeof(word));
		all = all * 31 + word;
	}
	return all;
}

/* Data that the last turn has deferred is dropped, as by a program's next read: the other variant mustn't pay for
 * it. */
static void overwrite(const struct set *s)
{
	size_t left = rank == 0 ? bytes : 0;

	for (ssize_t got; left > 0; left -= (size_t)got) {
		got = read(zeros, s->all + bytes - left, left);
		must(got > 0, "/dev/zero");
	}
}

static double seconds_of(const struct pattern *pattern, const struct calls *c, const struct set *s, unsigned int turn,
	uint64_t *seen)
{
	/* Files are overwritten: the rate of new pages is the machine's. */
	if (pattern->is_write)
		fill(s->mine, (uint64_t)turn * 64 + (uint64_t)rank);
	size_t repetitions = TURN_BYTES / bytes,
	       times = repetitions < 1       ? 1
		: repetitions > REPEATED_MAX ? REPEATED_MAX
					     : repetitions;
	overwrite(s);
	PMPI_Barrier(MPI_COMM_WORLD);
	double start = PMPI_Wtime();
	for (size_t n = 0; n < times; n++) {
		pattern->run(c, s);
		*seen = pattern->is_write ? 0 : sum(s->mine);
	}
	PMPI_Barrier(MPI_COMM_WORLD);
	return (PMPI_Wtime() - start) / (double)times;
}

/* Memory that lies in its pages as the other set's does. */
static char *alike(size_t count)
{
	void *memory = NULL;

	must(posix_memalign(&memory, 2UL << 20, count) == 0, "posix_memalign");
	return memory;
}

static int is_same(int one, int other)
{
	char *a = malloc(bytes), *b = malloc(bytes);

	must(a && b, "malloc");
	read_past(one, a, bytes, 0);
	read_past(other, b, bytes, 0);
	int same = memcmp(a, b, bytes) == 0;
	free(a);
	free(b);
	return same;
}

static int opened(const char *directory, const char *name, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	int fd = open(path, flags, 0600);
	must(fd >= 0, path);
	return fd;
}

int main(int argc, char **argv)
{
	struct calls past_it = {read_past, write_past, past(NULL, "PMPI_Scatter"), past(NULL, "PMPI_Gather"),
		past(NULL, "PMPI_Send"), past(NULL, "PMPI_Recv"), past(NULL, "PMPI_Bcast")};
	struct calls with = {read_with, write_with, MPI_Scatter, MPI_Gather, MPI_Send, MPI_Recv, MPI_Bcast};
	struct calls *variants[] = {&past_it, &with};
	struct set sets[2];
	const struct pattern *pattern = patterns;

	if (argc < 7)
		return 2;
	find_own();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	while (pattern < patterns + PATTERNS - 1 && strcmp(pattern->name, argv[1]))
		pattern++;
	int is_broadcast = pattern->run == read_broadcast;
	size_t parts = is_broadcast ? 1 : (size_t)size;
	part = strtoul(argv[2], NULL, 10) / parts;
	long pairs_min = atol(argv[3]), pairs_max = atol(argv[4]);
	double seconds_max = atof(argv[5]);
	/* As square as powers of two allow, if there are 4 ranks. */
	blocks_across = size % 2 ? 1 : 2;
	for (block_row = 1; block_row * block_row * 4 <= part;)
		block_row *= 2;
	block_rows = part / block_row;
	part = block_row * block_rows;
	row = block_row * (size_t)blocks_across;
	bytes = part * parts;
	for (int n = 0; n < 2; n++) {
		sets[n] = (struct set){.out = -1, .mine = alike(part)};
		if (rank == 0)
			sets[n].all = is_broadcast ? sets[n].mine : alike(bytes);
		/* Now, not in the first turn. */
		memset(sets[n].mine, 1, part);
		if (rank == 0)
			memset(sets[n].all, 1, bytes);
		if (rank == 0 && pattern->is_write)
			sets[n].out = opened(argv[6], n ? "other" : "one", O_RDWR | O_CREAT | O_TRUNC);
	}
	zeros = open("/dev/zero", O_RDONLY);
	if (rank == 0 && !pattern->is_write)
		input = opened(argv[6], "in", O_RDONLY);
	double end = PMPI_Wtime() + seconds_max;
	for (long n = 0, continues = 1; continues; n++) {
		double seconds[2] = {0, 0};

		for (int turn = 0; turn < 2; turn++) {
			uint64_t seen[2];

			for (int step = 0; step < 2; step++) {
				int variant = (int)((n + turn + step) % 2);
				seconds[variant] += seconds_of(pattern, variants[variant], &sets[step], (unsigned int)n,
					&seen[variant]);
			}
			must(seen[0] == seen[1], "what was read is the same");
		}
		if (rank == 0)
			printf("pair=%.9f,%.9f\n", seconds[0] / 2, seconds[1] / 2);
		continues = n + 1 < pairs_min || (n + 1 < pairs_max && PMPI_Wtime() < end);
		PMPI_Bcast(&continues, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	}
	must(rank > 0 || !pattern->is_write || is_same(sets[0].out, sets[1].out), "what was written is the same");
	MPI_Finalize();
	return 0;
}
