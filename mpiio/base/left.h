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
	/* The place of the read was switched off before: what was read there was accessed at once. */
	HWIO_LEFT_OFF,
	/* The program has packed the data, and sends that. */
	HWIO_LEFT_PACKED,
	HWIO_LEFT_PERSISTENT,
	/* By MPI_Ibcast. */
	HWIO_LEFT_AT_ONCE,
	/* The data was accessed after the read, and other memory was sent or scattered. */
	HWIO_LEFT_CHANGED,
	HWIO_LEFTS
};

/* Smaller operations are no pattern: programs read their options, too. To note them would take longer than they do. */
#define HWIO_LEFT_BYTES_MIN 8192

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
/* The same of a part of a file that it has mapped. */
void hwio_left_mapped(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why);
/* A read of so many bytes was deferred, and then accessed. */
void hwio_left_accessed(size_t bytes);
/* MPI has packed what was read into this memory. */
void hwio_left_packed(const void *memory, size_t bytes);
/* Returns true if a read that was left, or what was packed, contains this address. */
bool hwio_left_is_read(const void *memory);
/* Returns true if more was read than sent. */
bool hwio_left_any_unsent(void);
/* The program has scattered or sent this, which MPI may read now. It is counted if it was read and is unchanged, or if
 * no more was sent than what was read and has not been sent. */
void hwio_left_forwarded(enum hwio_pattern pattern, const void *memory, size_t bytes);
/* The same where another reason than HWIO_LEFT_OFF is known. */
void hwio_left_forwarded_so(enum hwio_pattern pattern, const void *memory, size_t bytes, enum hwio_left instead);
/* The same for memory that is known to come from a file. */
void hwio_left_count(enum hwio_pattern pattern, size_t bytes, enum hwio_left why);
void hwio_left_gathered(const void *memory, size_t bytes, enum hwio_left why);
/* The program has written this; it is counted if it was gathered. */
void hwio_left_written(const void *memory, size_t bytes);

/* Sets the model: it returns how many seconds an operation would have gained, or less than 0. */
void hwio_left_set_gain(double (*gain)(enum hwio_pattern pattern, size_t bytes));
/* What was left of a pattern for one reason, and what the model says it would have gained. */
struct hwio_left_sum {
	uint64_t operations, bytes;
	double seconds;
};
/* Returns false if that is nothing. */
bool hwio_left_sum(enum hwio_pattern pattern, enum hwio_left why, struct hwio_left_sum *sum);
/* Returns the bytes of all reads that were left or accessed. */
uint64_t hwio_left_read_bytes(void);
/* Returns the reason as text. */
const char *hwio_left_why(enum hwio_left why);

#endif
