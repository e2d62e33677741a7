/* MPI_Iscatter and MPI_Igather, which return at once. */
#define _GNU_SOURCE
#include "safety.h"

#include <pthread.h>
#include <time.h>

/* Large enough to be offered, whatever the page size. */
#define LATE (3 * PART)

static void pause_ms(long ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

/* Rank 0 has the file at the returned address. */
static inline __attribute__((always_inline)) char *table(const char *name, size_t bytes)
{
	char *all = NULL;

	if (rank == 0) {
		make(name, bytes, 1);
		all = memory(bytes);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, bytes));
		close(fd);
	}
	return all;
}

/*
 * Rank 0 reads and all begin to scatter; `meanwhile` runs before the end on all ranks, in odd rounds. It is copied into
 * each case, as each case is to be a call site of its own.
 */
static inline __attribute__((always_inline)) void scatter_later(void (*meanwhile)(const char *name, char *all))
{
	char *name = path("in"), *all = table(name, all_bytes()), *mine = memory(PART);
	MPI_Request request;
	MPI_Status status;

	note("begun %d", MPI_Iscatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
	if (odd() && meanwhile)
		meanwhile(name, all);
	note("done %d", MPI_Wait(&request, &status));
	note("null %d", request == MPI_REQUEST_NULL);
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

/* The same of a gather: `meanwhile` is before the end, `after` between it and the writing. */
static inline __attribute__((always_inline)) void gather_later(void (*meanwhile)(char *mine), void (*after)(char *mine))
{
	size_t bytes = (size_t)size * LATE;
	char *all = rank == 0 ? pages(bytes) : NULL, *mine = memory(LATE);
	MPI_Request request;

	fill(mine, LATE, (unsigned)(rank + 10 * round_now));
	note("begun %d", MPI_Igather(mine, LATE, MPI_BYTE, all, LATE, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
	if (odd() && meanwhile)
		meanwhile(mine);
	note("done %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
	if (odd() && after)
		after(mine);
	else
		memset(mine, 'm', LATE);
	if (rank == 0) {
		int fd = open(path("out"), O_RDWR | O_CREAT, 0644);
		note_result("write", write(fd, all, bytes));
		if (round_now >= 2)
			note_sum("all", all, bytes);
		munmap(all, bytes);
		close(fd);
		note_file(path("out"));
	}
	free(mine);
}

#define SCATTER_LATER(name, meanwhile) \
	static void name(void) \
	{ \
		scatter_later(meanwhile); \
	}
#define GATHER_LATER(name, meanwhile, after) \
	static void name(void) \
	{ \
		gather_later(meanwhile, after); \
	}

SCATTER_LATER(later_scatter, NULL)
GATHER_LATER(later_gather, NULL, NULL)

static void meet(const char *name, char *all)
{
	(void)name;
	(void)all;
	MPI_Barrier(MPI_COMM_WORLD);
}

SCATTER_LATER(later_scatter_then_barrier, meet)

/* The others complete it long after rank 0 has gone on to wait for something else. */
static void be_late(const char *name, char *all)
{
	int one = rank;

	(void)name;
	(void)all;
	if (rank > 0)
		pause_ms(60);
	else
		for (int from = 1; from < size; from++)
			MPI_Recv(&one, 1, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank > 0)
		MPI_Send(&one, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
}

SCATTER_LATER(later_scatter_while_the_root_waits, be_late)

/* The file is replaced by other bytes before the others read. */
static void change_file(const char *name, char *all)
{
	(void)all;
	if (rank == 0) {
		int fd = open(name, O_WRONLY);
		for (int at = 0; at < 1000; at++)
			note_result("write", pwrite(fd, TEXT, sizeof TEXT, at * 100));
		close(fd);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

SCATTER_LATER(later_scatter_of_a_file_that_changes, change_file)

static void remove_file(const char *name, char *all)
{
	(void)all;
	if (rank == 0)
		note_result("unlink", unlink(name));
	MPI_Barrier(MPI_COMM_WORLD);
}

SCATTER_LATER(later_scatter_of_a_file_that_is_gone, remove_file)

static void meet_sending(char *mine)
{
	(void)mine;
	MPI_Barrier(MPI_COMM_WORLD);
}

GATHER_LATER(later_gather_then_barrier, meet_sending, NULL)

static void wait_before(char *mine)
{
	(void)mine;
	pause_ms(rank == 0 ? 60 : 5);
}

GATHER_LATER(later_gather_while_the_root_is_late, wait_before, NULL)

static void change_after(char *mine)
{
	memset(mine, 'x', LATE);
	pause_ms(rank == 0 ? 40 : 1);
}

GATHER_LATER(later_gather_changed_after, NULL, change_after)

/* Two communicators, in which the ranks begin in different orders; then a tested loop over both. */
static void later_in_two_orders(void)
{
	char *name = path("in"), *all = table(name, 2 * all_bytes()), *mine = memory(2 * PART);
	MPI_Comm copies[2];
	MPI_Request requests[2];
	int are_done = 0, tests = 0;

	MPI_Comm_dup(MPI_COMM_WORLD, &copies[0]);
	MPI_Comm_dup(MPI_COMM_WORLD, &copies[1]);
	for (int turn = 0; turn < 2; turn++) {
		int one = odd() ? (turn + rank) % 2 : turn;
		MPI_Iscatter(all ? all + (size_t)one * all_bytes() : NULL, PART, MPI_BYTE, mine + one * PART, PART,
			MPI_BYTE, 0, copies[one], &requests[one]);
	}
	/* What begins after them isn't mistaken for them. */
	MPI_Comm_free(&copies[0]);
	for (; !are_done; tests++)
		MPI_Testall(2, requests, &are_done, MPI_STATUSES_IGNORE);
	note_sum("mine", mine, 2 * PART);
	MPI_Comm_free(&copies[1]);
	free(all);
	free(mine);
}

/* Many operations of one communicator are under way, completed in the inverse order. */
static void later_one_after_the_other(void)
{
	enum { MANY = 5 };
	char *name = path("in"), *all = table(name, MANY * all_bytes()), *mine = memory(MANY * PART);
	MPI_Request requests[2 * MANY];
	MPI_Status status;

	for (int one = 0; one < MANY; one++)
		MPI_Iscatter(all ? all + (size_t)one * all_bytes() : NULL, PART, MPI_BYTE, mine + one * PART, PART,
			MPI_BYTE, 0, MPI_COMM_WORLD, &requests[one]);
	for (int one = MANY - 1; one >= 0; one--)
		note("done %d", MPI_Wait(&requests[one], &status));
	note_sum("mine", mine, MANY * PART);
	for (int one = 0; one < MANY; one++)
		MPI_Igather(mine + one * PART, PART, MPI_BYTE, all ? all + (size_t)one * all_bytes() : NULL, PART,
			MPI_BYTE, 0, MPI_COMM_WORLD, &requests[one]);
	note("done %d", MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
	if (rank == 0) {
		int fd = open(path("out"), O_RDWR | O_CREAT, 0644);
		note_result("write", write(fd, all, MANY * all_bytes()));
		close(fd);
		note_file(path("out"));
	}
	free(all);
	free(mine);
}

/* Parts of all sizes, of none, and in place; the root is the last rank. */
static void later_by_counts(void)
{
	char *name = path("in"), *all = memory(all_bytes()), *mine = memory(PART);
	int counts[64], starts[64], total = 0, root = size - 1;
	MPI_Request request;
	MPI_Datatype pairs;

	for (int to = 0; to < size; to++) {
		counts[to] = to == 0 && odd() ? 0 : PART / 2 - 100 * to;
		starts[to] = total;
		total += counts[to];
	}
	MPI_Type_contiguous(2, MPI_BYTE, &pairs);
	MPI_Type_commit(&pairs);
	if (rank == root) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, all_bytes()));
		close(fd);
	}
	void *to = rank == root && round_now >= 2 ? MPI_IN_PLACE : mine;
	MPI_Iscatterv(all, counts, starts, pairs, to, 2 * counts[rank], MPI_BYTE, root, MPI_COMM_WORLD, &request);
	/* The type stays until the operation has ended. */
	MPI_Type_free(&pairs);
	note("done %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
	note_sum("mine", to == MPI_IN_PLACE ? all + 2 * starts[root] : mine, 2 * (size_t)counts[rank]);
	MPI_Type_contiguous(2, MPI_BYTE, &pairs);
	MPI_Type_commit(&pairs);
	const void *from = rank == root && round_now >= 2 ? MPI_IN_PLACE : mine;
	MPI_Igatherv(from, 2 * counts[rank], MPI_BYTE, all, counts, starts, pairs, root, MPI_COMM_WORLD, &request);
	MPI_Type_free(&pairs);
	note("done %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
	if (rank == root) {
		int fd = open(path("out"), O_RDWR | O_CREAT, 0644);
		note_result("write", write(fd, all, 2 * (size_t)total));
		close(fd);
		note_file(path("out"));
	}
	free(all);
	free(mine);
}

/* Calls that are wrong, on all ranks alike; then right ones with the same buffers. */
static void later_with_errors(void)
{
	char *name = path("in"), *all = table(name, all_bytes()), *mine = memory(PART);
	MPI_Request request = MPI_REQUEST_NULL;
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
	note("count %d", class_of(MPI_Iscatter(all, -1, MPI_BYTE, mine, -1, MPI_BYTE, 0, copy, &request)));
	note("root %d", class_of(MPI_Iscatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, size + 3, copy, &request)));
	note("type %d",
		class_of(MPI_Igather(mine, PART, MPI_DATATYPE_NULL, all, PART, MPI_DATATYPE_NULL, 0, copy, &request)));
	note("right %d", MPI_Iscatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, copy, &request));
	note("done %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
	note_sum("mine", mine, PART);
	MPI_Comm_free(&copy);
	free(all);
	free(mine);
}

#ifdef OPEN_MPI
/* A rank names a larger size than the root sends, which Open MPI lets pass; whether it is a large one differs. */
static void later_uneven(void)
{
	char *name = path("in"), *all = table(name, all_bytes()), *mine = memory(PART);
	MPI_Request request;
	int part = odd() ? 1000 : 20000;

	memset(mine, 0, PART);
	MPI_Iscatter(all, part, MPI_BYTE, mine, rank ? PART : part, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
	note("done %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

#endif

struct one {
	MPI_Comm comm;
	char *all, *mine;
};

static void *scatter_by_thread(void *of)
{
	struct one *one = of;
	MPI_Request request;

	for (int time = 0; time < 20; time++) {
		MPI_Iscatter(one->all, PART, MPI_BYTE, one->mine, PART, MPI_BYTE, 0, one->comm, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	return NULL;
}

/* Two threads at once, each with a communicator of its own. */
static void later_by_threads(void)
{
	struct one both[2];
	pthread_t thread;
	char *name = path("in"), *other_name = path("other");

	both[0].all = table(name, all_bytes());
	both[1].all = table(other_name, all_bytes());
	for (int one = 0; one < 2; one++) {
		both[one].mine = memory(PART);
		MPI_Comm_dup(MPI_COMM_WORLD, &both[one].comm);
	}
	if (thread_level == MPI_THREAD_MULTIPLE) {
		must(!pthread_create(&thread, NULL, scatter_by_thread, &both[1]), "thread");
		scatter_by_thread(&both[0]);
		pthread_join(thread, NULL);
	}
	for (int one = 0; one < 2; one++) {
		note_sum("mine", both[one].mine, PART);
		MPI_Comm_free(&both[one].comm);
		free(both[one].mine);
		free(both[one].all);
	}
}

const struct test later_tests[] = {
	{"later_scatter", later_scatter, 0},
	{"later_gather", later_gather, 0},
	{"later_scatter_then_barrier", later_scatter_then_barrier, 0},
	{"later_scatter_while_the_root_waits", later_scatter_while_the_root_waits, 0},
	{"later_scatter_of_a_file_that_changes", later_scatter_of_a_file_that_changes, 0},
	{"later_scatter_of_a_file_that_is_gone", later_scatter_of_a_file_that_is_gone, 0},
	{"later_gather_then_barrier", later_gather_then_barrier, 0},
	{"later_gather_while_the_root_is_late", later_gather_while_the_root_is_late, 0},
	{"later_gather_changed_after", later_gather_changed_after, 0},
	{"later_in_two_orders", later_in_two_orders, 0},
	{"later_one_after_the_other", later_one_after_the_other, 0},
	{"later_by_counts", later_by_counts, 0},
	{"later_with_errors", later_with_errors, 0},
#ifdef OPEN_MPI
	{"later_uneven", later_uneven, 0},
#endif
	{"later_by_threads", later_by_threads, LASTS},
	{NULL, NULL, 0},
};
