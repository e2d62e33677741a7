/*
 * A matrix times a vector: rank 0 reads both from one file (the vector first), broadcasts the vector and scatters the
 * matrix by rows; each rank computes its part of the product; rank 0 gathers and writes it.
 *
 *   matvec --in FILE --out FILE [--rows N] [--columns N] [--steps N] [--twin]
 */
#define _GNU_SOURCE
#include "io_method.h"

static long rows, columns;
static int *counts, *displs, *row_counts, *row_displs;

/* The ranks' rows: in doubles of the matrix, and in rows. */
static void divide(void)
{
	size_t bytes = (size_t)size * sizeof(int);

	counts = memory(bytes);
	displs = memory(bytes);
	row_counts = memory(bytes);
	row_displs = memory(bytes);
	for (int i = 0; i < size; i++) {
		row_counts[i] = (int)part(rows, size, i);
		row_displs[i] = (int)before(rows, size, i);
		counts[i] = (int)(row_counts[i] * columns);
		displs[i] = (int)(row_displs[i] * columns);
	}
}

static void multiply(const double *matrix, const double *vector, double *product)
{
	for (int i = 0; i < row_counts[rank]; i++) {
		product[i] = 0;
		for (long j = 0; j < columns; j++)
			product[i] += matrix[i * columns + j] * vector[j];
	}
}

static void read_naive(const char *path, double *vector, double *mine)
{
	double *matrix = NULL;

	if (rank == 0) {
		FILE *file = fopen(path, "rb");

		matrix = memory((size_t)(rows * columns) * sizeof *matrix);
		if (!file || fread(vector, sizeof *vector, (size_t)columns, file) != (size_t)columns)
			fail(path);
		if (fread(matrix, sizeof *matrix, (size_t)(rows * columns), file) != (size_t)(rows * columns))
			fail(path);
		fclose(file);
	}
	MPI_Bcast(vector, (int)columns, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	MPI_Scatterv(matrix, counts, displs, MPI_DOUBLE, mine, counts[rank], MPI_DOUBLE, 0, MPI_COMM_WORLD);
	free(matrix);
}

static void write_naive(const char *path, const double *product)
{
	double *all = rank ? NULL : memory((size_t)rows * sizeof *all);
	FILE *file;

	MPI_Gatherv(product, row_counts[rank], MPI_DOUBLE, all, row_counts, row_displs, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		file = fopen(path, "wb");
		if (!file || fwrite(all, sizeof *all, (size_t)rows, file) != (size_t)rows || fclose(file))
			fail(path);
	}
	free(all);
}

static MPI_File open_all(const char *path, int mode)
{
	MPI_File file;

	if (MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
		fail(path);
	return file;
}

static void read_twin(const char *path, double *vector, double *mine)
{
	MPI_File file = open_all(path, MPI_MODE_RDONLY);
	MPI_Offset offset = (columns + (MPI_Offset)row_displs[rank] * columns) * (MPI_Offset)sizeof *mine;

	MPI_File_read_at_all(file, 0, vector, (int)columns, MPI_DOUBLE, MPI_STATUS_IGNORE);
	MPI_File_read_at_all(file, offset, mine, counts[rank], MPI_DOUBLE, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
}

static void write_twin(const char *path, const double *product)
{
	MPI_File file = open_all(path, MPI_MODE_WRONLY | MPI_MODE_CREATE);
	MPI_Offset offset = row_displs[rank] * (MPI_Offset)sizeof *product;

	MPI_File_set_size(file, 0);
	MPI_File_write_at_all(file, offset, product, row_counts[rank], MPI_DOUBLE, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
}

int main(int argc, char **argv)
{
	start(&argc, &argv);
	rows = number(argc, argv, "rows", 500);
	columns = number(argc, argv, "columns", 500);
	divide();
	const char *in = option(argc, argv, "in", "matvec.in"), *out = option(argc, argv, "out", "matvec.out");
	double *vector = memory((size_t)columns * sizeof *vector);
	double *mine = memory((size_t)counts[rank] * sizeof *mine);
	double *product = memory((size_t)row_counts[rank] * sizeof *product);
	for (long step = number(argc, argv, "steps", 1); step > 0; step--) {
		double at = begin();

		(flag(argc, argv, "twin") ? read_twin : read_naive)(in, vector, mine);
		read_s += MPI_Wtime() - at;
		multiply(mine, vector, product);
		count(mine, (size_t)counts[rank] * sizeof *mine);
		count(product, (size_t)row_counts[rank] * sizeof *product);
		at = begin();
		(flag(argc, argv, "twin") ? write_twin : write_naive)(out, product);
		write_s += MPI_Wtime() - at;
	}
	free(vector);
	free(mine);
	free(product);
	free(counts);
	free(displs);
	free(row_counts);
	free(row_displs);
	return finish();
}
