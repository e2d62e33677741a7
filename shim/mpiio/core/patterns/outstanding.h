/*
 * What other ranks still owe an answer for: hints whose data they have not read yet, and writes that they carry out. A
 * hint's receiver that can't read the file gets the data from here; the file must not change before it has answered.
 */
#ifndef HWIO_OUTSTANDING_H
#define HWIO_OUTSTANDING_H

#include "../mpi/control.h"
#include "../mpi/runs.h"

#define HWIO_OUTSTANDING_MAX 4096

struct hwio_context;

/* What a receiver of a hint says. */
struct hwio_ack {
	uint64_t id;
	/* It has begun to read; another answer follows. */
	int32_t is_begun;
	int32_t reserved;
	int32_t is_read;
	/* Of a verified hint: whether the bytes were the same. */
	int32_t is_same;
};

bool hwio_outstanding_any(void);
bool hwio_outstanding_has_room(void);
/* False: the file is about to change, or has. */
bool hwio_outstanding_hint(uint64_t id, int world_rank, struct hwio_file *file, const struct hwio_runs *runs,
	struct hwio_context *context);
/* A hint of this rank to itself has arrived: the layout gets its data, without a message. */
void hwio_outstanding_fill(uint64_t id, const struct hwio_layout *layout);
/*
 * Before this rank waits where it can't answer: receivers that have begun to read are waited for, and to others the data
 * is sent besides.
 */
void hwio_outstanding_settle(void);
/* Answers what has come. */
void hwio_outstanding_poll(void);
/*
 * Nobody depends on this file any more, or on any (NULL): what was not read yet is sent. `is_changing`: the file's times
 * are different afterwards, whatever their resolution.
 */
void hwio_outstanding_keep(const struct hwio_file *file, bool is_changing);
/* The file is about to change by somebody else: what others may still ask for is read now. By system calls alone. */
void hwio_outstanding_hold(const struct hwio_file *file);
/* At the end of MPI, by all ranks. */
void hwio_outstanding_finish(void);

#endif
