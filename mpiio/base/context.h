/* Call sites, each an operation with the return addresses above it, and whether deferring there has paid off. Source:
 * Natvig, Elster and Meyer, §II.B and §III.A. */
#ifndef HWIO_CONTEXT_H
#define HWIO_CONTEXT_H

#include "base/engine.h"

#define HWIO_CONTEXT_FRAMES 4
#define HWIO_CONTEXT_NAME_BYTES (HWIO_CONTEXT_FRAMES * 64)
/* After this many fruitless operations in a row a context is switched off. */
#define HWIO_FRUITLESS_MAX 3

enum hwio_operation_kind { HWIO_OP_READ, HWIO_OP_WRITE, HWIO_OP_SCATTER, HWIO_OP_SEND, HWIO_OP_GATHER };
enum hwio_pattern {
	HWIO_READ_SCATTER,
	HWIO_READ_SEND,
	HWIO_READ_BROADCAST,
	HWIO_GATHER_WRITE,
	HWIO_RECEIVE_WRITE,
	HWIO_PATTERNS
};

struct hwio_context {
	enum hwio_operation_kind kind;
	void *frames[HWIO_CONTEXT_FRAMES];
	/* The frames as "module+offset", which is the same in other runs. */
	char name[HWIO_CONTEXT_NAME_BYTES];
	uint32_t operations, transformed;
	uint32_t charged, fruitless;
	uint32_t verified;
	uint64_t bytes;
	double seconds_saved;
	/* Of the transformed operations whose time is known, and what the model computes for the same as messages. */
	double seconds_by_file, seconds_by_messages;
	enum hwio_pattern pattern;
	bool has_pattern, is_off;
	/* A write there had to wait for another one to the same part of the file. */
	bool does_overlap;
	/* It is never tried again; it is being tried again. */
	bool is_forbidden, is_on_trial;
	/* True if frames of a language's run time, between program and call, were skipped. */
	bool is_of_runtime;
	const char *why;
};

/* Any address in the front, whose frames are skipped. */
extern const void *hwio_front_address;

/* Does one-time work: the first walk of the stack loads a library. */
void hwio_context_prepare(void);
/* Returns the calling site's context; NULL if there are too many. */
struct hwio_context *hwio_context_here(enum hwio_operation_kind kind);
/* The same where `caller` is the return address of the program's call, or NULL. The same caller at the same stack
 * height counts as the same call path, so the stack is walked only every 17th time. */
struct hwio_context *hwio_context_of(enum hwio_operation_kind kind, const void *caller);
/* Returns true if the context's operations are not transformed. */
static inline bool hwio_context_is_off(const struct hwio_context *context)
{
	return !context || context->is_off;
}
/* Counts one more deferred operation of the context. */
void hwio_context_begin(struct hwio_context *context);
uint32_t hwio_context_operation(const struct hwio_context *context);
/* Records that the operation's deferred data was accessed before it was used in a pattern. */
void hwio_context_touched(struct hwio_context *context, uint32_t operation);
/* Records that the operation became part of a transformed one. */
void hwio_context_used(struct hwio_context *context);
/* Records one transformed operation, for the report. */
void hwio_context_transformed(struct hwio_context *context, enum hwio_pattern pattern, uint64_t bytes,
	double seconds_saved);
/* Records that data of a transformed operation was sent as a message all the same, and the time of that. */
void hwio_context_sent(struct hwio_context *context, double seconds);
/* Records a pattern that was found but not transformed. */
void hwio_context_observed(struct hwio_context *context, enum hwio_pattern pattern, uint64_t bytes, const char *why);
void hwio_context_switch_off(struct hwio_context *context, const char *why);
/* The same for good: what was transformed there was wrong. */
void hwio_context_forbid(struct hwio_context *context, const char *why);
/* Records how long an operation took, and what the model computes for messages. */
void hwio_context_timed(struct hwio_context *context, double by_file_s, double by_messages_s);
size_t hwio_context_count(void);
struct hwio_context *hwio_context_at(size_t index);
const char *hwio_pattern_name(enum hwio_pattern pattern);
/* Adds what is known of all call sites to a profile (profile.h). */
void hwio_context_save(const char *path);

#endif
