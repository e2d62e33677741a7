/* Messages between the ranks of a transfer, beside the program's. */
#ifndef HWIO_MESSAGES_H
#define HWIO_MESSAGES_H

#include "mpi/control.h"
#include "mpi/runs.h"

enum hwio_verdict_kind { HWIO_VERDICT_SEND = 1, HWIO_VERDICT_WRITE, HWIO_VERDICT_DROP, HWIO_VERDICT_EXCHANGE };

struct hwio_verdict {
	uint64_t id;
	uint16_t kind;
	/* The data follows even if it was written. */
	uint16_t is_sent_too;
	uint32_t path_bytes;
	struct hwio_identity identity;
	/* The receiver writes this many of the data's first bytes itself, and what follows the runs. */
	uint64_t skip;
	struct hwio_runs runs;
	char path[HWIO_PATH_BYTES_MAX];
};

enum hwio_reply_kind { HWIO_REPLY_DONE = 1, HWIO_REPLY_FAILED, HWIO_REPLY_LATE, HWIO_REPLY_READY };

/* The sender's reply to a verdict. After a verdict to send, a failure, or a timeout, its data follows. */
struct hwio_reply {
	uint64_t id;
	int32_t kind;
	int32_t error;
};

/* The acknowledgement of a hint's receiver. */
struct hwio_ack {
	uint64_t id;
	/* It has begun to read; another acknowledgement follows. */
	int32_t is_begun;
	int32_t reserved;
	int32_t is_read;
	/* For a verified hint: whether the bytes were the same. */
	int32_t is_same;
};

#endif
