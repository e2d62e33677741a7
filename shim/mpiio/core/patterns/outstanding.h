/* Messages that other ranks have not acknowledged: hints whose data they have not read, and writes that they carry
 * out. The receiver of a hint that can't read the file gets the data from here. The file must not change before it
 * has acknowledged. */
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
bool hwio_outstanding_can_add(void);
/* False: the file is about to change, or has. */
bool hwio_outstanding_hint(uint64_t id, int world_rank, struct hwio_file *file, const struct hwio_runs *runs,
	struct hwio_context *context);
/* A hint of this rank to itself has arrived: the layout gets its data, without a message. */
void hwio_outstanding_fill(uint64_t id, const struct hwio_layout *layout);
/*
 * Before this rank waits where it can't answer: receivers that have begun to read are waited for, and to others the
 * data is sent besides.
 */
void hwio_outstanding_settle(void);
/* Answers what has come. */
void hwio_outstanding_poll(void);
/* Ensures that no rank depends on this file, or on any (NULL): unread data is sent. `is_changing`: the file's times
 * differ afterwards, whatever their resolution. */
void hwio_outstanding_detach(const struct hwio_file *file, bool is_changing);
/* Another process is about to change the file: reads now what other ranks may still request. By system calls alone. */
void hwio_outstanding_preserve(const struct hwio_file *file);
/* At the end of MPI, by all ranks. */
void hwio_outstanding_finish(void);

#endif
