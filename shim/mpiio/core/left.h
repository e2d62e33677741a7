/*
 * Patterns that were found and left as they are: how often, how much, and why. What was read or gathered is remembered for
 * a while; it is counted when it is scattered, sent or written. Nothing here waits or locks: a program's threads may do
 * all of it at once.
 */
#ifndef HW_LEFT_H
#define HW_LEFT_H

#include "context.h"
#include "engine.h"

enum hw_left {
	/* It was not left, or its place has a line of its own in the report. */
	HW_NOT_LEFT,
	HW_LEFT_SMALL,
	HW_LEFT_SMALL_FILE,
	HW_LEFT_NO_GAIN,
	HW_LEFT_ONE_NODE,
	HW_LEFT_NOT_SHARED,
	HW_LEFT_CHANGING,
	HW_LEFT_OPENED,
	HW_LEFT_MEMORY,
	HW_LEFT_LAYOUT,
	HW_LEFT_THREADS,
	HW_LEFT_BUSY,
	HW_LEFTS
};

/* A lower and an upper bound of what is remembered. */
extern struct hw_left_bounds {
	volatile uintptr_t low, high;
} hw_left_reads, hw_left_gathers;

static inline bool hw_left_is_near(const struct hw_left_bounds *bounds, const void *memory)
{
	return (uintptr_t)memory >= bounds->low && (uintptr_t)memory < bounds->high;
}

/* The program has read this from a descriptor; nothing is remembered of what is no file. */
void hw_left_read(int descriptor, const void *memory, ssize_t bytes, enum hw_left why);
/* It has scattered or sent this; counted if it was read. */
void hw_left_passed_on(enum hw_pattern pattern, const void *memory, size_t bytes);
/* The same for what is known to be from a file. */
void hw_left_count(enum hw_pattern pattern, size_t bytes, enum hw_left why);
void hw_left_gathered(const void *memory, size_t bytes, enum hw_left why);
/* It has written this; counted if it was gathered. */
void hw_left_written(const void *memory, size_t bytes);

/* How much was left of a pattern for this reason; false: nothing. */
bool hw_left_sum(enum hw_pattern pattern, enum hw_left why, uint64_t *operations, uint64_t *bytes);
/* The reason in words. */
const char *hw_left_why(enum hw_left why);

#endif
