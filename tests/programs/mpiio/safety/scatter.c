/* Forms of Scatter: roots, types, counts, communicators, errors. */
#define _GNU_SOURCE
#include "safety.h"

/* Rank 0 has `bytes` of a file at the returned address; others have NULL. */
static inline __attribute__((always_inline)) char *table(size_t bytes)
{
	char *name = path("in"), *all = NULL;

	if (rank == 0) {
		make(name, bytes, 1);
		all = memory(bytes);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, bytes));
		close(fd);
	}
	return all;
}

static void in_place(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);

	MPI_Scatter(all, PART, MPI_BYTE, rank ? mine : MPI_IN_PLACE, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", rank ? mine : all, PART);
	free(all);
	free(mine);
}

static void from_the_last_rank(void)
{
	int root = size - 1;
	char *name = path("in"), *all = memory(all_bytes()), *mine = memory(PART);

	if (rank == root) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, all_bytes()));
		close(fd);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, root, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

/* Parts that overlap, lie in another order, or are empty. */
static void by_counts(void)
{
	char *all = table(all_bytes()), *mine = memory(2 * PART);
	int counts[size], displs[size];

	for (int to = 0; to < size; to++) {
		counts[to] = (int)(to == 1 && odd() ? 0 : PART - 1000 * to);
		displs[to] = (size - 1 - to) * (PART - 5000);
	}
	memset(mine, 'm', 2 * PART);
	MPI_Scatterv(all, counts, displs, MPI_BYTE, mine, counts[rank], MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, 2 * PART);
	free(all);
	free(mine);
}

/* Every size-th double is sent to the same rank, and is received with gaps. */
static void by_types(void)
{
	int doubles = PART / 8;
	double *all = (double *)table((size_t)(doubles * size) * 8), *mine = memory((size_t)doubles * 16);
	MPI_Datatype column, narrow, gaps;

	MPI_Type_vector(doubles, 1, size, MPI_DOUBLE, &column);
	MPI_Type_create_resized(column, 0, 8, &narrow);
	MPI_Type_vector(doubles, 1, 2, MPI_DOUBLE, &gaps);
	MPI_Type_commit(&narrow);
	MPI_Type_commit(&gaps);
	memset(mine, 'g', (size_t)doubles * 16);
	MPI_Scatter(all, 1, narrow, mine, 1, gaps, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, (size_t)doubles * 16);
	MPI_Type_free(&column);
	MPI_Type_free(&narrow);
	MPI_Type_free(&gaps);
	free(all);
	free(mine);
}

/* Types that are unknown to the library, at the receivers and then at the root, too. */
static void by_opaque_types(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);
	MPI_Datatype type = opaque_type();

	memset(mine, 'o', PART);
	MPI_Scatter(all, PART, MPI_BYTE, mine, 1, type, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	MPI_Scatter(all, 1, type, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	MPI_Type_free(&type);
	free(all);
	free(mine);
}

static void of_nothing(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);

	memset(mine, 'm', PART);
	note("scatter %d", MPI_Scatter(all, 0, MPI_BYTE, mine, 0, MPI_BYTE, 0, MPI_COMM_WORLD));
	note_sum("mine", mine, PART);
	note("scatter %d", MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD));
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

/* From the middle, and more than was read. */
static void beside_what_was_read(void)
{
	char *name = path("in"), *all = pages(all_bytes() + 200000), *mine = memory(PART);

	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);
		memset(all, 'e', all_bytes() + 200000);
		note_result("read", read(fd, all + 70000, all_bytes() - 20000));
		close(fd);
	}
	MPI_Scatter(all + (odd() ? 4097 : 70000), PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	munmap(all, all_bytes() + 200000);
	free(mine);
}

static void from_several_files(void)
{
	char *all = pages(all_bytes()), *mine = memory(PART);

	if (rank == 0)
		for (int part = 0; part < 5; part++) {
			char *name = path("part"), own[1100];
			size_t bytes = all_bytes() / 5 + (part == 4 ? all_bytes() % 5 : 0);

			snprintf(own, sizeof own, "%s.%d", name, part);
			make(own, bytes, (unsigned)part);
			FILE *stream = fopen(own, "r");
			note("fread %zu", fread(all + (size_t)part * (all_bytes() / 5), 1, bytes, stream));
			fclose(stream);
			if (odd())
				unlink(own);
		}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	munmap(all, all_bytes());
	free(mine);
}

/* Communicators that are parts, copies, and freed right after. */
static void in_communicators(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);
	MPI_Comm half, copy, turned;
	int own, many;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_rank(half, &own);
	MPI_Comm_size(half, &many);
	char *second = rank == 1 ? memory(all_bytes()) : NULL;
	if (rank == 1)
		fill(second, all_bytes(), 7);
	MPI_Scatter(rank == 1 ? second : all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, half);
	note_sum("of half", mine, PART);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
	MPI_Comm_free(&half);
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, copy);
	note_sum("of copy", mine, PART);
	MPI_Comm_free(&copy);
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, size - 1, turned);
	note_sum("of turned", mine, PART);
	MPI_Comm_free(&turned);
	free(second);
	free(all);
	free(mine);
}

static void between_groups(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);
	int first = rank == 0, root = first ? MPI_ROOT : 0;
	MPI_Comm own, both;

	MPI_Comm_split(MPI_COMM_WORLD, first, rank, &own);
	MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, first ? 1 : 0, 9, &both);
	memset(mine, 'm', PART);
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, root, both);
	note_sum("mine", mine, PART);
	MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, root, both);
	if (first)
		note_sum("back", all, all_bytes());
	MPI_Comm_free(&both);
	MPI_Comm_free(&own);
	free(all);
	free(mine);
}

static void alone(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);

	if (rank == 0) {
		MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_SELF);
		note_sum("mine", mine, PART);
	}
	free(all);
	free(mine);
}

static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	handled++;
	note("handler of class %d", class_of(*code));
}

/* Calls that are wrong, on all ranks alike; then right ones with the same buffers. */
static void with_errors(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);
	MPI_Errhandler own;
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
	if (odd()) {
		MPI_Comm_create_errhandler(handler, &own);
		MPI_Comm_set_errhandler(copy, own);
		MPI_Errhandler_free(&own);
	}
	note("count %d", class_of(MPI_Scatter(all, -1, MPI_BYTE, mine, -1, MPI_BYTE, 0, copy)));
	note("root %d", class_of(MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, size + 3, copy)));
	note("type %d", class_of(MPI_Scatter(all, PART, MPI_DATATYPE_NULL, mine, PART, MPI_DATATYPE_NULL, 0, copy)));
	note("peer %d", class_of(MPI_Send(mine, PART, MPI_BYTE, size + 3, 1, copy)));
	note("tag %d", class_of(MPI_Send(mine, PART, MPI_BYTE, 0, -77, copy)));
	note("scatter %d", MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, copy));
	note_sum("mine", mine, PART);
	MPI_Comm_free(&copy);
	free(all);
	free(mine);
}

/* The last rank has less room than it is sent. */
static void truncated(void)
{
	char *all = table(all_bytes()), *mine = memory(PART);
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
	int room = odd() && rank == size - 1 ? PART / 2 : PART;
	int code = MPI_Scatter(all, PART, MPI_BYTE, mine, room, MPI_BYTE, 0, copy);
	note("scatter of class %d", class_of(code));
	if (room == PART)
		note_sum("mine", mine, PART);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_free(&copy);
	free(all);
	free(mine);
}

/* Other calls that distribute parts of a table: by Bcast, Alltoall, Iscatter, and ranks that compute meanwhile. */
static void by_other_calls(void)
{
	char *all = table(all_bytes()), *mine = memory(PART), *every = memory(all_bytes());
	MPI_Request request;

	if (rank == 0)
		memcpy(every, all, odd() ? all_bytes() : 1000);
	MPI_Iscatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	note_sum("mine", mine, PART);
	MPI_Bcast(rank ? every : all, (int)all_bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("all", rank ? every : all, all_bytes());
	if (rank)
		all = memory(all_bytes());
	MPI_Allgather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, MPI_COMM_WORLD);
	MPI_Alltoall(all, PART, MPI_BYTE, every, PART, MPI_BYTE, MPI_COMM_WORLD);
	note_sum("exchanged", every, all_bytes());
	free(all);
	free(mine);
	free(every);
}

const struct test scatter_tests[] = {
	{"in_place", in_place, 0},
	{"from_the_last_rank", from_the_last_rank, 0},
	{"by_counts", by_counts, 0},
	{"by_types", by_types, 0},
	{"by_opaque_types", by_opaque_types, 0},
	{"of_nothing", of_nothing, 0},
	{"beside_what_was_read", beside_what_was_read, 0},
	{"from_several_files", from_several_files, 0},
	{"in_communicators", in_communicators, 0},
	{"between_groups", between_groups, 0},
	{"alone", alone, 0},
	{"with_errors", with_errors, 0},
	{"truncated", truncated, 0},
	{"by_other_calls", by_other_calls, 0},
	{NULL, NULL, 0},
};
