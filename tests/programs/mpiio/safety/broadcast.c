/* Forms of Bcast: roots, types, counts, communicators, errors, and files that change. */
#define _GNU_SOURCE
#include "safety.h"

/* All ranks have memory of that size; rank `root` has read a file into it. */
static inline __attribute__((always_inline)) char *table_at(int root, size_t bytes)
{
	char *name = path("in"), *all = memory(bytes);

	memset(all, 'a', bytes);
	if (rank == root) {
		make(name, bytes, 1);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, bytes));
		close(fd);
	}
	return all;
}

static void of_a_file(void)
{
	char *all = table_at(0, all_bytes());

	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("all", all, all_bytes());
	free(all);
}

/* From the last rank, and then from another one without a file. */
static void from_several_roots(void)
{
	char *all = table_at(size - 1, all_bytes());

	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, size - 1, MPI_COMM_WORLD);
	note_sum("all", all, all_bytes());
	if (odd() && rank == 0)
		fill(all, all_bytes(), 5);
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("all", all, all_bytes());
	free(all);
}

/* A piece is read at a time, into the same memory, and a part of it is broadcast. */
static void by_pieces(void)
{
	char *name = path("in"), *piece = memory(2 * PART);
	int fd = -1;

	if (rank == 0) {
		make(name, 7 * PART, 1);
		fd = open(name, O_RDONLY);
	}
	for (int at = 0; at < 7; at++) {
		if (rank == 0)
			note_result("read", read(fd, piece, PART));
		if (rank == 0 && odd() && at == 3)
			piece[at] ^= 1;
		int bytes = odd() && at == 4 ? PART / 2 : PART;
		MPI_Bcast(piece, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
		note_sum("piece", piece, (size_t)bytes);
	}
	if (fd >= 0)
		close(fd);
	free(piece);
}

/* Columns at the root, doubles with gaps at the others; then types that are unknown to the library. */
static void by_types(void)
{
	int doubles = PART / 8;
	char *all = table_at(0, 2 * PART);
	MPI_Datatype gaps, opaque = opaque_type();

	MPI_Type_vector(doubles, 1, 2, MPI_DOUBLE, &gaps);
	MPI_Type_commit(&gaps);
	MPI_Bcast(all, rank ? 1 : doubles, rank ? gaps : MPI_DOUBLE, 0, MPI_COMM_WORLD);
	note_sum("gaps", all, 2 * PART);
	MPI_Type_free(&gaps);
	char *other = table_at(0, PART);
	MPI_Bcast(other, rank ? 1 : PART, rank ? opaque : MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("opaque", other, PART);
	MPI_Type_free(&opaque);
	free(other);
	free(all);
}

/* A few bytes leave the root before another rank, which needs a message first, is there. */
static void before_it_is_received(void)
{
	MPI_Comm copy;
	int value = rank == 0 ? 7 : 0, word = 0;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	if (rank == 1)
		MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Bcast(&value, 1, MPI_INT, 0, copy);
	if (rank == 0) {
		word = 5;
		MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
	}
	note("value %d, word %d", value, word);
	MPI_Comm_free(&copy);
}

static void of_nothing(void)
{
	char *all = table_at(0, all_bytes());

	note("bcast %d", MPI_Bcast(all, 0, MPI_BYTE, 0, MPI_COMM_WORLD));
	note("bcast %d", MPI_Bcast(all, PART, MPI_BYTE, 0, MPI_COMM_WORLD));
	note_sum("all", all, all_bytes());
	free(all);
}

/* The file is written to, removed or replaced between the read and the broadcast. */
static void changed(void)
{
	char *all = table_at(0, all_bytes()), *name = path("in");

	if (rank == 0 && odd()) {
		int fd = open(name, O_WRONLY);
		note_result("pwrite", pwrite(fd, TEXT, sizeof TEXT, PART / 2));
		close(fd);
	}
	if (rank == 0 && round_now == 3)
		note_result("unlink", unlink(name));
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("all", all, all_bytes());
	free(all);
}

/* A part of the memory is changed before, and all of it after. */
static void touched(void)
{
	char *all = table_at(0, all_bytes());

	if (rank == 0 && odd())
		all[PART] ^= 1;
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	all[rank] ^= 1;
	note_sum("all", all, all_bytes());
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("again", all, all_bytes());
	free(all);
}

/* What another rank had read, and not accessed, is overwritten. */
static void into_what_was_read(void)
{
	char *all = table_at(0, all_bytes()), *name = path("other");

	if (rank == size - 1) {
		make(name, all_bytes(), 9);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, all_bytes()));
		close(fd);
	}
	MPI_Bcast(all, odd() ? PART : (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("all", all, all_bytes());
	free(all);
}

static void in_communicators(void)
{
	char *all = table_at(0, all_bytes());
	MPI_Comm half, turned;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, half);
	note_sum("of half", all, all_bytes());
	MPI_Comm_free(&half);
	free(all);
	all = table_at(0, all_bytes());
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, size - 1, turned);
	note_sum("of turned", all, all_bytes());
	MPI_Comm_free(&turned);
	if (rank == 0)
		note("alone %d", MPI_Bcast(all, PART, MPI_BYTE, 0, MPI_COMM_SELF));
	free(all);
}

static void between_groups(void)
{
	char *all = table_at(0, all_bytes());
	int first = rank == 0, root = first ? MPI_ROOT : 0;
	MPI_Comm own, both;

	MPI_Comm_split(MPI_COMM_WORLD, first, rank, &own);
	MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, first ? 1 : 0, 9, &both);
	MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, root, both);
	note_sum("all", all, all_bytes());
	MPI_Comm_free(&both);
	MPI_Comm_free(&own);
	free(all);
}

/* Calls that are wrong, on all ranks alike; then a right one with the same memory. */
static void with_errors(void)
{
	char *all = table_at(0, all_bytes());
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
	note("count %d", class_of(MPI_Bcast(all, -1, MPI_BYTE, 0, copy)));
	note("root %d", class_of(MPI_Bcast(all, PART, MPI_BYTE, size + 3, copy)));
	note("type %d", class_of(MPI_Bcast(all, PART, MPI_DATATYPE_NULL, 0, copy)));
	note("bcast %d", MPI_Bcast(all, (int)all_bytes(), MPI_BYTE, 0, copy));
	note_sum("all", all, all_bytes());
	MPI_Comm_free(&copy);
	free(all);
}

const struct test broadcast_tests[] = {
	{"broadcast_of_a_file", of_a_file, 0},
	{"broadcast_from_several_roots", from_several_roots, 0},
	{"broadcast_by_pieces", by_pieces, 0},
	{"broadcast_by_types", by_types, 0},
	{"broadcast_before_it_is_received", before_it_is_received, 0},
	{"broadcast_of_nothing", of_nothing, 0},
	{"broadcast_changed", changed, 0},
	{"broadcast_touched", touched, 0},
	{"broadcast_into_what_was_read", into_what_was_read, 0},
	{"broadcast_in_communicators", in_communicators, 0},
	{"broadcast_between_groups", between_groups, 0},
	{"broadcast_with_errors", with_errors, 0},
	{NULL, NULL, 0},
};
