/*
 * Blocks of a matrix, of 2 rows and as many columns as fit the ranks, are gathered by a vector type: between the rows
 * of one block lie those of others. The root reads the matrix in several orders, with rows from a part of a page to
 * some pages, and then writes it. Prints how many elements are not what the ranks have sent.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank, size, file;

struct board {
	/* Of a block. */
	int rows, columns;
	/* Of the matrix, in blocks. */
	int across;
	int *all, *own;
};

static long width(const struct board *b)
{
	return (long)b->across * b->columns;
}

static long height(const struct board *b)
{
	return (long)size / b->across * b->rows;
}

static int element(int owner, long at)
{
	return (owner + 1) * 100000000 + (int)at;
}

static long wrong_at(const struct board *b, const int *all, long y, long x)
{
	int owner = (int)(y / b->rows * b->across + x / b->columns);

	return all[y * width(b) + x] != element(owner, y % b->rows * b->columns + x % b->columns);
}

static long forward(const struct board *b)
{
	long wrong = 0;

	for (long y = 0; y < height(b); y++)
		for (long x = 0; x < width(b); x++)
			wrong += wrong_at(b, b->all, y, x);
	return wrong;
}

static long backward(const struct board *b)
{
	long wrong = 0;

	for (long y = height(b); y-- > 0;)
		for (long x = width(b); x-- > 0;)
			wrong += wrong_at(b, b->all, y, x);
	return wrong;
}

static long by_column(const struct board *b)
{
	long wrong = 0;

	for (long x = width(b); x-- > 0;)
		for (long y = 0; y < height(b); y++)
			wrong += wrong_at(b, b->all, y, x);
	return wrong;
}

static long here_and_there(const struct board *b)
{
	unsigned long state = 1;
	long wrong = 0;

	for (int i = 0; i < 300; i++) {
		state = state * 6364136223846793005 + 1442695040888963407;
		wrong += wrong_at(b, b->all, (long)(state >> 33) % height(b), (long)(state >> 20) % width(b));
	}
	return wrong + forward(b);
}

/* A row at a time, from the middle on. */
static long by_system_call(const struct board *b)
{
	size_t row_bytes = (size_t)width(b) * sizeof(int);
	int *copy = malloc((size_t)height(b) * row_bytes);
	int aside = memfd_create("aside", 0);
	long wrong = 0;

	for (long i = 0; i < height(b); i++) {
		long y = (i + height(b) / 2) % height(b);

		if (pwrite(aside, b->all + y * width(b), row_bytes, 0) != (ssize_t)row_bytes ||
			pread(aside, copy + y * width(b), row_bytes, 0) != (ssize_t)row_bytes)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (long y = 0; y < height(b); y++)
		for (long x = 0; x < width(b); x++)
			wrong += wrong_at(b, copy, y, x);
	close(aside);
	free(copy);
	return wrong;
}

/* The program writes a part of a page before it reads it. */
static long after_a_store(const struct board *b)
{
	long at = height(b) / 2 * width(b) + width(b) / 2 + 3;
	int there = element((int)(height(b) / 2 / b->rows * b->across + (width(b) / 2 + 3) / b->columns),
		height(b) / 2 % b->rows * b->columns + (width(b) / 2 + 3) % b->columns);

	b->all[at] = -1;
	long wrong = (b->all[at] != -1);

	b->all[at] = there;
	return wrong + forward(b);
}

static long after_a_write(const struct board *b)
{
	ssize_t bytes = height(b) * width(b) * (ssize_t)sizeof(int);

	return (pwrite(file, b->all, (size_t)bytes, 0) != bytes) + by_column(b);
}

static void *from_a_thread(void *of)
{
	return (void *)backward(of);
}

static long by_thread(const struct board *b)
{
	pthread_t thread;
	void *wrong = NULL;

	if (pthread_create(&thread, NULL, from_a_thread, (void *)(size_t)b) != 0 || pthread_join(thread, &wrong) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return (long)wrong;
}

static inline __attribute__((always_inline)) void gather_and(const char *name, long (*visit)(const struct board *),
	int rows, int columns)
{
	struct board b = {.rows = rows, .columns = columns, .across = size % 2 ? size : size / 2};
	MPI_Datatype block, resized;
	int *counts = malloc((size_t)size * sizeof(int)), *displs = malloc((size_t)size * sizeof(int));
	size_t elements = (size_t)rows * (size_t)columns;

	b.own = malloc(elements * sizeof(int));
	for (size_t i = 0; i < elements; i++)
		b.own[i] = element(rank, (long)i);
	if (rank == 0)
		b.all = malloc(elements * sizeof(int) * (size_t)size);
	for (int i = 0; i < size; i++) {
		counts[i] = 1;
		displs[i] = (int)(i / b.across * rows * width(&b)) + i % b.across * columns;
	}
	MPI_Type_vector(rows, columns, (int)width(&b), MPI_INT, &block);
	MPI_Type_create_resized(block, 0, sizeof(int), &resized);
	MPI_Type_commit(&resized);
	MPI_Gatherv(b.own, (int)elements, MPI_INT, b.all, counts, displs, resized, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		long first_visit = visit(&b), second = forward(&b);

		printf("%s, %d by %d: %ld wrong, then %ld\n", name, rows, columns, first_visit, second);
	}
	MPI_Type_free(&block);
	MPI_Type_free(&resized);
	free(b.all);
	free(b.own);
	free(counts);
	free(displs);
}

/* Each order at each size is a call site of its own: one without gain is left alone after some times. */
#define SIZES(visit) \
	gather_and(#visit, visit, 64, 256); \
	gather_and(#visit, visit, 33, 1024); \
	gather_and(#visit, visit, 20, 1501); \
	gather_and(#visit, visit, 16, 2048); \
	gather_and(#visit, visit, 13, 3333)

int main(int count, char **argv)
{
	char path[4096];

	MPI_Init(&count, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	snprintf(path, sizeof(path), "%s/out", argv[1]);
	file = rank ? -1 : open(path, O_RDWR | O_CREAT, 0666);
	SIZES(forward);
	SIZES(backward);
	SIZES(by_column);
	SIZES(here_and_there);
	SIZES(by_system_call);
	SIZES(after_a_store);
	SIZES(after_a_write);
	/* From here on there are threads. */
	SIZES(by_thread);
	MPI_Finalize();
	return 0;
}
