/*
 * Rows by Scatter and Gather: rank 0 reads a table of bytes and gives every rank as many rows as the others (with
 * --by scatterv: as many as it can), each rank changes its rows, and rank 0 collects and writes them.
 *
 *   rows --in FILE --out FILE [--rows N] [--row-bytes N] [--header N] [--steps N] [--read METHOD] [--write METHOD]
 *        [--by scatter|scatterv|type] [--in-place] [--line] [--fresh] [--later] [--twin]
 *
 * A step is one table; the tables lie one after the other, behind the header, in one file, or with --files in files
 * FILE.0, FILE.1, …, each closed before the next step. METHOD: plain, at, vector, stdio, mpi, mpi_at. --line: one row
 * by each call. --fresh: rank 0 takes new memory for each step. --later: by Iscatter and Igather, which a wait
 * completes. --twin: each rank reads and writes its own rows, collectively.
 */
#define _GNU_SOURCE
#include "io_method.h"

enum by { SCATTER, SCATTERV, TYPE };

static struct {
	const char *in, *out;
	long rows, row_bytes, header, steps;
	enum method read, write;
	enum by by;
	int in_place, line, fresh, later, twin, files;
} options;

static int *counts, *displs;
static char *header;

static void options_read(int argc, char **argv)
{
	const char *by = option(argc, argv, "by", "scatter");

	options.in = option(argc, argv, "in", "rows.in");
	options.out = option(argc, argv, "out", "rows.out");
	options.rows = number(argc, argv, "rows", 1024);
	options.row_bytes = number(argc, argv, "row-bytes", 1024);
	options.header = number(argc, argv, "header", 0);
	options.steps = number(argc, argv, "steps", 1);
	options.read = method_of(option(argc, argv, "read", "plain"));
	options.write = method_of(option(argc, argv, "write", "plain"));
	options.by = !strcmp(by, "scatter") ? SCATTER : !strcmp(by, "scatterv") ? SCATTERV : TYPE;
	options.in_place = flag(argc, argv, "in-place");
	options.line = flag(argc, argv, "line");
	options.fresh = flag(argc, argv, "fresh");
	options.later = flag(argc, argv, "later");
	options.twin = flag(argc, argv, "twin");
	options.files = flag(argc, argv, "files");
}

/* The rows of all ranks, which for Scatter are fewer than the table's if they can't be divided. */
static long rows_used(void)
{
	return options.by == SCATTERV ? options.rows : options.rows / size * size;
}

static size_t table_bytes(void)
{
	return (size_t)(rows_used() * options.row_bytes);
}

/* The ranks' rows, in rows. */
static void divide(void)
{
	counts = memory((size_t)size * sizeof *counts);
	displs = memory((size_t)size * sizeof *displs);
	for (int i = 0; i < size; i++) {
		counts[i] = (int)part(rows_used(), size, i);
		displs[i] = (int)before(rows_used(), size, i);
	}
}

static const char *name_of(const char *path, long step)
{
	static char name[4096];

	if (!options.files)
		return path;
	snprintf(name, sizeof name, "%s.%ld", path, step);
	return name;
}

/* One row as a type: a vector of bytes at its own displacement, so that it isn't contiguous for the library alone. */
static MPI_Datatype row_type(void)
{
	MPI_Datatype row;

	if (options.by == TYPE)
		MPI_Type_vector((int)options.row_bytes, 1, 1, MPI_BYTE, &row);
	else
		MPI_Type_contiguous((int)options.row_bytes, MPI_BYTE, &row);
	MPI_Type_commit(&row);
	return row;
}

static void file_lines(struct file *file, char *table, int writes)
{
	if (!options.line) {
		file_move(file, table, table_bytes(), writes);
		return;
	}
	for (long row = 0; row < rows_used(); row++)
		file_move(file, table + row * options.row_bytes, (size_t)options.row_bytes, writes);
}

static void scatter_later(char *table, char *mine, MPI_Datatype row)
{
	void *to = options.in_place && rank == 0 ? MPI_IN_PLACE : mine;
	MPI_Request request;
	int own = counts[rank], bytes = (int)(own * options.row_bytes);

	if (options.by == SCATTERV)
		MPI_Iscatterv(table, counts, displs, row, to, own, row, 0, MPI_COMM_WORLD, &request);
	else if (options.by == TYPE)
		MPI_Iscatter(table, own, row, to, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
	else
		MPI_Iscatter(table, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void scatter(char *table, char *mine, MPI_Datatype row)
{
	void *to = options.in_place && rank == 0 ? MPI_IN_PLACE : mine;
	int own = counts[rank], bytes = (int)(own * options.row_bytes);

	if (options.by == SCATTERV)
		MPI_Scatterv(table, counts, displs, row, to, own, row, 0, MPI_COMM_WORLD);
	else if (options.by == TYPE)
		MPI_Scatter(table, own, row, to, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
	else
		MPI_Scatter(table, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void gather_later(char *table, char *mine, MPI_Datatype row)
{
	void *from = options.in_place && rank == 0 ? MPI_IN_PLACE : mine;
	MPI_Request request;
	int own = counts[rank], bytes = (int)(own * options.row_bytes);

	if (options.by == SCATTERV)
		MPI_Igatherv(from, own, row, table, counts, displs, row, 0, MPI_COMM_WORLD, &request);
	else if (options.by == TYPE)
		MPI_Igather(from, bytes, MPI_BYTE, table, own, row, 0, MPI_COMM_WORLD, &request);
	else
		MPI_Igather(from, bytes, MPI_BYTE, table, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void gather(char *table, char *mine, MPI_Datatype row)
{
	void *from = options.in_place && rank == 0 ? MPI_IN_PLACE : mine;
	int own = counts[rank], bytes = (int)(own * options.row_bytes);

	if (options.by == SCATTERV)
		MPI_Gatherv(from, own, row, table, counts, displs, row, 0, MPI_COMM_WORLD);
	else if (options.by == TYPE)
		MPI_Gather(from, bytes, MPI_BYTE, table, own, row, 0, MPI_COMM_WORLD);
	else
		MPI_Gather(from, bytes, MPI_BYTE, table, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* The file of this step is open behind its header. */
static void next_file(struct file *file, long step, int writes)
{
	if (step && !options.files)
		return;
	if (step && !writes)
		file_close(file);
	*file = file_open(name_of(writes ? options.out : options.in, step), writes ? options.write : options.read,
		writes);
	file_move(file, header, (size_t)options.header, writes);
}

static void naive(char *mine)
{
	size_t own = (size_t)counts[rank] * (size_t)options.row_bytes;
	char *table = rank == 0 ? memory(table_bytes()) : NULL;
	MPI_Datatype row = row_type();
	struct file in, out;

	for (long step = 0; step < options.steps; step++) {
		double at = begin();

		if (rank == 0 && options.fresh) {
			free(table);
			table = memory(table_bytes());
		}
		if (rank == 0) {
			next_file(&in, step, 0);
			file_lines(&in, table, 0);
		}
		(options.later ? scatter_later : scatter)(table, mine, row);
		read_s += MPI_Wtime() - at;
		char *data = options.in_place && rank == 0 ? table : mine;
		compute((unsigned char *)data, own);
		count(data, own);
		at = begin();
		(options.later ? gather_later : gather)(table, mine, row);
		if (rank == 0) {
			next_file(&out, step, 1);
			file_lines(&out, table, 1);
			if (options.files)
				file_close(&out);
		}
		write_s += MPI_Wtime() - at;
	}
	if (rank == 0) {
		file_close(&in);
		if (!options.files)
			file_close(&out);
	}
	free(table);
	MPI_Type_free(&row);
}

static void open_all(MPI_File *file, long step, int writes)
{
	const char *name = name_of(writes ? options.out : options.in, step);
	int mode = writes ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY;

	if (step && !options.files)
		return;
	if (step)
		MPI_File_close(file);
	if (MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, file) != MPI_SUCCESS)
		fail(name);
	if (writes)
		MPI_File_set_size(*file, 0);
	if (rank == 0 && !writes)
		MPI_File_read_at(*file, 0, header, (int)options.header, MPI_BYTE, MPI_STATUS_IGNORE);
	if (rank == 0 && writes)
		MPI_File_write_at(*file, 0, header, (int)options.header, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void twin(char *mine)
{
	MPI_Datatype row = row_type();
	MPI_File in, out;

	for (long step = 0; step < options.steps; step++) {
		double at = begin();
		MPI_Offset table = options.files ? 0 : step * (MPI_Offset)table_bytes();
		MPI_Offset offset = options.header + table + (MPI_Offset)displs[rank] * options.row_bytes;

		open_all(&in, step, 0);
		MPI_File_read_at_all(in, offset, mine, counts[rank], row, MPI_STATUS_IGNORE);
		read_s += MPI_Wtime() - at;
		compute((unsigned char *)mine, (size_t)counts[rank] * (size_t)options.row_bytes);
		count(mine, (size_t)counts[rank] * (size_t)options.row_bytes);
		at = begin();
		open_all(&out, step, 1);
		MPI_File_write_at_all(out, offset, mine, counts[rank], row, MPI_STATUS_IGNORE);
		write_s += MPI_Wtime() - at;
	}
	MPI_File_close(&in);
	MPI_File_close(&out);
	MPI_Type_free(&row);
}

int main(int argc, char **argv)
{
	start(&argc, &argv);
	options_read(argc, argv);
	divide();
	header = memory((size_t)options.header);
	char *mine = memory((size_t)counts[rank] * (size_t)options.row_bytes);
	(options.twin ? twin : naive)(mine);
	free(mine);
	free(header);
	free(counts);
	free(displs);
	return finish();
}
