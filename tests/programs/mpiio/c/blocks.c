/*
 * Blocks of a plane: the ranks form a grid, and each has a block of a matrix of doubles. Rank 0 reads the rows of one
 * row of ranks at a time into one buffer, which it uses again, and sends each rank its block; each rank changes its
 * block; rank 0 receives the blocks of a row of ranks into such a buffer and writes it.
 *
 *   blocks --in FILE --out FILE [--rows N] [--columns N] [--steps N] [--read METHOD] [--write METHOD]
 *          [--type vector|subarray] [--send send|ssend|isend] [--receive recv|irecv] [--late-ms N] [--twin]
 *
 * The last rank sends its block back N milliseconds late. The steps read the same file again and write the same file anew.
 */
#define _GNU_SOURCE
#include "io_method.h"

enum { TAG_IN = 7, TAG_OUT = 8 };

static struct {
	const char *in, *out, *send, *receive;
	long rows, columns, steps, late_ms;
	enum method read, write;
	int subarray, twin;
} options;

static MPI_Comm grid;
static int shape[2], coords[2];
static double *block;

static void options_read(int argc, char **argv)
{
	options.in = option(argc, argv, "in", "blocks.in");
	options.out = option(argc, argv, "out", "blocks.out");
	options.send = option(argc, argv, "send", "send");
	options.receive = option(argc, argv, "receive", "recv");
	options.rows = number(argc, argv, "rows", 512);
	options.columns = number(argc, argv, "columns", 512);
	options.steps = number(argc, argv, "steps", 1);
	options.late_ms = number(argc, argv, "late-ms", 0);
	options.read = method_of(option(argc, argv, "read", "plain"));
	options.write = method_of(option(argc, argv, "write", "plain"));
	options.subarray = !strcmp(option(argc, argv, "type", "vector"), "subarray");
	options.twin = flag(argc, argv, "twin");
}

/* The size of the block at these coordinates of the grid. */
static int height(int i)
{
	return (int)part(options.rows, shape[0], i);
}

static int width(int j)
{
	return (int)part(options.columns, shape[1], j);
}

static size_t block_bytes(void)
{
	return (size_t)height(coords[0]) * (size_t)width(coords[1]) * sizeof(double);
}

/*
 * The block of column j among `rows` whole rows. A subarray begins at the buffer's start, a vector where the block
 * does, which `shift` (in doubles) is.
 */
static MPI_Datatype type_of(int rows, int first, int total, int j, long *shift)
{
	int left = (int)before(options.columns, shape[1], j);
	int sizes[2] = {total, (int)options.columns}, own[2] = {rows, width(j)}, starts[2] = {first, left};
	MPI_Datatype type;

	*shift = options.subarray ? 0 : left;
	if (options.subarray)
		MPI_Type_create_subarray(2, sizes, own, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
	else
		MPI_Type_vector(rows, width(j), (int)options.columns, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	return type;
}

static int rank_at(int i, int j)
{
	int found, at[2] = {i, j};

	MPI_Cart_rank(grid, at, &found);
	return found;
}

/* Sends the blocks of row i of the grid. */
static void send_row(double *rows, int i)
{
	MPI_Request requests[shape[1]];
	int pending = 0;

	for (int j = 0; j < shape[1]; j++) {
		long shift;
		MPI_Datatype type = type_of(height(i), 0, height(i), j, &shift);
		int to = rank_at(i, j);

		if (!strcmp(options.send, "isend"))
			MPI_Isend(rows + shift, 1, type, to, TAG_IN, grid, &requests[pending++]);
		else if (!strcmp(options.send, "ssend"))
			MPI_Ssend(rows + shift, 1, type, to, TAG_IN, grid);
		else
			MPI_Send(rows + shift, 1, type, to, TAG_IN, grid);
		MPI_Type_free(&type);
	}
	MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
}

static void receive_row(double *rows, int i)
{
	MPI_Request requests[shape[1]];
	int pending = 0;

	for (int j = 0; j < shape[1]; j++) {
		long shift;
		MPI_Datatype type = type_of(height(i), 0, height(i), j, &shift);

		if (!strcmp(options.receive, "irecv"))
			MPI_Irecv(rows + shift, 1, type, rank_at(i, j), TAG_OUT, grid, &requests[pending++]);
		else
			MPI_Recv(rows + shift, 1, type, rank_at(i, j), TAG_OUT, grid, MPI_STATUS_IGNORE);
		MPI_Type_free(&type);
	}
	MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
}

static void naive_read(double *rows)
{
	int own = height(coords[0]) * width(coords[1]);
	MPI_Request request;
	struct file in;

	MPI_Irecv(block, own, MPI_DOUBLE, 0, TAG_IN, grid, &request);
	if (rank == 0) {
		in = file_open(options.in, options.read, 0);
		for (int i = 0; i < shape[0]; i++) {
			file_move(&in, rows, (size_t)height(i) * (size_t)options.columns * sizeof *rows, 0);
			send_row(rows, i);
		}
		file_close(&in);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void naive_write(double *rows)
{
	int own = height(coords[0]) * width(coords[1]);
	MPI_Request request;
	struct file out;

	if (rank == size - 1)
		usleep((useconds_t)options.late_ms * 1000);
	MPI_Isend(block, own, MPI_DOUBLE, 0, TAG_OUT, grid, &request);
	if (rank == 0) {
		out = file_open(options.out, options.write, 1);
		for (int i = 0; i < shape[0]; i++) {
			receive_row(rows, i);
			file_move(&out, rows, (size_t)height(i) * (size_t)options.columns * sizeof *rows, 1);
		}
		file_close(&out);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void twin(const char *path, int writes)
{
	int total[2] = {(int)options.rows, (int)options.columns}, own[2] = {height(coords[0]), width(coords[1])};
	int starts[2] = {(int)before(total[0], shape[0], coords[0]), (int)before(total[1], shape[1], coords[1])};
	int mode = writes ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY, doubles = own[0] * own[1];
	MPI_Datatype view = MPI_DOUBLE;
	MPI_File file;

	if (MPI_File_open(grid, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
		fail(path);
	if (writes)
		MPI_File_set_size(file, 0);
	if (doubles) {
		MPI_Type_create_subarray(2, total, own, starts, MPI_ORDER_C, MPI_DOUBLE, &view);
		MPI_Type_commit(&view);
	}
	MPI_File_set_view(file, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL);
	if (writes)
		MPI_File_write_all(file, block, doubles, MPI_DOUBLE, MPI_STATUS_IGNORE);
	else
		MPI_File_read_all(file, block, doubles, MPI_DOUBLE, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
	if (doubles)
		MPI_Type_free(&view);
}

int main(int argc, char **argv)
{
	int once[2] = {0, 0};

	start(&argc, &argv);
	options_read(argc, argv);
	MPI_Dims_create(size, 2, shape);
	MPI_Cart_create(MPI_COMM_WORLD, 2, shape, once, 0, &grid);
	MPI_Cart_coords(grid, rank, 2, coords);
	block = memory(block_bytes());
	double *rows = rank ? NULL : memory((size_t)height(0) * (size_t)options.columns * sizeof *rows);
	for (long step = 0; step < options.steps; step++) {
		double at = begin();

		if (options.twin)
			twin(options.in, 0);
		else
			naive_read(rows);
		read_s += MPI_Wtime() - at;
		compute((unsigned char *)block, block_bytes());
		count(block, block_bytes());
		at = begin();
		if (options.twin)
			twin(options.out, 1);
		else
			naive_write(rows);
		write_s += MPI_Wtime() - at;
	}
	free(rows);
	free(block);
	MPI_Comm_free(&grid);
	return finish();
}
