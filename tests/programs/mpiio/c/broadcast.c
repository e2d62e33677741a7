/*
 * A file that all ranks need: rank 0 reads it and broadcasts it, whole or piece by piece in the same memory, and each
 * rank writes nothing.
 *
 *   broadcast --in FILE [--bytes N] [--piece N] [--header N] [--steps N] [--read METHOD] [--gaps] [--root N] [--twin]
 *
 * METHOD as for `rows`. --gaps: each rank but the root receives doubles with gaps between them. --twin: all ranks read
 * all, collectively.
 */
#define _GNU_SOURCE
#include "io_method.h"

static struct {
	const char *in;
	long bytes, piece, header, steps;
	enum method read;
	int gaps, root, twin;
} options;

static void options_read(int argc, char **argv)
{
	options.in = option(argc, argv, "in", "broadcast.in");
	options.bytes = number(argc, argv, "bytes", 1 << 20) / 8 * 8;
	options.piece = number(argc, argv, "piece", options.bytes) / 8 * 8;
	options.header = number(argc, argv, "header", 0);
	options.steps = number(argc, argv, "steps", 1);
	options.read = method_of(option(argc, argv, "read", "plain"));
	options.root = (int)number(argc, argv, "root", 0) % size;
	options.gaps = flag(argc, argv, "gaps");
	options.twin = flag(argc, argv, "twin");
}

static void send_piece(char *data, long bytes)
{
	MPI_Datatype gaps;

	if (!options.gaps || rank == options.root) {
		MPI_Bcast(data, (int)(bytes / 8), MPI_DOUBLE, options.root, MPI_COMM_WORLD);
		return;
	}
	MPI_Type_vector((int)(bytes / 8), 1, 2, MPI_DOUBLE, &gaps);
	MPI_Type_commit(&gaps);
	MPI_Bcast(data, 1, gaps, options.root, MPI_COMM_WORLD);
	MPI_Type_free(&gaps);
}

/* Moves what was received with gaps together. */
static void close_gaps(char *data, long bytes)
{
	for (long at = 0; options.gaps && rank != options.root && at < bytes; at += 8)
		memmove(data + at, data + 2 * at, 8);
}

static void naive(char *data)
{
	char *header = memory((size_t)options.header);
	struct file in;

	if (rank == options.root) {
		in = file_open(options.in, options.read, 0);
		file_move(&in, header, (size_t)options.header, 0);
	}
	for (long at = 0; at < options.bytes; at += options.piece) {
		long bytes = options.bytes - at < options.piece ? options.bytes - at : options.piece;
		double start = begin();

		if (rank == options.root)
			file_move(&in, data, (size_t)bytes, 0);
		send_piece(data, bytes);
		read_s += MPI_Wtime() - start;
		close_gaps(data, bytes);
		count(data, (size_t)bytes);
	}
	if (rank == options.root)
		file_close(&in);
	free(header);
}

static void twin(char *data)
{
	MPI_File in;
	double start = begin();

	if (MPI_File_open(MPI_COMM_WORLD, options.in, MPI_MODE_RDONLY, MPI_INFO_NULL, &in) != MPI_SUCCESS)
		fail(options.in);
	MPI_File_read_at_all(in, options.header, data, (int)(options.bytes / 8), MPI_DOUBLE, MPI_STATUS_IGNORE);
	read_s += MPI_Wtime() - start;
	for (long at = 0; at < options.bytes; at += options.piece)
		count(data + at, (size_t)(options.bytes - at < options.piece ? options.bytes - at : options.piece));
	MPI_File_close(&in);
}

int main(int argc, char **argv)
{
	start(&argc, &argv);
	options_read(argc, argv);
	size_t room = (size_t)(options.gaps ? 2 * options.piece : options.piece);
	char *data = memory(options.twin ? (size_t)options.bytes : room);

	memset(data, 'g', room);
	for (long step = 0; step < options.steps; step++)
		(options.twin ? twin : naive)(data);
	free(data);
	return finish();
}
