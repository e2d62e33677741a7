/*
 * What other ranks still owe an answer for: hints whose data they have not read yet, and writes that they carry out. A
 * hint's receiver that can't read the file gets the data from here; the file must not change before it has answered.
 */
#ifndef HW_OUTSTANDING_H
#define HW_OUTSTANDING_H

#include "../mpi/control.h"
#include "../mpi/runs.h"

#define HW_OUTSTANDING_MAX 4096

struct hw_context;

/* What a receiver of a hint says. */
struct hw_ack {
	uint64_t id;
	int32_t is_read;
	/* Of a verified hint: whether the bytes were the same. */
	int32_t is_same;
};

bool hw_outstanding_any(void);
bool hw_outstanding_has_room(void);
void hw_outstanding_hint(uint64_t id, int world_rank, struct hw_file *file, const struct hw_runs *runs,
			 struct hw_context *context);
/* Answers what has come. */
void hw_outstanding_poll(void);
/* Waits until every rank has read what it was told to read of this file, or of all files (NULL). */
void hw_outstanding_wait(const struct hw_file *file);

#endif
