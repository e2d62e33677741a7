/*
 * Places in the program, each an operation with the return addresses above it, and what is known of them: whether
 * deferring there was ever of use. Source: Natvig, Elster and Meyer, §II.B and §III.A.
 */
#ifndef HWIO_CONTEXT_H
#define HWIO_CONTEXT_H

#include <stdio.h>

#include "engine.h"

#define HWIO_CONTEXT_FRAMES 4
/* After so many tries without any use a context is left alone. */
#define HWIO_FRUITLESS_MAX 3

enum hwio_operation_kind { HWIO_OP_READ, HWIO_OP_WRITE, HWIO_OP_SCATTER, HWIO_OP_SEND, HWIO_OP_GATHER };
enum hwio_pattern { HWIO_READ_SCATTER, HWIO_READ_SEND, HWIO_GATHER_WRITE, HWIO_RECEIVE_WRITE, HWIO_PATTERNS };

struct hwio_context {
	enum hwio_operation_kind kind;
	void *frames[HWIO_CONTEXT_FRAMES];
	/* The same as "module+offset", which other runs understand; made when the context is. */
	char name[HWIO_CONTEXT_FRAMES * 64];
	uint32_t operations, transformed;
	uint32_t charged, fruitless;
	uint32_t verified;
	uint64_t bytes;
	double seconds_saved;
	enum hwio_pattern pattern;
	bool has_pattern, is_off, is_from_profile;
	/* Frames of a language's run time, between the program and the call, are skipped. */
	bool is_of_runtime;
	const char *why;
};

/* Any address in the front, whose frames are skipped. */
extern const void *hwio_front_address;

/* Does what takes time once. */
void hwio_context_prepare(void);
/* The calling place's context, NULL if there are too many. */
struct hwio_context *hwio_context_here(enum hwio_operation_kind kind);
/* The same where `caller` is the return address of the program's call, or NULL. The same caller at the same stack
 * height counts as the same call path, so the stack is walked only every 17th time. */
struct hwio_context *hwio_context_of(enum hwio_operation_kind kind, const void *caller);
/* Whether operations of it are to be left alone. */
static inline bool hwio_context_is_off(const struct hwio_context *context)
{
	return !context || context->is_off;
}
/* Counts one more operation of it that is deferred. */
void hwio_context_begins(struct hwio_context *context);
uint32_t hwio_context_operation(const struct hwio_context *context);
/* The deferred data of the operation was needed after all. */
void hwio_context_touched(struct hwio_context *context, uint32_t operation);
/* The operation became part of a transformed one. */
void hwio_context_used(struct hwio_context *context);
/* One transformed operation, for the report. */
void hwio_context_transformed(struct hwio_context *context, enum hwio_pattern pattern, uint64_t bytes,
	double seconds_saved);
/* A pattern that was seen and left as it is. */
void hwio_context_seen(struct hwio_context *context, enum hwio_pattern pattern, uint64_t bytes, const char *why);
void hwio_context_switch_off(struct hwio_context *context, const char *why);
size_t hwio_context_count(void);
struct hwio_context *hwio_context_at(size_t index);
const char *hwio_pattern_name(enum hwio_pattern pattern);
/* Reads what an earlier run has saved; what can't be one of its lines is passed over. */
void hwio_context_parse(FILE *file);
void hwio_context_load(const char *path);
void hwio_context_save(const char *path);

#endif
