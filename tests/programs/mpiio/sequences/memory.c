/* Memory, and methods of inspecting it. The bytes are copied in the order of the inspection, and judged behind it. */
#define _GNU_SOURCE
#include "sequences.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The capacity of a pipe or a socket. */
#define PIECE_BYTES 32768L

enum inspection {
	FORWARD,
	BACKWARD,
	BY_COLUMN,
	AT_RANDOM,
	BY_PIPE,
	BY_SOCKET,
	BY_SYSTEM_CALL,
	BY_FILE,
	BY_THREAD,
	BY_CHILD
};

struct inspected {
	char *to;
	const char *from;
	long bytes;
};

char *scratch(long bytes)
{
	static char *memory;
	static long room;

	if (bytes + 1 > room) {
		if (memory)
			munmap(memory, (size_t)room);
		room = bytes + 1 + (1 << 20);
		memory = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(memory != MAP_FAILED, "memory");
	}
	return memory;
}

static int odd(int buffer)
{
	return 7 + 16 * buffer;
}

/* A private view is one of a file that is full of data. */
static char *mapped(enum memory memory, size_t bytes)
{
	int fd = memory == OF_FILE ? memfd_create("buffer", MFD_CLOEXEC) : -1;
	int flags = (memory == SHARED ? MAP_SHARED : MAP_PRIVATE) | (memory == OF_FILE ? 0 : MAP_ANONYMOUS);
	char *at;

	if (memory == OF_FILE) {
		char *data = scratch((long)bytes);

		fill(data, (long)bytes, 1);
		must(fd >= 0 && syscall(SYS_write, fd, data, bytes) == (long)bytes, "a file of memory is written");
	}
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (memory == OF_FILE)
		syscall(SYS_close, fd);
	return at;
}

void buffer_new(int buffer, uint64_t seed)
{
	size_t bytes = (size_t)program.buffer_bytes;
	char *at = program.memory[buffer] == ALLOCATED ? malloc(bytes + 256) : mapped(program.memory[buffer], bytes);

	must(at && at != MAP_FAILED, "memory");
	program.buffer[buffer] = program.memory[buffer] == ALLOCATED ? at + odd(buffer) + 1 : at;
	fill(program.buffer[buffer], program.buffer_bytes, seed);
}

void buffer_free(int buffer)
{
	if (program.memory[buffer] == ALLOCATED)
		free(program.buffer[buffer] - odd(buffer) - 1);
	else
		munmap(program.buffer[buffer], (size_t)program.buffer_bytes);
	program.buffer[buffer] = NULL;
}

/* Writes and reads of pieces alternate, so none blocks. */
static void through(int in, int out, char *to, const char *from, long bytes, enum inspection how)
{
	for (long at = 0; at < bytes; at += PIECE_BYTES) {
		long part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES, written, got = 0, more = 1;
		struct iovec two[2] = {{(char *)from + at, (size_t)part / 2},
			{(char *)from + at + part / 2, (size_t)(part - part / 2)}};

		if (how == BY_SYSTEM_CALL)
			written = syscall(SYS_write, in, from + at, part);
		else if (how == BY_SOCKET)
			written = at / PIECE_BYTES % 2 ? writev(in, two, 2) : send(in, from + at, (size_t)part, 0);
		else
			written = write(in, from + at, (size_t)part);
		must(written == part, "a piece is written");
		for (; got < part && more > 0; got += more)
			more = syscall(SYS_read, out, to + at + got, part - got);
		must(got == part, "a piece is read");
	}
}

static void inspect_through(char *to, const char *from, long bytes, enum inspection how)
{
	int pair[2];

	must(!(how == BY_SOCKET ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair)), "a pair of descriptors");
	through(how == BY_SOCKET ? pair[0] : pair[1], how == BY_SOCKET ? pair[1] : pair[0], to, from, bytes, how);
	syscall(SYS_close, pair[0]);
	syscall(SYS_close, pair[1]);
}

static void inspect_by_file(char *to, const char *from, long bytes)
{
	int fd = memfd_create("inspect", MFD_CLOEXEC);

	must(fd >= 0 && pwrite(fd, from, (size_t)bytes, 0) == bytes, "a file of memory is written");
	must(syscall(SYS_pread64, fd, to, bytes, 0L) == bytes, "a file of memory is read");
	syscall(SYS_close, fd);
}

static void *inspect_there(void *of)
{
	struct inspected *inspection = of;

	memcpy(inspection->to, inspection->from, (size_t)inspection->bytes);
	return NULL;
}

static void inspect_by_thread(char *to, const char *from, long bytes)
{
	struct inspected inspection = {to, from, bytes};
	pthread_t thread;

	must(!pthread_create(&thread, NULL, inspect_there, &inspection) && !pthread_join(thread, NULL),
		"a thread reads");
}

static void inspect_by_child(char *to, const char *from, long bytes)
{
	char *shared = mmap(NULL, (size_t)bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child = fork();

	if (child == 0) {
		memcpy(shared, from, (size_t)bytes);
		_exit(0);
	}
	must(child > 0 && waitpid(child, &status, 0) == child, "a child reads");
	event("child %d", status);
	memcpy(to, shared, (size_t)bytes);
	munmap(shared, (size_t)bytes + 1);
}

static void inspect_backward(char *to, const char *from, long bytes, long step)
{
	for (long end = bytes; end > 0; end -= step) {
		long at = end > step ? end - step : 0;

		memcpy(to + at, from + at, (size_t)(end - at));
	}
}

/* Rows of `width` bytes; eight bytes of each, then the next eight. */
static void inspect_by_column(char *to, const char *from, long bytes, long width)
{
	for (long column = 0; column < width; column += 8)
		for (long row = 0; row + column < bytes; row += width) {
			long part = width - column < 8 ? width - column : 8;

			part = bytes - row - column < part ? bytes - row - column : part;
			memcpy(to + row + column, from + row + column, (size_t)part);
		}
}

/* All blocks of `step` bytes, each once: the factor has no divisor in common with how many there are. */
static void inspect_at_random(char *to, const char *from, long bytes, long step)
{
	long blocks = (bytes + step - 1) / step, factor = 7919;

	while (blocks > 0 && blocks % factor == 0)
		factor += 2;
	for (long block = 0; block < blocks; block++) {
		long at = (block * factor + 11) % blocks * step;

		memcpy(to + at, from + at, (size_t)(bytes - at < step ? bytes - at : step));
	}
}

/* RANK BUFFER AT BYTES HOW STEP */
void do_inspect(void)
{
	long rank = next();
	const char *from = next_location();
	long bytes = next();
	enum inspection how = (enum inspection)next();
	long step = next();
	char *to = scratch(bytes);

	if (program.rank != rank)
		return;
	if (how == BACKWARD)
		inspect_backward(to, from, bytes, step);
	else if (how == BY_COLUMN)
		inspect_by_column(to, from, bytes, step);
	else if (how == AT_RANDOM)
		inspect_at_random(to, from, bytes, step);
	else if (how == BY_FILE)
		inspect_by_file(to, from, bytes);
	else if (how == BY_THREAD && program.has_threads)
		inspect_by_thread(to, from, bytes);
	else if (how == BY_CHILD)
		inspect_by_child(to, from, bytes);
	else if (how == BY_PIPE || how == BY_SOCKET || how == BY_SYSTEM_CALL)
		inspect_through(to, from, bytes, how);
	else
		memcpy(to, from, (size_t)bytes);
	event_bytes("inspect", to, bytes);
}

/* RANK BUFFER AT BYTES HOW VALUE: all of it is overwritten, by the program or by the kernel. */
void do_set(void)
{
	long rank = next();
	char *at = next_location();
	long bytes = next(), how = next(), value = next();
	char *from = scratch(bytes);
	int pair[2];

	if (program.rank != rank)
		return;
	if (how == 0) {
		memset(at, (int)value, (size_t)bytes);
		return;
	}
	fill(from, bytes, (uint64_t)value);
	if (how == 1) {
		memcpy(at, from, (size_t)bytes);
		return;
	}
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "a pair of sockets");
	for (long done = 0; done < bytes; done += PIECE_BYTES) {
		long part = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES, got = 0, more = 1;

		must(syscall(SYS_write, pair[0], from + done, part) == part, "a piece is written");
		for (; got < part && more > 0; got += more)
			more = how == 2    ? read(pair[1], at + done + got, (size_t)(part - got))
				: how == 3 ? recv(pair[1], at + done + got, (size_t)(part - got), 0)
					   : syscall(SYS_read, pair[1], at + done + got, part - got);
		must(got == part, "a piece is read");
	}
	syscall(SYS_close, pair[0]);
	syscall(SYS_close, pair[1]);
}

/* RANK BUFFER AT BYTES STEP: one byte in so many. */
void do_store(void)
{
	long rank = next();
	char *at = next_location();
	long bytes = next(), step = next();

	for (long byte = 0; byte < bytes && program.rank == rank; byte += step)
		at[byte] ^= 0x5a;
}

/* RANK BUFFER AT BUFFER AT BYTES: from the first to the second location. */
void do_copy(void)
{
	long rank = next();
	const char *from = next_location();
	char *to = next_location();
	long bytes = next();

	if (program.rank == rank)
		memmove(to, from, (size_t)bytes);
}

/* RANK BUFFER SEED */
void do_renew(void)
{
	long rank = next(), buffer = next(), seed = next();

	if (program.rank != rank)
		return;
	buffer_free((int)buffer);
	buffer_new((int)buffer, (uint64_t)seed);
}

/* RANK BUFFER AT BYTES: whole pages are reset to their first contents, unless they are shared. */
void do_drop(void)
{
	long rank = next(), buffer = next(), at = next(), bytes = next();
	char *from = program.buffer[buffer] + at - at % 4096;

	if (program.rank == rank && program.memory[buffer] != ALLOCATED)
		event("madvise %d", madvise(from, (size_t)bytes, MADV_DONTNEED));
}
