/*
 * Collective file operations of few bytes, which one rank may do for all: everything that a rank could see of them is
 * in its log.
 *
 *   collective DIRECTORY
 *
 * Rank R writes DIRECTORY/log.R. The files' bytes are those of the operations alone.
 */
#define _GNU_SOURCE
#include <stdarg.h>

#include "program.h"

enum { ROUNDS = 8, ROOM = 1 << 16 };

static const char *directory;
static FILE *seen;
static char data[ROOM * 4];

static void note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(seen, format, arguments);
	va_end(arguments);
	fputc('\n', seen);
}

/* Bytes that identify the rank that wrote them, and the round. */
static void fill(size_t bytes, int round)
{
	for (size_t at = 0; at < bytes; at++)
		data[at] = (char)(at * 7 + (size_t)rank * 31 + (size_t)round * 101 + at / 251);
}

static MPI_File open_file(MPI_Comm comm, const char *name, int mode)
{
	char path[1024];
	MPI_File file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	if (MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
		fail(path);
	return file;
}

/* Earlier writes of ranks are seen by all, and not overwritten later. */
static void settle(MPI_File file)
{
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(file);
}

/* An operation's return code and count, and the position of the file's pointer then. */
static void note_operation(const char *what, MPI_File file, int code, MPI_Status *status, MPI_Datatype type)
{
	MPI_Offset position = -1;
	int class = -1, count = -1, elements = -1;

	MPI_Error_class(code, &class);
	if (code == MPI_SUCCESS) {
		MPI_Get_count(status, type, &count);
		MPI_Get_elements(status, type, &elements);
	}
	MPI_File_get_position(file, &position);
	note("%s: class %d, count %d, elements %d, at %lld", what, class, count, elements, (long long)position);
}

static void write_at(const char *what, MPI_File file, MPI_Offset at, int bytes, int round)
{
	MPI_Status status;

	fill((size_t)bytes, round);
	note_operation(what, file, MPI_File_write_at_all(file, at, data, bytes, MPI_BYTE, &status), &status, MPI_BYTE);
}

/* MPI leaves the bytes behind the end of the file undefined: `end` is where the data ends. */
static void read_up_to(const char *what, MPI_File file, MPI_Offset at, int bytes, MPI_Offset end)
{
	MPI_Offset there = end < at ? 0 : end < at + bytes ? end - at : ROOM;
	MPI_Status status;

	memset(data, 0x55, ROOM);
	note_operation(what, file, MPI_File_read_at_all(file, at, data, bytes, MPI_BYTE, &status), &status, MPI_BYTE);
	note("data %016llx", (unsigned long long)checksum(data, (size_t)there, 0));
}

static void read_at(const char *what, MPI_File file, MPI_Offset at, int bytes)
{
	read_up_to(what, file, at, bytes, INT64_MAX);
}

/* Parts of uneven sizes, that of one rank empty, one behind the other. */
static int uneven(int of, int round)
{
	return of == round % size && round % 3 == 2 ? 0 : 1000 + 397 * of + 13 * round;
}

static MPI_Offset uneven_offset(int of, int round)
{
	MPI_Offset offset = 0;

	for (int before_it = 0; before_it < of; before_it++)
		offset += uneven(before_it, round);
	return offset;
}

static void tiles(MPI_File file)
{
	for (int round = 0; round < ROUNDS; round++) {
		write_at("tile", file, round * 20000 + uneven_offset(rank, round), uneven(rank, round), round);
		read_at("tile", file, round * 20000 + uneven_offset(rank, round), uneven(rank, round));
	}
}

/* By the ranks' own pointers, in elements of eight bytes; one rank requests no status. */
static void pointers(MPI_File file)
{
	MPI_Status own, *status = rank == 1 ? MPI_STATUS_IGNORE : &own;
	int code;

	for (int round = 0; round < ROUNDS; round++) {
		MPI_File_seek(file, round * size * 800 + rank * 800, MPI_SEEK_SET);
		fill(800, round + 20);
		code = MPI_File_write_all(file, data, 100, MPI_DOUBLE, status);
		if (rank != 1)
			note_operation("pointer", file, code, status, MPI_DOUBLE);
	}
	settle(file);
	MPI_File_seek(file, rank * 104, MPI_SEEK_SET);
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Offset position;

		memset(data, 0x55, ROOM);
		code = MPI_File_read_all(file, data, 13, MPI_DOUBLE, status);
		MPI_File_get_position(file, &position);
		note("read_all %d at %lld: %016llx", code, (long long)position,
			(unsigned long long)checksum(data, ROOM, 0));
	}
}

/* All read the same; gaps between what ranks read; beyond the end; from behind it; ranks in reverse order. */
static void reads(MPI_File file)
{
	MPI_Offset end;

	MPI_File_get_size(file, &end);
	note("size %lld", (long long)end);
	for (int round = 0; round < ROUNDS; round++) {
		read_at("the same", file, 100, 900);
		read_at("with gaps", file, rank * 1500, 1000);
		read_at("sparse", file, rank * 9000, 100);
		read_at("reverse", file, (size - rank) * 500, 500);
		read_at("none", file, rank, 0);
		read_at("one alone", file, 50, rank == size - 1 ? 700 : 0);
	}
	for (int round = 0; round < 2; round++) {
		read_up_to("beyond the end", file, end - 1000 + rank * 700, 700, end);
		read_up_to("behind the end", file, end + 5 + rank * 700, 700, end);
		read_up_to("one at the end", file, end - 100, rank == 0 ? 400 : 100, end);
	}
}

/* Holes, parts in another order, large parts. */
static void writes(MPI_File file)
{
	for (int round = 0; round < 2; round++) {
		write_at("with holes", file, 1000 + rank * 3000, 2000, round + 40);
		settle(file);
		write_at("reverse", file, 30000 + (size - rank) * 600, 600, round + 40);
		write_at("large", file, 60000 + (MPI_Offset)rank * ROOM * 4, ROOM * 4, round);
		write_at("none", file, 5, 0, 0);
		write_at("one alone", file, 77, rank == 1 ? 300 : 0, round + 40);
	}
	settle(file);
	/* Overlapping parts are the same where they do. */
	memset(data, 0x33, 2000);
	note("overlap %d", MPI_File_write_at_all(file, 500 + rank * 700, data, 2000, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* A type with gaps in memory, and one without. */
static void types(MPI_File file)
{
	MPI_Datatype gaps, row;
	MPI_Status status;

	MPI_Type_vector(50, 2, 5, MPI_INT, &gaps);
	MPI_Type_commit(&gaps);
	MPI_Type_contiguous(90, MPI_INT, &row);
	MPI_Type_commit(&row);
	for (int round = 0; round < ROUNDS; round++) {
		fill(4000, round + 60);
		note_operation("gaps", file, MPI_File_write_at_all(file, rank * 400, data, 1, gaps, &status), &status,
			gaps);
		note_operation("row", file, MPI_File_write_at_all(file, 3000 + rank * 720, data, 2, row, &status),
			&status, row);
		memset(data, 0x55, ROOM);
		note_operation("gaps", file, MPI_File_read_at_all(file, rank * 400, data, 1, gaps, &status), &status,
			gaps);
		note("data %016llx", (unsigned long long)checksum(data, ROOM, 0));
		memset(data, 0x55, ROOM);
		note_operation("row", file, MPI_File_read_at_all(file, 3000 + rank * 720, data, 2, row, &status),
			&status, row);
		note("data %016llx", (unsigned long long)checksum(data, ROOM, 0));
	}
	MPI_Type_free(&gaps);
	MPI_Type_free(&row);
}

/* Each rank's own rows of a matrix, then bytes as before; and operations in order. */
static void views(MPI_File file)
{
	MPI_Datatype rows;

	MPI_Type_vector(20, 40, 40 * size, MPI_BYTE, &rows);
	MPI_Type_commit(&rows);
	MPI_File_set_view(file, rank * 40, MPI_BYTE, rows, "native", MPI_INFO_NULL);
	for (int round = 0; round < 3; round++) {
		write_at("view", file, round * 200, 200, round + 80);
		read_at("view", file, 0, 600);
	}
	MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
	settle(file);
	write_at("no view", file, 9000 + rank * 100, 100, 90);
	read_at("no view", file, rank * 100, 100);
	MPI_Type_free(&rows);
}

/* Some ranks only, in another order, whose communicator is freed when they write. */
static void some(void)
{
	MPI_Comm comm;
	MPI_File file;

	MPI_Comm_split(MPI_COMM_WORLD, rank == 0 && size > 2, -rank, &comm);
	file = open_file(comm, rank == 0 && size > 2 ? "alone" : "some", MPI_MODE_RDWR | MPI_MODE_CREATE);
	MPI_Comm_free(&comm);
	for (int round = 0; round < ROUNDS; round++) {
		write_at("some", file, round * size * 500 + (size - 1 - rank) * 500, 500, round);
		read_at("some", file, round * size * 500 + (size - 1 - rank) * 500, 400);
	}
	MPI_File_close(&file);
}

static int handled;

static void handle(MPI_File *file, int *code, ...)
{
	(void)file;
	(void)code;
	handled++;
}

/* The program's own handler is called for its own errors alone, and stays. */
static void errors(MPI_File file, const char *what)
{
	MPI_Errhandler handler;

	MPI_File_create_errhandler(handle, &handler);
	MPI_File_set_errhandler(file, handler);
	MPI_Errhandler_free(&handler);
	for (int round = 0; round < ROUNDS; round++) {
		write_at(what, file, rank * 300, 300, round);
		read_at(what, file, rank * 300, 300);
	}
	note("handled %s", handled ? "some" : "none");
}

int main(int argc, char **argv)
{
	char path[1024];

	start(&argc, &argv);
	directory = argc > 1 ? argv[1] : ".";
	snprintf(path, sizeof path, "%s/log.%d", directory, rank);
	seen = fopen(path, "we");
	if (!seen)
		fail(path);
	void (*const parts[])(MPI_File) = {tiles, pointers, reads, writes, types, views};
	for (size_t number = 0; number < sizeof parts / sizeof *parts; number++) {
		char name[20];

		snprintf(name, sizeof name, "file.%zu", number);
		MPI_File file = open_file(MPI_COMM_WORLD, parts[number] == reads ? "file.0" : name,
			MPI_MODE_RDWR | MPI_MODE_CREATE);
		parts[number](file);
		MPI_File_close(&file);
	}
	some();
	MPI_File file = open_file(MPI_COMM_WORLD, "file.0", MPI_MODE_RDONLY);
	errors(file, "only to be read");
	MPI_File_close(&file);
	file = open_file(MPI_COMM_WORLD, "both", MPI_MODE_RDWR | MPI_MODE_CREATE);
	errors(file, "to be read and written");
	MPI_File_set_atomicity(file, 1);
	write_at("in order", file, 5000 + rank * 300, 300, 99);
	MPI_File_close(&file);
	fclose(seen);
	return finish();
}
