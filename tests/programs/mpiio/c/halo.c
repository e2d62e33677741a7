/*
 * Rows with borders: each rank has rows of a file, and some rows on both sides that its neighbours have, too. Rank 0
 * receives the rows of one rank after the other into the same buffer, borders included, and writes them: the rows of the
 * next rank replace some of those before.
 *
 *   halo --out FILE [--rows N] [--row-bytes N] [--border N] [--steps N] [--reverse] [--separate] [--twin]
 *
 * --reverse: the last rank's rows come first. --separate: a buffer for each rank, which is checked at the end.
 * --twin: each rank writes what no later rank replaces.
 */
#define _GNU_SOURCE
#include "io_method.h"

enum { TAG = 9 };

static struct {
	const char *out;
	long rows, row_bytes, border, steps;
	int reverse, separate, twin;
} options;

/* The rows of a rank with its borders: the first, and the one behind them. */
static long first_of(int of)
{
	long first = before(options.rows, size, of) - options.border;

	return first > 0 ? first : 0;
}

static long end_of(int of)
{
	long end = before(options.rows, size, of) + part(options.rows, size, of) + options.border;

	return end < options.rows ? end : options.rows;
}

static size_t bytes_of(int of)
{
	return (size_t)(end_of(of) - first_of(of)) * (size_t)options.row_bytes;
}

static void write_all(int fd, const char *data, size_t bytes, off_t at)
{
	for (ssize_t done; bytes; data += done, at += done, bytes -= (size_t)done)
		if ((done = pwrite(fd, data, bytes, at)) <= 0)
			fail(options.out);
}

static void naive(char *mine, char **buffers)
{
	MPI_Request request;
	int fd;

	MPI_Isend(mine, (int)bytes_of(rank), MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	if (rank == 0) {
		fd = open(options.out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd < 0)
			fail(options.out);
		for (int i = 0; i < size; i++) {
			int from = options.reverse ? size - 1 - i : i;
			char *buffer = buffers[options.separate ? from : 0];

			MPI_Recv(buffer, (int)bytes_of(from), MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			write_all(fd, buffer, bytes_of(from), (off_t)(first_of(from) * options.row_bytes));
		}
		if (close(fd))
			fail(options.out);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void twin(const char *mine)
{
	long first = first_of(rank), end = end_of(rank);
	MPI_File file;

	if (!options.reverse && rank < size - 1)
		end = first_of(rank + 1);
	if (options.reverse && rank > 0)
		first = end_of(rank - 1);
	if (MPI_File_open(MPI_COMM_WORLD, options.out, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file) !=
		MPI_SUCCESS)
		fail(options.out);
	MPI_File_set_size(file, 0);
	MPI_File_write_at_all(file, first * options.row_bytes, mine + (first - first_of(rank)) * options.row_bytes,
		(int)((end - first) * options.row_bytes), MPI_BYTE, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
}

/* The data of a rank before the first step. */
static void fill(char *data, int of)
{
	for (size_t at = 0; at < bytes_of(of); at++)
		data[at] = (char)(at * 31 + at / 4099 + (size_t)of * 17);
}

/* What was received is still there, whatever became of the file. */
static void check(char **buffers)
{
	for (int i = 0; i < size; i++) {
		char *expected = memory(bytes_of(i));

		fill(expected, i);
		for (long step = 0; step < options.steps; step++)
			compute((unsigned char *)expected, bytes_of(i));
		if (memcmp(buffers[i], expected, bytes_of(i)))
			fail("a buffer has other bytes");
		free(expected);
	}
}

int main(int argc, char **argv)
{
	start(&argc, &argv);
	options.out = option(argc, argv, "out", "halo.out");
	options.rows = number(argc, argv, "rows", 1024);
	options.row_bytes = number(argc, argv, "row-bytes", 1024);
	options.border = number(argc, argv, "border", 2);
	options.steps = number(argc, argv, "steps", 1);
	options.reverse = flag(argc, argv, "reverse");
	options.separate = flag(argc, argv, "separate");
	options.twin = flag(argc, argv, "twin");
	char *mine = memory(bytes_of(rank)), *buffers[size];
	for (int i = 0; i < size; i++)
		buffers[i] = rank || (i && !options.separate)
			? NULL
			: memory((size_t)(part(options.rows, size, 0) + 2 * options.border) *
				  (size_t)options.row_bytes);
	fill(mine, rank);
	for (long step = 0; step < options.steps; step++) {
		compute((unsigned char *)mine, bytes_of(rank));
		double at = begin();

		if (options.twin)
			twin(mine);
		else
			naive(mine, buffers);
		write_s += MPI_Wtime() - at;
	}
	count(mine, bytes_of(rank));
	if (options.separate && !options.twin && !rank)
		check(buffers);
	for (int i = 0; i < size; i++)
		free(buffers[i]);
	free(mine);
	return finish();
}
