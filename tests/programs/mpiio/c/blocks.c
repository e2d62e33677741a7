/*
 * Blocks: the ranks form a grid, and each has a block of a matrix of doubles, which has rows and columns, with --planes
 * also planes. Rank 0 reads the rows (planes) of one layer of ranks at a time into one buffer, which it uses again, and
 * sends each rank its block; each rank changes its block; rank 0 receives the blocks of a layer of ranks into such a
 * buffer and writes it.
 *
 *   blocks --in FILE --out FILE [--planes N] [--rows N] [--columns N] [--steps N] [--read METHOD] [--write METHOD]
 *          [--type vector|subarray] [--send send|ssend|isend] [--receive recv|irecv] [--layers N] [--late-ms N]
 *          [--twin]
 *
 * There are N layers of ranks, or as many as MPI chooses. The last rank sends its block back N milliseconds late. The
 * steps read the same file again and write the same file anew. Blocks of planes are subarrays.
 */
#define _GNU_SOURCE
#include "io_method.h"

enum { TAG_IN = 7, TAG_OUT = 8 };

static struct {
	const char *in, *out, *send, *receive;
	long steps, late_ms;
	enum method read, write;
	int subarray, twin;
} options;

static MPI_Comm grid;
/* The matrix's dimensions, that of the layers first; the grid's shape, and this rank's place in it. */
static int dimensions, extent[3];
static int shape[3], coords[3];
static double *block;

static void options_read(int argc, char **argv)
{
	options.in = option(argc, argv, "in", "blocks.in");
	options.out = option(argc, argv, "out", "blocks.out");
	options.send = option(argc, argv, "send", "send");
	options.receive = option(argc, argv, "receive", "recv");
	extent[0] = (int)number(argc, argv, "planes", 0);
	dimensions = extent[0] ? 3 : 2;
	extent[dimensions - 2] = (int)number(argc, argv, "rows", 512);
	extent[dimensions - 1] = (int)number(argc, argv, "columns", 512);
	options.steps = number(argc, argv, "steps", 1);
	options.late_ms = number(argc, argv, "late-ms", 0);
	options.read = method_of(option(argc, argv, "read", "plain"));
	options.write = method_of(option(argc, argv, "write", "plain"));
	options.subarray = dimensions == 3 || !strcmp(option(argc, argv, "type", "vector"), "subarray");
	options.twin = flag(argc, argv, "twin");
}

/* The block of the rank at these coordinates: its size, and where it begins. Returns the number of its doubles. */
static int block_of(const int at[3], int own[3], int starts[3])
{
	int doubles = 1;

	for (int i = 0; i < dimensions; i++) {
		own[i] = (int)part(extent[i], shape[i], at[i]);
		starts[i] = (int)before(extent[i], shape[i], at[i]);
		doubles *= own[i];
	}
	return doubles;
}

static int own_doubles(void)
{
	int own[3], starts[3];

	return block_of(coords, own, starts);
}

static size_t layer_bytes(int layer)
{
	size_t bytes = (size_t)part(extent[0], shape[0], layer) * sizeof(double);

	for (int i = 1; i < dimensions; i++)
		bytes *= (size_t)extent[i];
	return bytes;
}

/*
 * The block at these coordinates within its layer. A subarray begins at the buffer's start, a vector where the block
 * does, which `shift` (in doubles) is.
 */
static MPI_Datatype type_of(const int at[3], long *shift)
{
	int own[3], starts[3], sizes[3];
	MPI_Datatype type;

	block_of(at, own, starts);
	memcpy(sizes, extent, sizeof sizes);
	sizes[0] = own[0];
	starts[0] = 0;
	*shift = options.subarray ? 0 : starts[1];
	if (options.subarray)
		MPI_Type_create_subarray(dimensions, sizes, own, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
	else
		MPI_Type_vector(own[0], own[1], extent[1], MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	return type;
}

/* The coordinates and the rank of the n-th block of a layer. */
static int rank_of(int layer, int n, int at[3])
{
	int found, across = dimensions == 3 ? shape[2] : 1;

	at[0] = layer;
	at[1] = n / across;
	at[2] = n % across;
	MPI_Cart_rank(grid, at, &found);
	return found;
}

static int blocks_in_layer(void)
{
	return dimensions == 3 ? shape[1] * shape[2] : shape[1];
}

static void send_layer(double *data, int layer)
{
	MPI_Request requests[blocks_in_layer()];
	int pending = 0;

	for (int n = 0; n < blocks_in_layer(); n++) {
		int at[3], to = rank_of(layer, n, at);
		long shift;
		MPI_Datatype type = type_of(at, &shift);

		if (!strcmp(options.send, "isend"))
			MPI_Isend(data + shift, 1, type, to, TAG_IN, grid, &requests[pending++]);
		else if (!strcmp(options.send, "ssend"))
			MPI_Ssend(data + shift, 1, type, to, TAG_IN, grid);
		else
			MPI_Send(data + shift, 1, type, to, TAG_IN, grid);
		MPI_Type_free(&type);
	}
	MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
}

static void receive_layer(double *data, int layer)
{
	MPI_Request requests[blocks_in_layer()];
	int pending = 0;

	for (int n = 0; n < blocks_in_layer(); n++) {
		int at[3], from = rank_of(layer, n, at);
		long shift;
		MPI_Datatype type = type_of(at, &shift);

		if (!strcmp(options.receive, "irecv"))
			MPI_Irecv(data + shift, 1, type, from, TAG_OUT, grid, &requests[pending++]);
		else
			MPI_Recv(data + shift, 1, type, from, TAG_OUT, grid, MPI_STATUS_IGNORE);
		MPI_Type_free(&type);
	}
	MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
}

static void naive_read(double *layer)
{
	int own = own_doubles();
	MPI_Request request;
	struct file in;

	MPI_Irecv(block, own, MPI_DOUBLE, 0, TAG_IN, grid, &request);
	if (rank == 0) {
		in = file_open(options.in, options.read, 0);
		for (int i = 0; i < shape[0]; i++) {
			file_move(&in, layer, layer_bytes(i), 0);
			send_layer(layer, i);
		}
		file_close(&in);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void naive_write(double *layer)
{
	int own = own_doubles();
	MPI_Request request;
	struct file out;

	if (rank == size - 1)
		usleep((useconds_t)options.late_ms * 1000);
	MPI_Isend(block, own, MPI_DOUBLE, 0, TAG_OUT, grid, &request);
	if (rank == 0) {
		out = file_open(options.out, options.write, 1);
		for (int i = 0; i < shape[0]; i++) {
			receive_layer(layer, i);
			file_move(&out, layer, layer_bytes(i), 1);
		}
		file_close(&out);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void twin(const char *path, int writes)
{
	int own[3], starts[3], doubles = block_of(coords, own, starts);
	int mode = writes ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY;
	MPI_Datatype view = MPI_DOUBLE;
	MPI_File file;

	if (MPI_File_open(grid, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
		fail(path);
	if (writes)
		MPI_File_set_size(file, 0);
	if (doubles) {
		MPI_Type_create_subarray(dimensions, extent, own, starts, MPI_ORDER_C, MPI_DOUBLE, &view);
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
	int once[3] = {0, 0, 0};

	start(&argc, &argv);
	options_read(argc, argv);
	shape[0] = (int)number(argc, argv, "layers", 0);
	MPI_Dims_create(size, dimensions, shape);
	MPI_Cart_create(MPI_COMM_WORLD, dimensions, shape, once, 0, &grid);
	MPI_Cart_coords(grid, rank, dimensions, coords);
	size_t block_bytes = (size_t)own_doubles() * sizeof *block;
	block = memory(block_bytes);
	double *layer = rank ? NULL : memory(layer_bytes(0));
	for (long step = 0; step < options.steps; step++) {
		double at = begin();

		if (options.twin)
			twin(options.in, 0);
		else
			naive_read(layer);
		read_s += MPI_Wtime() - at;
		compute((unsigned char *)block, block_bytes);
		count(block, block_bytes);
		at = begin();
		if (options.twin)
			twin(options.out, 1);
		else
			naive_write(layer);
		write_s += MPI_Wtime() - at;
	}
	free(layer);
	free(block);
	MPI_Comm_free(&grid);
	return finish();
}
