/*
 * The cases' common functions: each case runs in a directory of its own, some rounds one after the other, and writes
 * into each rank's log what a program could see. Two runs are alike if their logs and their directories are.
 *
 * The log and the making of files use system calls directly: the tested functions are not also the witness.
 */
#ifndef HEADWATER_MPIIO_SAFETY_H
#define HEADWATER_MPIIO_SAFETY_H

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each rank's part of a file: no multiple of a page, and over the least that is transformed. */
#define PART 100003
/* Bytes that are written over files. No part of them depends on its offset. */
#define TEXT "bytes that replace what has been read"
/* Round 0 and 2 are as plain as can be, so that a case is known before something happens in 1 and 3. */
#define ROUNDS 4

struct test {
	const char *name;
	void (*run)(void);
	enum {
		NO_EFFECT,
		/* Threads, windows, memory that the kernel uses by itself: the library may do less from then on, so
		 * these follow all others. */
		LASTS,
		/* Ends the job: it is run alone, by its name. */
		ENDS,
	} effect;
};

extern const struct test files_tests[], changes_tests[], uses_tests[], kernel_tests[], given_tests[], faults_tests[],
	leaves_tests[], memory_tests[], scatter_tests[], message_tests[], receive_tests[], gather_tests[], ends_tests[],
	patterns_tests[], broadcast_tests[], later_tests[];

extern int rank, size, round_now;
extern int thread_level;
/* How inputs are opened: for reading alone, or for writing, too. */
extern int input_flags;

/* The path of a file of this case and this round; valid until eight more were requested. */
char *path(const char *name);
/* One line of this rank's log. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes what a call returned, and errno if it failed. */
void note_result(const char *what, long long result);
uint64_t sum(const void *data, size_t bytes);
/* Notes the checksum of memory. */
void note_sum(const char *what, const void *data, size_t bytes);
/* Makes a file whose bytes depend on `seed`. */
void make(const char *path, size_t bytes, unsigned seed);
void fill(void *data, size_t bytes, unsigned seed);
/* Notes a file's size and checksum. */
void note_file(const char *path);
/* Ends the job if `what` failed. */
void must(int is_true, const char *what);
/* The class of an MPI error. */
int class_of(int code);
/* True where something happens: in rounds 1 and 3. */
static inline int odd(void)
{
	return round_now & 1;
}

static inline size_t all_bytes(void)
{
	return (size_t)size * PART;
}

/* A real fault at this address. */
static inline void fault(uintptr_t address)
{
	volatile uintptr_t at = address;

	*(volatile char *)at = 1;
}

/* Memory that begins at a page. */
void *pages(size_t bytes);
/* Memory from malloc, not aligned to pages. */
void *memory(size_t bytes);

/* Made with large counts, where there are such: MPI's plain functions can't return how it was made. */
MPI_Datatype large_type(void);
/* Much too many blocks, or made so that there is no simpler description: another one each round. */
MPI_Datatype opaque_type(void);

/* The actions of a rank-0 program between its calls. `data` and `fd` are rank 0's. */
struct work {
	char *path;
	int fd;
	char *data;
	size_t bytes;
	char *mine;
};

typedef void step(struct work *work);

/* Rank 0's descriptor, after it has been opened anew at the same position if that is what it takes to write. */
int writable(struct work *work);

/*
 * Rank 0 reads and all scatter; `before` and `after` run on all ranks, in odd rounds. It is copied into each case, as
 * each case is to be a call site of its own.
 */
static inline __attribute__((always_inline)) void read_scatter(step *before, step *after)
{
	struct work work = {.path = path("in"), .fd = -1, .bytes = all_bytes(), .mine = memory(PART)};

	if (rank == 0) {
		make(work.path, work.bytes + 1000, 1);
		work.data = pages(work.bytes);
		work.fd = open(work.path, input_flags);
		note_result("read", read(work.fd, work.data, work.bytes));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (odd() && before)
		before(&work);
	note("scatter %d", MPI_Scatter(work.data, PART, MPI_BYTE, work.mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD));
	if (odd() && after)
		after(&work);
	note_sum("mine", work.mine, PART);
	if (rank == 0) {
		if (work.data && round_now >= 2)
			note_sum("all", work.data, work.bytes);
		if (work.data)
			munmap(work.data, work.bytes);
		if (work.fd >= 0)
			close(work.fd);
	}
	free(work.mine);
}

#define READ_SCATTER(name, before, after) \
	static void name(void) \
	{ \
		read_scatter(before, after); \
	}

/* All gather and rank 0 writes; the same. `before` is between the gathering and the writing. */
static inline __attribute__((always_inline)) void gather_write(step *before, step *after)
{
	struct work work = {.path = path("out"), .fd = -1, .bytes = all_bytes(), .mine = memory(PART)};

	fill(work.mine, PART, (unsigned)(rank + 10 * round_now));
	if (rank == 0) {
		work.data = pages(work.bytes);
		work.fd = open(work.path, O_RDWR | O_CREAT, 0644);
	}
	note("gather %d", MPI_Gather(work.mine, PART, MPI_BYTE, work.data, PART, MPI_BYTE, 0, MPI_COMM_WORLD));
	if (odd() && before)
		before(&work);
	if (rank == 0 && work.data && work.fd >= 0)
		note_result("write", write(work.fd, work.data, work.bytes));
	if (odd() && after)
		after(&work);
	note_sum("mine", work.mine, PART);
	if (rank == 0) {
		if (work.data && round_now >= 2)
			note_sum("all", work.data, work.bytes);
		if (work.data)
			munmap(work.data, work.bytes);
		if (work.fd >= 0)
			close(work.fd);
		note_file(work.path);
	}
	free(work.mine);
}

#define GATHER_WRITE(name, before, after) \
	static void name(void) \
	{ \
		gather_write(before, after); \
	}

#endif
