/* What the ranks agreed on at MPI_Init, and their messages beside the program's. */
#ifndef HWIO_CONTROL_H
#define HWIO_CONTROL_H

#include <mpi.h>

#include "base/engine.h"
#include "mpi/layout.h"

#define HWIO_COOKIE_BYTES 16

/* A duplicate of MPI_COMM_WORLD that the program never sees. */
extern MPI_Comm hwio_control;
extern int hwio_rank, hwio_ranks;
/* Whether MPI sends each part of an MPI_Iscatterv or MPI_Igatherv as a message of its own, which may be shorter than its
 * receiver names. The same on all ranks. */
extern bool hwio_parts_are_messages;
/* Begins each message that replaces the program's: the job's secret cookie. */
extern unsigned char hwio_cookie[HWIO_COOKIE_BYTES];

/* Tags of hwio_control; some include the lowest bits of an operation's number. */
enum hwio_tag {
	HWIO_TAG_ACK = 1,
	HWIO_TAG_EDGES = 2,
	HWIO_TAG_SELF = 3,
	HWIO_TAG_EXCHANGE = 4,
	HWIO_TAG_PIECE = 1 << 12,
	HWIO_TAG_DATA = 1 << 13,
	HWIO_TAG_VERDICT = 2 << 13,
	HWIO_TAG_REPLY = 3 << 13
};
/* A gather's number is its root's, distinguished from the sender's own numbers. */
#define HWIO_ID_OF_GATHER (1ULL << 63)
#define HWIO_TAG_OF(tag, id) ((int)((tag) + (int)((id)&0xfff) + ((id)&HWIO_ID_OF_GATHER ? 0x1000 : 0)))

enum hwio_turn_kind { HWIO_TURN_SCATTER, HWIO_TURN_GATHER, HWIO_TURN_BROADCAST, HWIO_TURN_KINDS };

/* Returns true if MPI would send elements of this type with this tag: what replaces the program's message has a type of
 * its own. */
bool hwio_is_sendable(MPI_Datatype type, int tag);

/* What is known of a communicator. */
struct hwio_comm {
	/* True if all of its ranks are of this job's world and have this library. */
	bool is_usable;
	int rank, size;
	int *world_ranks;
	/* Per root and kind: the number of fruitless operations, and how many pass without an announcement. */
	struct hwio_turn *turns;
	/* By enum hwio_turn_kind. */
	struct hwio_even {
		uint64_t operations;
		bool is_uneven;
	} even[HWIO_TURN_KINDS];
	/* Once it is needed; or NULL. */
	struct hwio_ring *ring;
};

struct hwio_turn {
	int root;
	int kind;
	uint32_t fruitless, skip;
	struct hwio_turn *next;
};

/* Returns NULL if the communicator can't be used. */
struct hwio_comm *hwio_comm_of(MPI_Comm comm);
struct hwio_turn *hwio_comm_turn(struct hwio_comm *comm, int root, int kind);
void hwio_comm_start(void);
/* Returns true if the ranks compare the sizes that they name in this operation: the 1st, 2nd, 4th and so on. */
static inline bool hwio_even_is_checked(uint64_t operation)
{
	return (operation & (operation - 1)) == 0;
}
/* Caches the last communicator while there is one thread: MPI's look-up takes a twentieth of a small scatter. */
extern struct hwio_last_comm {
	MPI_Comm comm;
	struct hwio_comm *known;
} hwio_last_comm;
/* Waits without occupying a processor that the other ranks need. */
void hwio_pause(void);
/* The same until a request completes; returns MPI's code. */
int hwio_wait_sparingly(MPI_Request *request);
/* Collective operations while the job starts. Ranks that arrive early sleep, so that the others get the processors; not
 * every MPI's own calls do so. */
void hwio_together_reduce(const void *own, void *all, int count, MPI_Datatype type, MPI_Op operation);
/* Broadcasts from rank 0. */
void hwio_together_broadcast(void *memory, int bytes);
void hwio_together_wait(void);
/* A stream is sent in so many pieces at most, of these sizes; one that is longer in more pieces of the largest size,
 * which MPI can count. */
#define HWIO_PIECES_MAX 64
#define HWIO_PIECE_BYTES_MIN (4UL << 20)
#define HWIO_PIECE_BYTES_MAX (1UL << 30)
/* The longest message of which a copy can be sent. */
#define HWIO_STREAM_BYTES_MAX (HWIO_PIECES_MAX * HWIO_PIECE_BYTES_MAX)
/* Send and receive a stream of bytes, from or into a layout; without a layout (NULL) the data is discarded. */
bool hwio_stream_send(const struct hwio_layout *layout, size_t bytes, int world_rank, int tag);
bool hwio_stream_receive(const struct hwio_layout *layout, size_t bytes, int world_rank, int tag);
/* A stream that is being sent without waiting for its receiver. */
struct hwio_copy {
	/* NULL: none is being sent. */
	char *data;
	int pieces;
	MPI_Request sending[HWIO_PIECES_MAX];
};
/* Begins to send memory of malloc, which is freed when it is sent. */
void hwio_copy_send(struct hwio_copy *copy, char *data, size_t bytes, int world_rank, int tag);
/* Returns true if nothing is being sent any more. */
bool hwio_copy_is_sent(struct hwio_copy *copy);
/* Calls the program's error handler, and returns the code for the call to return. */
int hwio_error(MPI_Comm comm, int code);

#endif
