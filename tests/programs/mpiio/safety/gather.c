/* Gathered data is used otherwise than by one write of all of it, or the write is not as it seems. */
#define _GNU_SOURCE
#include "safety.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>

#define STEP(name) static inline __attribute__((always_inline)) void name(struct work *work)

static void pause_ms(long ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

STEP(root_changes)
{
	if (rank == 0)
		for (size_t at = 0; at < work->bytes; at += 10000)
			work->data[at] = (char)~work->data[at];
}

STEP(root_looks)
{
	if (rank == 0)
		note_sum("read", work->data, work->bytes);
}

STEP(root_sends)
{
	char *copy = memory(60000);

	if (rank == 0)
		for (int to = 1; to < size; to++)
			MPI_Send(work->data + 50000, 60000, MPI_BYTE, to, 3, MPI_COMM_WORLD);
	else
		MPI_Recv(copy, 60000, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	note_sum("sent", rank ? copy : work->data + 50000, 60000);
	free(copy);
}

/* The others continue, and change what they have sent, long before rank 0 writes. */
STEP(others_go_on)
{
	if (rank == 0) {
		pause_ms(200);
	} else {
		memset(work->mine, 'g', PART);
		if (rank > 1)
			MPI_Send(work->mine, 50000, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
		for (int from = 2; rank == 1 && from < size; from++)
			MPI_Recv(work->mine, 50000, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

STEP(others_change_late)
{
	if (rank == 0) {
		pause_ms(50);
	} else {
		pause_ms(15);
		memset(work->mine, 'l', PART);
	}
}

STEP(half_is_written)
{
	if (rank == 0) {
		note_result("write", write(work->fd, work->data, work->bytes / 2));
		note_result("ftruncate", ftruncate(work->fd, 0));
		note_result("seek", lseek(work->fd, 33, SEEK_SET));
	}
}

STEP(written_to_two_places)
{
	if (rank == 0) {
		note_result("pwrite", pwrite(work->fd, work->data, work->bytes, (off_t)work->bytes + 50));
		note_result("pwrite", pwrite(work->fd, work->data + 1000, work->bytes - 2000, 7));
	}
}

STEP(opened_to_append)
{
	if (rank == 0) {
		close(work->fd);
		make(work->path, 777, 8);
		work->fd = open(work->path, O_RDWR | O_APPEND);
		note_result("pwrite", pwrite(work->fd, work->data, work->bytes, 3));
		note_result("seek", lseek(work->fd, 5, SEEK_SET));
	}
}

STEP(append_set_later)
{
	if (rank == 0) {
		make(work->path, 777, 8);
		note_result("fcntl", fcntl(work->fd, F_SETFL, O_APPEND));
	}
}

STEP(opened_to_read)
{
	if (rank == 0) {
		close(work->fd);
		work->fd = open(work->path, O_RDONLY);
	}
}

STEP(descriptor_closed)
{
	if (rank == 0) {
		close(work->fd);
		note_result("write", write(work->fd, work->data, work->bytes));
		work->fd = -1;
	}
}

STEP(written_to_a_device)
{
	if (rank == 0) {
		int fd = open("/dev/null", O_WRONLY), full = open("/dev/full", O_WRONLY);

		note_result("write", write(fd, work->data, work->bytes));
		note_result("write", write(full, work->data, work->bytes));
		close(fd);
		close(full);
	}
}

STEP(written_to_a_pipe)
{
	if (rank == 0) {
		int pair[2];

		must(!pipe(pair), "pipe");
		pid_t child = fork();

		if (child == 0) {
			char *all = memory(work->bytes + 1);
			size_t at = 0;
			ssize_t got = 1;

			close(pair[1]);
			while ((got = read(pair[0], all + at, work->bytes + 1 - at)) > 0)
				at += (size_t)got;
			note_sum("through the pipe", all, at);
			_exit(0);
		}
		close(pair[0]);
		note_result("write", write(pair[1], work->data, work->bytes));
		close(pair[1]);
		waitpid(child, NULL, 0);
	}
}

/* A child that the C library's fork() doesn't make. */
STEP(seen_by_a_bare_child)
{
	if (rank == 0) {
#if __GLIBC_PREREQ(2, 34)
		pid_t child = _Fork();
#else
		pid_t child = fork();
#endif
		int status = 0;

		if (child == 0) {
			note_sum("child's", work->data, work->bytes);
			_exit(0);
		}
		waitpid(child, &status, 0);
		note_result("status", status);
	}
}

STEP(written_by_a_stream)
{
	if (rank == 0) {
		FILE *stream = fopen(work->path, "w");

		setvbuf(stream, NULL, _IOFBF, 1 << 18);
		fprintf(stream, "header %d\n", size);
		note("fwrite %zu", fwrite(work->data, 1, work->bytes, stream));
		note("at %ld", ftell(stream));
		fprintf(stream, "trailer\n");
		note_result("close", fclose(stream));
		note_file(work->path);
	}
}

STEP(written_behind_the_end)
{
	if (rank == 0)
		note_result("seek", lseek(work->fd, 200001, SEEK_END));
}

STEP(in_synchronous_file)
{
	if (rank == 0) {
		close(work->fd);
		work->fd = open(work->path, O_RDWR | O_DSYNC);
	}
}

STEP(limited)
{
	if (rank == 0) {
		struct rlimit old, less;

		getrlimit(RLIMIT_FSIZE, &old);
		less = old;
		less.rlim_cur = PART + 17;
		void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &less);
		ssize_t first = write(work->fd, work->data, work->bytes);
		ssize_t second = write(work->fd, work->data, work->bytes);
		int error = errno;
		ssize_t third = pwrite(work->fd, work->data, work->bytes, 0);
		/* The log is limited too. */
		setrlimit(RLIMIT_FSIZE, &old);
		signal(SIGXFSZ, handler);
		note("write %zd, write %zd, errno %d, pwrite %zd", first, second, error, third);
	}
}

/* Into a file system without room, which the variable names. */
STEP(disk_full)
{
	const char *directory = getenv("SAFETY_SMALL");

	if (rank == 0 && directory) {
		char name[1000];

		snprintf(name, sizeof name, "%s/full", directory);
		int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
		note_result("write", write(fd, work->data, work->bytes));
		note_result("write", write(fd, work->data, work->bytes));
		note_result("close", close(fd));
		note_file(name);
		FILE *stream = fopen(name, "w");
		note("fwrite %zu", fwrite(work->data, 1, work->bytes, stream));
		note("error %d", ferror(stream));
		note_result("close", fclose(stream));
		unlink(name);
	}
}

/* After the write. */
STEP(read_back)
{
	if (rank == 0) {
		char *copy = memory(work->bytes);

		note_result("pread", pread(work->fd, copy, work->bytes, 0));
		note_sum("read back", copy, work->bytes);
		free(copy);
	}
}

STEP(seen_by_others)
{
	MPI_Barrier(MPI_COMM_WORLD);
	note_file(work->path);
	MPI_Barrier(MPI_COMM_WORLD);
}

STEP(seen_by_a_process)
{
	if (rank == 0) {
		char text[2000], got[100] = "";

		snprintf(text, sizeof text, "cksum <'%s'", work->path);
		FILE *from = popen(text, "r");

		note("read %d", fgets(got, sizeof got, from) != NULL);
		got[strcspn(got, "\n")] = 0;
		note("cksum %s, status %d", got, pclose(from));
	}
}

STEP(mapped)
{
	if (rank == 0) {
		char *map = mmap(NULL, work->bytes, PROT_READ, MAP_SHARED, work->fd, 0);

		must(map != MAP_FAILED, "mmap");
		note_sum("mapped", map, work->bytes);
		munmap(map, work->bytes);
	}
}

STEP(cut)
{
	if (rank == 0) {
		note_result("fsync", fsync(work->fd));
		note_result("ftruncate", ftruncate(work->fd, 5000));
	}
}

STEP(moved_away)
{
	if (rank == 0) {
		char *other = path("other");

		note_result("rename", rename(work->path, other));
		note_file(other);
		make(work->path, 10, 1);
	}
}

STEP(overwritten_in_part)
{
	if (rank == 0)
		note_result("pwrite", pwrite(work->fd, TEXT, 20, PART - 3));
}

STEP(written_once_more)
{
	if (rank == 0) {
		note_result("write", write(work->fd, work->data, work->bytes));
		work->data[5] = '!';
		note_result("write", write(work->fd, work->data, 70000));
	}
}

static ucontext_t outside, inside;
static struct work *work_inside;

static void touch_inside(void)
{
	for (int part = 0; part < size; part++)
		work_inside->data[part * PART + PART / 2] ^= 1;
}

/* In a context whose stack has room for the program's own functions, but not for MPI's. */
static void change_in_a_context(struct work *work)
{
	const size_t guard = 65536, bytes = 8192;
	char *stack = pages(guard + bytes);

	mprotect(stack, guard, PROT_NONE);
	work_inside = work;
	must(getcontext(&inside) == 0, "getcontext");
	inside.uc_stack.ss_sp = stack + guard;
	inside.uc_stack.ss_size = bytes;
	inside.uc_link = &outside;
	makecontext(&inside, touch_inside, 0);
	note_result("swapcontext", swapcontext(&outside, &inside));
	munmap(stack, guard + bytes);
}

STEP(changed_in_a_context)
{
	if (rank == 0)
		change_in_a_context(work);
}

STEP(buffers_change)
{
	memset(work->mine, 'c', PART);
	if (rank == 0)
		memset(work->data, 'd', work->bytes);
}

/* clang-format off */
#define BEFORE(X) \
	X(root_changes) X(root_looks) X(root_sends) X(others_go_on) X(others_change_late) X(half_is_written) \
	X(written_to_two_places) X(opened_to_append) X(append_set_later) X(opened_to_read) X(descriptor_closed) \
	X(written_to_a_device) X(written_to_a_pipe) X(written_by_a_stream) X(written_behind_the_end) \
	X(in_synchronous_file) X(limited) X(disk_full) X(seen_by_a_bare_child) X(changed_in_a_context)
#define AFTER(X) \
	X(read_back) X(seen_by_others) X(seen_by_a_process) X(mapped) X(cut) X(moved_away) X(overwritten_in_part) \
	X(written_once_more) X(buffers_change)
/* clang-format on */

#define CASE_BEFORE(name) GATHER_WRITE(gather_##name, name, NULL)
#define CASE_AFTER(name) GATHER_WRITE(gather_##name, NULL, name)
BEFORE(CASE_BEFORE)
AFTER(CASE_AFTER)

/* Gatherings that are not written: rank 0 has the data. */
static void never_written(void)
{
	char *all = rank ? NULL : memory(all_bytes()), *mine = memory(PART);

	fill(mine, PART, (unsigned)rank);
	MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	memset(mine, 'n', PART);
	if (rank == 0 && odd())
		note_sum("all", all, all_bytes());
	free(all);
	free(mine);
}

/* Memory is freed as soon as the call has returned, on all ranks but 0. */
static void freed_at_once(void)
{
	char *all = rank ? NULL : pages(all_bytes()), *mine = pages(PART);
	char *name = path("out");

	fill(mine, PART, (unsigned)rank);
	MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	munmap(mine, PART);
	if (rank == 0) {
		int fd = open(name, O_WRONLY | O_CREAT, 0644);
		note_result("write", write(fd, all, all_bytes()));
		close(fd);
		note_file(name);
		munmap(all, all_bytes());
	}
}

static void gather_in_place(void)
{
	char *all = memory(all_bytes()), *name = path("out");

	fill(all, all_bytes(), (unsigned)rank);
	MPI_Gather(rank ? all : MPI_IN_PLACE, PART, MPI_BYTE, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		FILE *stream = fopen(name, "w");
		note("fwrite %zu", fwrite(all, 1, all_bytes(), stream));
		fclose(stream);
		note_file(name);
	}
	free(all);
}

/* In another order, with gaps that leave the buffer's bytes. */
static void gather_by_counts(void)
{
	char *all = memory(all_bytes()), *mine = memory(PART), *name = path("out");
	int counts[size], displs[size];

	for (int from = 0; from < size; from++) {
		counts[from] = from == 1 && odd() ? 0 : PART - 500 * from - 7;
		displs[from] = (size - 1 - from) * PART + 3;
	}
	memset(all, 'g', all_bytes());
	fill(mine, PART, (unsigned)rank);
	MPI_Gatherv(mine, counts[rank], MPI_BYTE, all, counts, displs, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		int fd = open(name, O_WRONLY | O_CREAT, 0644);
		note_result("write", write(fd, all, all_bytes()));
		close(fd);
		note_sum("all", all, all_bytes());
		note_file(name);
	}
	free(all);
	free(mine);
}

/* The sent types, and in the end the received ones, are unknown to the library. */
static void gather_opaque_types(void)
{
	char *all = memory(all_bytes()), *mine = memory(PART), *name = path("out");
	MPI_Datatype type = opaque_type();
	int fd = rank == 0 ? open(name, O_WRONLY | O_CREAT, 0644) : -1;

	for (int turn = 0; turn < 4; turn++) {
		fill(mine, PART, (unsigned)(rank + 10 * turn));
		if (turn < 3)
			MPI_Gather(mine, 1, type, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
		else
			MPI_Gather(mine, PART, MPI_BYTE, all, 1, type, 0, MPI_COMM_WORLD);
		if (rank == 0)
			note_result("write", write(fd, all, all_bytes()));
	}
	if (rank == 0) {
		close(fd);
		note_file(name);
	}
	MPI_Type_free(&type);
	free(all);
	free(mine);
}

/* The table is made by two gatherings of which the second overlaps the first; both are written at once. */
static void gathered_twice(void)
{
	char *all = rank ? NULL : memory(all_bytes() + PART), *mine = memory(PART), *name = path("out");

	fill(mine, PART, (unsigned)rank);
	MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	fill(mine, PART, (unsigned)rank + 50);
	MPI_Gather(mine, PART, MPI_BYTE, rank ? NULL : all + PART / 2, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		int fd = open(name, O_WRONLY | O_CREAT, 0644);
		note_result("write", write(fd, all, all_bytes() + PART / 2));
		close(fd);
		note_file(name);
	}
	free(all);
	free(mine);
}

/* The others send less than rank 0 expects, as where rows don't divide by ranks: the standard forbids it, MPIs don't. */
static void gather_less(void)
{
	const int less[] = {1, 1003, PART / 2, PART - 9001, PART - 300};
	int counts[64], starts[64];
	char *all = rank ? NULL : memory(all_bytes()), *mine = memory(PART), *name = path("out");
	int fd = rank == 0 ? open(name, O_WRONLY | O_CREAT, 0644) : -1;

	must(size <= 64, "so many ranks");
	for (int from = 0; from < size; from++) {
		counts[from] = PART;
		starts[from] = from * PART;
	}
	for (size_t turn = 0; turn < sizeof less / sizeof *less; turn++) {
		int count = rank ? PART - less[turn] : PART;

		fill(mine, PART, (unsigned)(rank + 10 * (int)turn));
		if (rank == 0)
			memset(all, 'x', all_bytes());
		note("%d", MPI_Gatherv(mine, count, MPI_BYTE, all, counts, starts, MPI_BYTE, 0, MPI_COMM_WORLD));
		if (rank == 0)
			note_result("write", write(fd, all, all_bytes()));
	}
	if (rank == 0) {
		close(fd);
		note_file(name);
	}
	free(all);
	free(mine);
}

static void gather_to_others(void)
{
	char *all = memory(all_bytes()), *mine = memory(PART);

	fill(mine, PART, (unsigned)rank);
	for (int root = 0; root < size; root++)
		MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, root, MPI_COMM_WORLD);
	note_sum("all", all, all_bytes());
	free(all);
	free(mine);
}

#define ROWS(name) {"gather_" #name, gather_##name, 0},

const struct test gather_tests[] = {
	BEFORE(ROWS) AFTER(ROWS){"never_written", never_written, 0},
	{"freed_at_once", freed_at_once, 0},
	{"gather_in_place", gather_in_place, 0},
	{"gather_by_counts", gather_by_counts, 0},
	{"gather_opaque_types", gather_opaque_types, 0},
	{"gathered_twice", gathered_twice, 0},
	{"gather_less", gather_less, 0},
	{"gather_to_others", gather_to_others, 0},
	{NULL, NULL, 0},
};
