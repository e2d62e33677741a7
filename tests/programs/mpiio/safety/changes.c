/*
 * The file changes after it was read: the program's memory stays as it was. By the same rank, through each kind of
 * call; by another rank, with and without MPI in between; by another process.
 */
#define _GNU_SOURCE
#include "safety.h"

#include <sys/sendfile.h>
#include <time.h>

#define STEP(name) static inline __attribute__((always_inline)) void name(struct work *work)

/* Runs a shell's command with $FILE; its status. Only processes of rank 0, unless stated otherwise. */
static int shell(const char *file, const char *command)
{
	char text[3000];

	snprintf(text, sizeof text, "FILE='%s'; %s", file, command);
	return system(text);
}

STEP(overwrite)
{
	if (rank == 0) {
		int fd = open(work->path, O_WRONLY);

		note_result("pwrite", pwrite(fd, TEXT, strlen(TEXT), 50000));
		note_result("write", write(fd, TEXT, strlen(TEXT)));
		close(fd);
	}
}

STEP(overwrite_same_fd)
{
	if (rank == 0) {
		note_result("seek", lseek(writable(work), -70000, SEEK_CUR));
		note_result("write", write(work->fd, TEXT, strlen(TEXT)));
	}
}

STEP(overwrite_stream)
{
	if (rank == 0) {
		FILE *stream = fopen(work->path, "r+");

		fprintf(stream, "%s%d\n", TEXT, 12345);
		note_result("close", fclose(stream));
	}
}

/* The file gets the contents of the buffer that was read from it, elsewhere. */
STEP(shift_within)
{
	if (rank == 0)
		note_result("pwrite", pwrite(writable(work), work->data, work->bytes - 5000, 5000));
}

STEP(truncate_name)
{
	if (rank == 0)
		note_result("truncate", truncate(work->path, 1000));
}

STEP(truncate_fd)
{
	if (rank == 0)
		note_result("truncate", ftruncate(writable(work), 70000));
}

STEP(open_truncating)
{
	if (rank == 0)
		close(open(work->path, O_WRONLY | O_TRUNC));
}

STEP(create_truncating)
{
	if (rank == 0)
		fclose(fopen(work->path, "w"));
}

STEP(renamed)
{
	if (rank == 0)
		note_result("rename", rename(work->path, path("elsewhere")));
}

STEP(unlinked)
{
	if (rank == 0) {
		note_result("unlink", unlink(work->path));
		make(work->path, 50, 9);
	}
}

STEP(replaced)
{
	if (rank == 0) {
		char *other = path("other");

		make(other, work->bytes, 9);
		note_result("rename", rename(other, work->path));
	}
}

STEP(closed)
{
	if (rank == 0) {
		note_result("close", close(work->fd));
		note_result("unlink", unlink(work->path));
		work->fd = -1;
	}
}

STEP(hole_punched)
{
	if (rank == 0)
		note_result("fallocate",
			fallocate(writable(work), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 65536));
}

STEP(copied_over)
{
	if (rank == 0) {
		loff_t from = 0, to = 60000;

		note_result("copy_file_range", copy_file_range(writable(work), &from, work->fd, &to, 30000, 0));
	}
}

STEP(sent_over)
{
	if (rank == 0) {
		char *other = path("other");

		make(other, 70000, 9);
		int in = open(other, O_RDONLY), out = open(work->path, O_WRONLY);

		note_result("sendfile", sendfile(out, in, NULL, 70000));
		close(in);
		close(out);
	}
}

STEP(mapped_and_changed)
{
	if (rank == 0) {
		char *map = mmap(NULL, work->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, writable(work), 0);

		must(map != MAP_FAILED, "mmap");
		memset(map + 30000, 'm', 70000);
		munmap(map, work->bytes);
	}
}

STEP(by_a_process)
{
	if (rank == 0)
		note("status %d",
			shell(work->path, "printf 0123456789 | dd of=\"$FILE\" bs=1 seek=40000 conv=notrunc 2>&-"));
}

STEP(truncated_by_a_process)
{
	if (rank == 0)
		note("status %d", shell(work->path, ": >\"$FILE\""));
}

STEP(by_a_stream_of_a_process)
{
	if (rank == 0) {
		char text[2000];

		snprintf(text, sizeof text, "cat >'%s'", work->path);
		FILE *to = popen(text, "w");

		fprintf(to, "popen\n");
		note("status %d", pclose(to));
	}
}

STEP(by_another_rank)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1 % size) {
		int fd = open(work->path, O_WRONLY);

		note_result("pwrite", pwrite(fd, TEXT, strlen(TEXT), 60000));
		close(fd);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

STEP(truncated_by_another_rank)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		note_result("truncate", truncate(work->path, 4096));
	MPI_Barrier(MPI_COMM_WORLD);
}

STEP(replaced_by_another_rank)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1) {
		char *other = path("other");

		make(other, all_bytes(), 9);
		note_result("unlink", unlink(work->path));
		note_result("rename", rename(other, work->path));
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void wait_for(const char *name)
{
	struct timespec pause = {0, 1000000};

	for (int tries = 0; access(name, F_OK) && tries < 20000; tries++)
		nanosleep(&pause, NULL);
	must(!access(name, F_OK), name);
}

/* Ranks that agree through the file system, without MPI. */
STEP(by_another_rank_without_mpi)
{
	char *begin = path("begin"), *end = path("end");

	if (rank == 0) {
		close(open(begin, O_WRONLY | O_CREAT, 0644));
		wait_for(end);
	} else if (rank == 1) {
		wait_for(begin);
		note_result("truncate", truncate(work->path, 50));
		close(open(end, O_WRONLY | O_CREAT, 0644));
	}
}

/* By system calls that are no functions of libc. */
STEP(by_raw_calls)
{
	if (rank == 0)
		make(work->path, 60000, 10);
}

/* clang-format off */
#define CHANGES(X) \
	X(overwrite) X(overwrite_same_fd) X(overwrite_stream) X(shift_within) X(truncate_name) X(truncate_fd) \
	X(open_truncating) X(create_truncating) X(renamed) X(unlinked) X(replaced) X(closed) X(hole_punched) \
	X(copied_over) X(sent_over) X(mapped_and_changed) X(by_a_process) X(truncated_by_a_process) \
	X(by_a_stream_of_a_process) X(by_another_rank) X(truncated_by_another_rank) X(replaced_by_another_rank) \
	X(by_another_rank_without_mpi) X(by_raw_calls)
/* clang-format on */

#define BOTH(name) READ_SCATTER(name##_before, name, NULL) READ_SCATTER(name##_after, NULL, name)
CHANGES(BOTH)

/* A mapping of the file that was there before it was read. */
static void mapping_before(void)
{
	char *name = path("in"), *map = NULL, *all = NULL, *mine = memory(PART);

	if (rank == 0) {
		make(name, all_bytes(), 1);
		all = pages(all_bytes());
		int fd = open(name, O_RDWR);
		map = mmap(NULL, all_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		note_result("read", read(fd, all, all_bytes()));
		close(fd);
		memset(map + 40000, 'm', 50000);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	if (rank == 0) {
		memset(map + 10000, 'n', 20000);
		note_sum("all", all, all_bytes());
		munmap(map, all_bytes());
		munmap(all, all_bytes());
	}
	free(mine);
}

/* Each step reads the previous one's output. */
static void written_then_read(void)
{
	char *name = path("both"), *all = rank ? NULL : pages(all_bytes()), *mine = memory(PART);
	int fd = rank ? -1 : open(name, O_RDWR | O_CREAT, 0644);

	fill(mine, PART, (unsigned)rank);
	for (int step = 0; step < 3; step++) {
		MPI_Gather(mine, PART, MPI_BYTE, all, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
		if (rank == 0) {
			note_result("pwrite", pwrite(fd, all, all_bytes(), 0));
			note_result("pread", pread(fd, all, all_bytes() - 4099, 4099));
		}
		MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
		note_sum("mine", mine, PART);
	}
	if (rank == 0) {
		close(fd);
		note_file(name);
		munmap(all, all_bytes());
	}
	free(mine);
}

#define ROWS(name) {#name "_before", name##_before, 0}, {#name "_after", name##_after, 0},

const struct test changes_tests[] = {
	CHANGES(ROWS){"mapping_before", mapping_before, 0},
	{"written_then_read", written_then_read, 0},
	{NULL, NULL, 0},
};
