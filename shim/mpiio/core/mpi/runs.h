/* Parts of a file that belong to a buffer, in the buffer's order, as few and regular as they are. */
#ifndef HW_RUNS_H
#define HW_RUNS_H

#include "../engine.h"
#include "../files/file.h"
#include "layout.h"

/* What needs more is not transformed: `count` pieces of `bytes` bytes, `stride` apart. */
#define HW_RUNS_MAX 24

struct hw_context;

struct hw_run {
	uint64_t offset, bytes, stride, count;
};

struct hw_runs {
	uint32_t count;
	uint32_t reserved;
	struct hw_run run[HW_RUNS_MAX];
};

/* Appends a piece. False: there are too many. */
bool hw_runs_append(struct hw_runs *runs, uint64_t offset, uint64_t bytes);
/* Whether runs that another rank has sent are of so many bytes, all of them within a file's bounds. */
bool hw_runs_are_sound(const struct hw_runs *runs, uint64_t bytes);
uint64_t hw_runs_bytes(const struct hw_runs *runs);
uint64_t hw_runs_pieces(const struct hw_runs *runs);
/*
 * Where in one file the buffer's bytes stand, by what is recorded of its memory. Bytes that the program could have
 * changed are compared with the file, a few megabytes at most. False: some of it is no copy.
 */
bool hw_runs_of(const struct hw_layout *layout, struct hw_runs *runs, struct hw_file **file, struct hw_context **context,
		bool is_observing);
/* Reads the runs into the buffer, or writes them from it. False: an error, or an end of the file. */
bool hw_runs_transfer(int descriptor, const struct hw_runs *runs, const struct hw_layout *layout, bool is_write);

#endif
