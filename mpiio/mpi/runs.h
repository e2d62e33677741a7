/* The parts of a file that a buffer's data comes from, in the buffer's order, as few regular runs. */
#ifndef HWIO_RUNS_H
#define HWIO_RUNS_H

#include "base/engine.h"
#include "memory/file.h"
#include "mpi/layout.h"

/* Maximum of listed runs. A run has `count` pieces of `bytes` bytes, `stride` apart. */
#define HWIO_RUNS_MAX 24
/* Maximum of repetitions. */
#define HWIO_RUNS_REPEATED_MAX 16384

struct hwio_context;

struct hwio_run {
	uint64_t offset, bytes, stride, count;
};

/* Behind the first `head` of the listed runs, `pattern` ones are repeated: so often, at this distance in the file. The
 * planes of a block of three dimensions are such repetitions. */
struct hwio_runs {
	uint32_t count;
	uint32_t head, pattern, repetitions;
	uint64_t apart;
	struct hwio_run run[HWIO_RUNS_MAX];
};

static inline void hwio_runs_clear(struct hwio_runs *runs)
{
	runs->count = runs->head = runs->pattern = runs->repetitions = 0;
	runs->apart = 0;
}

/* Returns how many runs there are, all repetitions counted. */
static inline uint64_t hwio_runs_count(const struct hwio_runs *runs)
{
	return runs->count + (uint64_t)runs->pattern * runs->repetitions - runs->pattern;
}

/* Returns one of them. */
static inline struct hwio_run hwio_runs_at(const struct hwio_runs *runs, uint64_t index)
{
	uint64_t repeated = (uint64_t)runs->pattern * runs->repetitions;
	if (index < runs->head)
		return runs->run[index];
	if (index - runs->head >= repeated)
		return runs->run[index - repeated + runs->pattern];
	struct hwio_run run = runs->run[runs->head + (index - runs->head) % runs->pattern];
	run.offset += (index - runs->head) / runs->pattern * runs->apart;
	return run;
}

/* Appends a piece. False: there are too many runs. */
bool hwio_runs_append(struct hwio_runs *runs, uint64_t offset, uint64_t bytes);
/* Returns true if runs that another rank has sent can be iterated over. */
bool hwio_runs_are_bounded(const struct hwio_runs *runs);
/* Returns true if runs that another rank has sent have `bytes` bytes, all within a file's bounds. */
bool hwio_runs_are_sound(const struct hwio_runs *runs, uint64_t bytes);
uint64_t hwio_runs_bytes(const struct hwio_runs *runs);
uint64_t hwio_runs_pieces(const struct hwio_runs *runs);
/* Returns in how many reads a rank gets them: small gaps of a shared file system's files are read as well. */
uint64_t hwio_runs_reads(const struct hwio_runs *runs, bool is_shared);
/* Returns how many bytes of a network file system a node reads for the runs: whole pages, and small gaps. */
uint64_t hwio_runs_read_bytes(const struct hwio_runs *runs);
/* Finds the buffer's bytes in one file, by the records of its memory. Bytes that the program could have changed are
 * compared with the file, up to a few megabytes. False: some bytes are no copy. */
bool hwio_runs_of(const struct hwio_layout *layout, struct hwio_runs *runs, struct hwio_file **file,
	struct hwio_context **context, bool is_observing);
/* Reads the runs into the buffer, or writes them from it. False: an error, or an end of the file. */
bool hwio_runs_transfer(int descriptor, const struct hwio_runs *runs, const struct hwio_layout *layout, bool is_write);
/* Writes the runs from the buffer's stream behind its first `skip` bytes. */
bool hwio_runs_write(int descriptor, const struct hwio_runs *runs, const struct hwio_layout *layout, uint64_t skip);

#endif
