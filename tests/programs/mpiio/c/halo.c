/*
 * Rows with borders: each rank has rows of a file, and some rows on both sides that its neighbours have, too. Rank 0
 * receives the rows of one rank after the other into the same buffer, borders included, and writes them: the rows of the
 * next rank replace some of those before.
 *
 *   halo --out FILE [--rows N] [--row-bytes N] [--border N] [--steps N] [--reverse] [--separate] [--locked file|record]
 *        [--timed] [--twin]
 *
 * --reverse: the last rank's rows come first. --separate: a buffer for each rank, which is checked at the end.
 * --locked: another process reads the file as soon as rank 0 has unlocked it, by `flock` or by `fcntl`. --timed: rank 0
 * sets the file's times before it closes it. --twin: each rank writes what no later rank replaces.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "io_method.h"

enum { TAG = 9, TIME_S = 1000000000 };

static struct {
	const char *out;
	long rows, row_bytes, border, steps;
	const char *locked;
	int reverse, separate, timed, twin;
} options;

/* What rank 0 shares with the process that waits for the lock. */
static struct {
	volatile int is_released, is_read;
	volatile uint64_t sum;
} * other;

/* The rows of a rank with its borders: the first, and the one behind them. */
static long first_of(int of)
{
	long first = before(options.rows, size, of) - options.border;

	return first > 0 ? first : 0;
}

static long end_of(int of)
{
	long end = before(options.rows, size, of) + part(options.rows, size, of) + options.border;

	return end < options.rows ? end : options.rows;
}

static size_t bytes_of(int of)
{
	return (size_t)(end_of(of) - first_of(of)) * (size_t)options.row_bytes;
}

static void write_all(int fd, const char *data, size_t bytes, off_t at)
{
	for (ssize_t done; bytes; data += done, at += done, bytes -= (size_t)done)
		if ((done = pwrite(fd, data, bytes, at)) <= 0)
			fail(options.out);
}

static uint64_t sum_of_file(void)
{
	uint64_t sum = 0;
	char piece[4096];
	int fd = open(options.out, O_RDONLY);

	for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0;)
		sum = checksum(piece, (size_t)got, sum);
	close(fd);
	return sum;
}

/* Locks the whole file, or unlocks it. */
static int lock(int fd, bool is_locked)
{
	struct flock all = {.l_type = is_locked ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET};

	if (!strcmp(options.locked, "file"))
		return flock(fd, is_locked ? LOCK_EX : LOCK_UN);
	return fcntl(fd, F_OFD_SETLKW, &all);
}

/* A process that isn't part of the job, and ends with this one. */
static pid_t other_begin(void)
{
	other = mmap(NULL, sizeof *other, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	while (!other->is_released && getppid() == parent)
		usleep(1000);
	other->sum = sum_of_file();
	other->is_read = 1;
	_exit(0);
}

/* Shows the file to the others before it is closed. */
static void hand_over(int fd)
{
	const struct timespec times[2] = {{.tv_sec = TIME_S}, {.tv_sec = TIME_S}};

	if (options.locked) {
		if (lock(fd, false))
			fail("unlocking");
		other->is_released = 1;
		while (!other->is_read)
			usleep(1000);
	}
	if (options.timed && futimens(fd, times))
		fail("futimens");
}

static void check_what_others_saw(void)
{
	struct stat status;

	if (options.locked && sum_of_file() != other->sum)
		fail("the file that was unlocked had other bytes");
	if (options.timed && (stat(options.out, &status) || status.st_mtime != TIME_S))
		fail("the file has another time");
}

static void naive(char *mine, char **buffers)
{
	MPI_Request request;
	int fd;

	MPI_Isend(mine, (int)bytes_of(rank), MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	if (rank == 0) {
		fd = open(options.out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd < 0 || (options.locked && lock(fd, true)))
			fail(options.out);
		for (int i = 0; i < size; i++) {
			int from = options.reverse ? size - 1 - i : i;
			char *buffer = buffers[options.separate ? from : 0];

			MPI_Recv(buffer, (int)bytes_of(from), MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			write_all(fd, buffer, bytes_of(from), (off_t)(first_of(from) * options.row_bytes));
		}
		hand_over(fd);
		if (close(fd))
			fail(options.out);
		check_what_others_saw();
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void twin(const char *mine)
{
	long first = first_of(rank), end = end_of(rank);
	MPI_File file;

	if (!options.reverse && rank < size - 1)
		end = first_of(rank + 1);
	if (options.reverse && rank > 0)
		first = end_of(rank - 1);
	if (MPI_File_open(MPI_COMM_WORLD, options.out, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file) !=
		MPI_SUCCESS)
		fail(options.out);
	MPI_File_set_size(file, 0);
	MPI_File_write_at_all(file, first * options.row_bytes, mine + (first - first_of(rank)) * options.row_bytes,
		(int)((end - first) * options.row_bytes), MPI_BYTE, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
}

/* The data of a rank before the first step. */
static void fill(char *data, int of)
{
	for (size_t at = 0; at < bytes_of(of); at++)
		data[at] = (char)(at * 31 + at / 4099 + (size_t)of * 17);
}

/* What was received is still there, whatever became of the file. */
static void check(char **buffers)
{
	for (int i = 0; i < size; i++) {
		char *expected = memory(bytes_of(i));

		fill(expected, i);
		for (long step = 0; step < options.steps; step++)
			compute((unsigned char *)expected, bytes_of(i));
		if (memcmp(buffers[i], expected, bytes_of(i)))
			fail("a buffer has other bytes");
		free(expected);
	}
}

int main(int argc, char **argv)
{
	options.locked = option(argc, argv, "locked", NULL);
	options.timed = flag(argc, argv, "timed");
	options.out = option(argc, argv, "out", "halo.out");
	pid_t reader = options.locked ? other_begin() : -1;
	start(&argc, &argv);
	options.rows = number(argc, argv, "rows", 1024);
	options.row_bytes = number(argc, argv, "row-bytes", 1024);
	options.border = number(argc, argv, "border", 2);
	options.steps = number(argc, argv, "steps", 1);
	options.reverse = flag(argc, argv, "reverse");
	options.separate = flag(argc, argv, "separate");
	options.twin = flag(argc, argv, "twin");
	char *mine = memory(bytes_of(rank)), *buffers[size];
	for (int i = 0; i < size; i++)
		buffers[i] = rank || (i && !options.separate)
			? NULL
			: memory((size_t)(part(options.rows, size, 0) + 2 * options.border) *
				  (size_t)options.row_bytes);
	fill(mine, rank);
	for (long step = 0; step < options.steps; step++) {
		compute((unsigned char *)mine, bytes_of(rank));
		double at = begin();

		if (options.twin)
			twin(mine);
		else
			naive(mine, buffers);
		write_s += MPI_Wtime() - at;
	}
	count(mine, bytes_of(rank));
	if (options.separate && !options.twin && !rank)
		check(buffers);
	for (int i = 0; i < size; i++)
		free(buffers[i]);
	free(mine);
	if (reader > 0) {
		kill(reader, SIGKILL);
		waitpid(reader, NULL, 0);
	}
	return finish();
}
