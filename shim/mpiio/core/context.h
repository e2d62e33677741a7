/*
 * Places in the program, each an operation with the return addresses above it, and what is known of them: whether
 * deferring there was ever of use. Source: Natvig, Elster and Meyer, §II.B and §III.A.
 */
#ifndef HW_CONTEXT_H
#define HW_CONTEXT_H

#include <stdio.h>

#include "engine.h"

#define HW_CONTEXT_FRAMES 4
/* After so many tries without any use a context is left alone. */
#define HW_FRUITLESS_MAX 3

enum hw_operation_kind {
	HW_OP_READ,
	HW_OP_WRITE,
	HW_OP_SCATTER,
	HW_OP_SEND,
	HW_OP_GATHER,
	/* Files are opened there, whose collective operations are looked at. */
	HW_OP_READ_ALL,
	HW_OP_WRITE_ALL
};
enum hw_pattern { HW_READ_SCATTER, HW_READ_SEND, HW_GATHER_WRITE, HW_RECEIVE_WRITE, HW_COLLECTIVE, HW_PATTERNS };

/*
 * How far a place has come in finding out which way is quicker: by all ranks, or by one. Numbers of one kind alone, so
 * that ranks can agree on them in one message.
 */
struct hw_course {
	int64_t step, trials, fruitless;
	/* The least that one operation took, nanoseconds. */
	int64_t all_ns, one_ns;
};

struct hw_context {
	enum hw_operation_kind kind;
	void *frames[HW_CONTEXT_FRAMES];
	/* The same as "module+offset", which other runs understand; made when the context is. */
	char name[HW_CONTEXT_FRAMES * 64];
	uint32_t operations, transformed;
	uint32_t charged, fruitless;
	uint32_t verified;
	uint64_t bytes;
	double seconds_saved;
	/* Of files that were opened there. */
	struct hw_course course;
	enum hw_pattern pattern;
	bool has_pattern, is_off, is_from_profile;
	/* Between the program and the call there is a language's run time, whose frames are nobody's. */
	bool is_of_runtime;
	const char *why;
};

/* Any address in the front, whose frames are nobody's. */
extern const void *hw_front_address;

/* Does what takes time once. */
void hw_context_prepare(void);
/* The calling place's context, NULL if there are too many. */
struct hw_context *hw_context_here(enum hw_operation_kind kind);
/*
 * The same where `caller` is what the program's call returns to, or NULL. Mostly who calls from there again, at the same
 * height of the stack, comes the same way: what is off is found without a look at the stack, but for every 17th time.
 */
struct hw_context *hw_context_of(enum hw_operation_kind kind, const void *caller);
/* Whether operations of it are to be left alone. */
static inline bool hw_context_is_off(const struct hw_context *context)
{
	return !context || context->is_off;
}
/* Counts one more operation of it that is deferred. */
void hw_context_begins(struct hw_context *context);
uint32_t hw_context_operation(const struct hw_context *context);
/* What the operation had put off was needed after all. */
void hw_context_touched(struct hw_context *context, uint32_t operation);
/* The operation became part of a transformed one. */
void hw_context_used(struct hw_context *context);
/* One transformed operation, for the report. */
void hw_context_transformed(struct hw_context *context, enum hw_pattern pattern, uint64_t bytes, double seconds_saved);
/* A pattern that was seen and left as it is. */
void hw_context_seen(struct hw_context *context, enum hw_pattern pattern, uint64_t bytes, const char *why);
void hw_context_switch_off(struct hw_context *context, const char *why);
size_t hw_context_count(void);
struct hw_context *hw_context_at(size_t index);
const char *hw_pattern_name(enum hw_pattern pattern);
/* Reads what an earlier run has saved; what can't be one of its lines is passed over. */
void hw_context_parse(FILE *file);
void hw_context_load(const char *path);
void hw_context_save(const char *path);

#endif
