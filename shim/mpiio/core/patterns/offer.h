/*
 * A sender that keeps its data until it is told what to do with it. It waits in the program's own call, but not for
 * long: then it sends a copy, and the program goes on. Source: Natvig, Elster and Meyer, §III.C and §III.D.
 */
#ifndef HW_OFFER_H
#define HW_OFFER_H

#include "../mpi/control.h"
#include "../mpi/runs.h"

/* Smaller messages are not worth a question. */
#define HW_OFFERED_BYTES_MIN (256UL << 10)
/*
 * Longer messages no MPI sends before they are received: their offers are synchronous, and time counts from their receipt
 * on.
 */
#define HW_RENDEZVOUS_BYTES_MIN (4UL << 20)

struct hw_context;

enum hw_verdict_kind { HW_VERDICT_SEND = 1, HW_VERDICT_WRITE, HW_VERDICT_DROP, HW_VERDICT_EXCHANGE };

struct hw_verdict {
	uint64_t id;
	uint16_t kind;
	/* The data follows also when it was written. */
	uint16_t is_sent_too;
	uint32_t path_bytes;
	struct hw_identity identity;
	struct hw_runs runs;
	char path[HW_PATH_BYTES_MAX];
};

enum hw_reply_kind { HW_REPLY_DONE = 1, HW_REPLY_FAILED, HW_REPLY_LATE, HW_REPLY_READY };

/* What the sender has done. After a verdict to send, a failure, or when it is late, its data follows. */
struct hw_reply {
	uint64_t id;
	int32_t kind;
	int32_t error;
};

/* An offer whose call has returned: MPI_Isend's, until its request is waited for. */
struct hw_offered;

/* The same for a send that returns at once; NULL: the original has to be called. */
struct hw_offered *hw_offer_start(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type,
				  int destination, int tag, MPI_Comm comm, MPI_Request *request, int *result);
/*
 * Looks whether the verdict has come, and carries it out. True: the data is no longer needed. `is_last`: its
 * request has completed, and it waits for the verdict.
 */
bool hw_offer_progress(struct hw_offered *offered, bool is_last);
/* The same for all there are. */
void hw_offer_progress_all(void);
void hw_offer_free(struct hw_offered *offered);
/* Before this rank waits for something else: whoever wants an offer's data gets it without being answered. */
void hw_offer_release(void);
bool hw_offer_any(void);
/* Offers a send's data. False: the original has to be called. */
bool hw_offer_instead(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type, int destination,
		      int tag, MPI_Comm comm, int *result);
/* Waits for the verdict over an offer that was made, and carries it out. */
void hw_offer_settle(uint64_t id, const struct hw_layout *layout, int world_rank, struct hw_context *context);
/* Sends a stream without waiting for who receives it. False: there is no memory for a copy. */
bool hw_offer_copy(uint64_t id, const struct hw_layout *layout, int world_rank);
/* Copies that are still on their way. */
void hw_offer_finish(void);

#endif
