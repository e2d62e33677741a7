/* Hints that other ranks have not acknowledged. A receiver that can't read the file requests the data from the sender.
 * The file must not change before the acknowledgement. */
#ifndef HWIO_OUTSTANDING_H
#define HWIO_OUTSTANDING_H

#include "transfer/transfer.h"

#define HWIO_OUTSTANDING_MAX 4096

bool hwio_outstanding_any(void);
bool hwio_outstanding_can_add(void);
/* Adds a hint. False: the file is about to change, or has changed. */
bool hwio_outstanding_hint(uint64_t id, int world_rank, struct hwio_file *file, const struct hwio_runs *runs,
	struct hwio_context *context);
/* Removes a hint that isn't sent after all. */
void hwio_outstanding_cancel(uint64_t id, int world_rank);
/* Fills the layout from a hint of this rank to itself, without a message. */
void hwio_outstanding_fill(uint64_t id, const struct hwio_layout *layout);
/* Called before this rank waits where it can't answer: waits for receivers that have begun to read, and sends the
 * others the data. */
void hwio_outstanding_settle(void);
/* Handles the acknowledgements that have arrived. */
void hwio_outstanding_poll(void);
/* Handles them until a request of this rank completes. */
int hwio_outstanding_answer_until(MPI_Request *request);
/* Ensures that no rank depends on this file, or on any (NULL), by sending unread data. `is_changing`: the file's times
 * differ afterwards, whatever their resolution. */
void hwio_outstanding_detach(const struct hwio_file *file, bool is_changing);
/* Called by all ranks at the end of MPI. */
void hwio_outstanding_finish(void);

#endif
