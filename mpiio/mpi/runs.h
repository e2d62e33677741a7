/* The parts of a file that a buffer's data comes from, in the buffer's order, as few regular runs. */
#ifndef HWIO_RUNS_H
#define HWIO_RUNS_H

#include "base/engine.h"
#include "memory/file.h"
#include "mpi/layout.h"

/* Maximum of runs. A run has `count` pieces of `bytes` bytes, `stride` apart. */
#define HWIO_RUNS_MAX 24

struct hwio_context;

struct hwio_run {
	uint64_t offset, bytes, stride, count;
};

struct hwio_runs {
	uint32_t count;
	uint32_t reserved;
	struct hwio_run run[HWIO_RUNS_MAX];
};

/* Appends a piece. False: there are too many runs. */
bool hwio_runs_append(struct hwio_runs *runs, uint64_t offset, uint64_t bytes);
/* Returns true if runs that another rank has sent have `bytes` bytes, all within a file's bounds. */
bool hwio_runs_are_sound(const struct hwio_runs *runs, uint64_t bytes);
uint64_t hwio_runs_bytes(const struct hwio_runs *runs);
uint64_t hwio_runs_pieces(const struct hwio_runs *runs);
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
