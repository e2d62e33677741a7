/*
 * Patterns that were found and left as they are: how often, how much, and why. What was read or gathered is
 * remembered for a while; it is counted when it is scattered, sent or written. Nothing here waits or locks: a
 * program's threads may do all of it at once.
 */
#ifndef HWIO_LEFT_H
#define HWIO_LEFT_H

#include "context.h"
#include "engine.h"

enum hwio_left {
	/* It was not left, or its place has a line of its own in the report. */
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

/* A lower and an upper bound of what is remembered. */
extern struct hwio_left_bounds {
	volatile uintptr_t low, high;
} hwio_left_reads, hwio_left_gathers;

static inline bool hwio_left_is_near(const struct hwio_left_bounds *bounds, const void *memory)
{
	return (uintptr_t)memory >= bounds->low && (uintptr_t)memory < bounds->high;
}

/* The program has read this from a descriptor; nothing is remembered of what is no file. */
void hwio_left_read(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why);
/* It has scattered or sent this; counted if it was read. */
void hwio_left_passed_on(enum hwio_pattern pattern, const void *memory, size_t bytes);
/* The same for what is known to be from a file. */
void hwio_left_count(enum hwio_pattern pattern, size_t bytes, enum hwio_left why);
void hwio_left_gathered(const void *memory, size_t bytes, enum hwio_left why);
/* It has written this; counted if it was gathered. */
void hwio_left_written(const void *memory, size_t bytes);

/* How much was left of a pattern for this reason; false: nothing. */
bool hwio_left_sum(enum hwio_pattern pattern, enum hwio_left why, uint64_t *operations, uint64_t *bytes);
/* The reason in words. */
const char *hwio_left_why(enum hwio_left why);

#endif
