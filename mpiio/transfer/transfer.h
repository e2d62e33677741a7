/* Data that one rank has and another needs. At its sender it is an offer or a hint; at its receiver it is a message that
 * the program considers received. Each is a transfer with one state, which only events change. */
#ifndef HWIO_TRANSFER_H
#define HWIO_TRANSFER_H

#include "mpi/control.h"
#include "mpi/runs.h"
#include "transfer/messages.h"

struct hwio_context;

enum hwio_transfer_state {
	/* At the sender: the receiver hasn't begun, and may still ask for the data. */
	HWIO_TRANSFER_OFFERED,
	/* At the receiver: the sender has the data, and waits for a verdict. */
	HWIO_TRANSFER_PENDING,
	/* The receiver has sent a verdict, or has begun to read the file of a hint; an answer follows. */
	HWIO_TRANSFER_NOTIFIED,
	/* The sender has sent a copy unasked; the verdict or the acknowledgement is still to arrive. */
	HWIO_TRANSFER_LATE,
	/* Neither side needs the other any more. */
	HWIO_TRANSFER_DONE
};

enum hwio_transfer_event {
	/* A verdict is sent or has arrived, or the receiver of a hint has begun. */
	HWIO_TRANSFER_NOTIFIES,
	/* The sender's timeout, or its file is about to change. */
	HWIO_TRANSFER_EXPIRES,
	/* The last answer has arrived, or the data is where it belongs. */
	HWIO_TRANSFER_ENDS
};

struct hwio_transfer {
	uint64_t id;
	/* The other rank. */
	int world_rank;
	enum hwio_transfer_state state;
	struct hwio_context *context;
	/* The data in memory: the receiver's buffer, or that of an offer. */
	struct hwio_layout layout;
	/* Its place in a file: of a hint, and of a write that the sender carries out. The runs begin behind so many bytes
	 * of the data. */
	struct hwio_runs runs;
	uint64_t skip;
	/* The sender's copy, once it is late. */
	struct hwio_copy copy;
	struct hwio_transfer *next;
	union {
		/* At the receiver. */
		struct {
			/* Protected pages, and how many bytes of memory lie before and behind them. */
			uintptr_t low, high;
			size_t head, tail;
			/* The data's first page and its last one, which were delivered at once; or NULL. */
			char *edges;
			/* The sender writes to this file, for data that it can't write; it may send the data, too. */
			bool is_write, is_sent_too;
			struct hwio_context *writing;
			int descriptor;
			uint64_t device, inode;
		};
		/* An offer. */
		struct {
			/* The message, or NULL. */
			struct hwio_offer *offer;
			MPI_Request verdict_request;
			struct hwio_verdict verdict;
			double end;
			/* The program's request, of a long message that is not known to be received. */
			MPI_Request request;
			bool is_unreceived;
		};
		/* A hint. */
		struct {
			struct hwio_file *file;
			/* The data before the file's lease was released. */
			void *contents;
		};
	};
};

/* Returns a transfer with `more` bytes behind it, or NULL. */
struct hwio_transfer *hwio_transfer_make(enum hwio_transfer_state state, uint64_t id, int world_rank,
	struct hwio_context *context, size_t more);
/* Changes the state. An event that is impossible in it is a mistake in the code. */
void hwio_transfer_note(struct hwio_transfer *one, enum hwio_transfer_event event);
/* Add a transfer to a list, or remove it, under the lock. */
void hwio_transfer_link(struct hwio_transfer **list, struct hwio_transfer *one);
void hwio_transfer_unlink(struct hwio_transfer **list, struct hwio_transfer *one);

#endif
