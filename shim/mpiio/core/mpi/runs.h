/* Parts of a file that belong to a buffer, in the buffer's order, as few and regular as they are. */
#ifndef HWIO_RUNS_H
#define HWIO_RUNS_H

#include "../engine.h"
#include "../files/file.h"
#include "layout.h"

/* What needs more is not transformed: `count` pieces of `bytes` bytes, `stride` apart. */
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

/* Appends a piece. False: there are too many. */
bool hwio_runs_append(struct hwio_runs *runs, uint64_t offset, uint64_t bytes);
/* Whether runs that another rank has sent are of so many bytes, all of them within a file's bounds. */
bool hwio_runs_are_sound(const struct hwio_runs *runs, uint64_t bytes);
uint64_t hwio_runs_bytes(const struct hwio_runs *runs);
uint64_t hwio_runs_pieces(const struct hwio_runs *runs);
/*
 * Where in one file the buffer's bytes stand, by what is recorded of its memory. Bytes that the program could have
 * changed are compared with the file, a few megabytes at most. False: some of it is no copy.
 */
bool hwio_runs_of(const struct hwio_layout *layout, struct hwio_runs *runs, struct hwio_file **file,
	struct hwio_context **context, bool is_observing);
/* Reads the runs into the buffer, or writes them from it. False: an error, or an end of the file. */
bool hwio_runs_transfer(int descriptor, const struct hwio_runs *runs, const struct hwio_layout *layout, bool is_write);

#endif
