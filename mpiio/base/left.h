/* Patterns that were found but not transformed: how often, how many bytes, and why. A read or gathered range is
 * remembered for a while, and counted when it is scattered, sent or written. Nothing here waits or locks: several
 * threads may call it at once. */
#ifndef HWIO_LEFT_H
#define HWIO_LEFT_H

#include "base/context.h"
#include "base/engine.h"

enum hwio_left {
	/* The pattern was transformed, or its call site has a line of its own in the report. */
	HWIO_NOT_LEFT,
	HWIO_LEFT_SMALL,
	HWIO_LEFT_SMALL_FILE,
	HWIO_LEFT_NO_GAIN,
	HWIO_LEFT_ONE_NODE,
	HWIO_LEFT_NOT_SHARED,
	HWIO_LEFT_CHANGING,
	HWIO_LEFT_OPENED,
	HWIO_LEFT_MEMORY,
	HWIO_LEFT_LAYOUT,
	HWIO_LEFT_THREADS,
	HWIO_LEFT_BUSY,
	HWIO_LEFTS
};

/* Smaller reads are no pattern: programs read their options, too. */
#define HWIO_LEFT_BYTES_MIN 4096

/* Bounds of the remembered ranges. */
extern struct hwio_left_bounds {
	volatile uintptr_t low, high;
} hwio_left_reads, hwio_left_gathers;

static inline bool hwio_left_is_near(const struct hwio_left_bounds *bounds, const void *memory)
{
	return (uintptr_t)memory >= bounds->low && (uintptr_t)memory < bounds->high;
}

/* The program has read this from a descriptor. Only regular files are recorded. */
void hwio_left_read(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why);
/* The program has scattered or sent this; it is counted if it was read. */
void hwio_left_forwarded(enum hwio_pattern pattern, const void *memory, size_t bytes);
/* The same for memory that is known to come from a file. */
void hwio_left_count(enum hwio_pattern pattern, size_t bytes, enum hwio_left why);
void hwio_left_gathered(const void *memory, size_t bytes, enum hwio_left why);
/* The program has written this; it is counted if it was gathered. */
void hwio_left_written(const void *memory, size_t bytes);

/* Returns how much of a pattern was left for this reason; false: nothing. */
bool hwio_left_sum(enum hwio_pattern pattern, enum hwio_left why, uint64_t *operations, uint64_t *bytes);
/* Returns the reason as text. */
const char *hwio_left_why(enum hwio_left why);

#endif
