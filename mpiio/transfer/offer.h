/* Offers: the sender retains its data until it receives a verdict. It waits in the program's own call; after a timeout
 * it sends a copy, and the call returns. Source: Natvig, Elster and Meyer, §III.C and §III.D. */
#ifndef HWIO_OFFER_H
#define HWIO_OFFER_H

#include "transfer/transfer.h"

/* Smaller messages are not offered: half of a message may be sent with its offer. */
#define HWIO_OFFERED_BYTES_MIN (4 * HWIO_PAGE_BYTES_MAX)
/* No MPI sends messages of this size before they are received. So their offers are synchronous, and the timeout counts
 * from their receipt. */
#define HWIO_RENDEZVOUS_BYTES_MIN (4UL << 20)

/* Sends the reply to a verdict. */
void hwio_offer_reply(uint64_t id, int world_rank, enum hwio_reply_kind kind, int error);

/* Offers the data of a send that returns at once, until its request completes. NULL: the original has to be called. */
struct hwio_transfer *hwio_offer_start(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm, MPI_Request *request, int *result);
/* The same for a message that the caller sends: `offer` of the transfer, of hwio_offer_bytes. It is sent before
 * hwio_offer_begin. */
struct hwio_transfer *hwio_offer_prepare(size_t bytes_min, const void *buffer, MPI_Count count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm);
void hwio_offer_begin(struct hwio_transfer *offered, MPI_Request request);
/* Checks for the verdict, and carries it out. True: the data is no longer needed. With `is_last`, the program's request
 * has completed, and the call waits for the verdict. */
bool hwio_offer_progress(struct hwio_transfer *offered, bool is_last);
/* The same for all offers. */
void hwio_offer_progress_all(void);
void hwio_offer_free(struct hwio_transfer *offered);
/* Sends the data of all offers unrequested, before this rank waits for something else. */
void hwio_offer_release(void);
bool hwio_offer_any(void);
/* Offers a send's data. False: the original has to be called. */
bool hwio_offer_instead(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type, int destination,
	int tag, MPI_Comm comm, int *result);
/* Waits for the verdict on an offer, and carries it out. */
void hwio_offer_settle(uint64_t id, const struct hwio_layout *layout, size_t operation_bytes, int world_rank);
/* Sends a stream without waiting for its receiver. False: there is no memory for a copy. */
bool hwio_offer_copy(uint64_t id, const struct hwio_layout *layout, int world_rank);
/* Continues copies that are still being sent: MPI sends long ones only in its calls, and a receiver may wait for them
 * while the program waits for the receiver by a file. Not for calls that an allocator makes: MPI may allocate. */
void hwio_offer_move(void);
/* Waits for these copies. */
void hwio_offer_finish(void);

#endif
