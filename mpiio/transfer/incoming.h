/* Messages that the program considers received, and whose sender still has the data. Their pages are protected, and the
 * data is fetched on access. If the program writes the data to a file instead, the sender is notified to write it. */
#ifndef HWIO_INCOMING_H
#define HWIO_INCOMING_H

#include "transfer/transfer.h"

struct hwio_envelope;

/* Those whose buffer the program considers filled; each sender has the data, or has been notified. */
extern struct hwio_transfer *hwio_incoming_list;

bool hwio_incoming_any(void);
/* Records an offer that lies in this buffer, or fetches the data at once if it can't be deferred. Takes ownership of
 * the layout. `context` is the gather's, or NULL. */
void hwio_incoming_accept(const struct hwio_envelope *envelope, struct hwio_layout *layout, bool may_defer,
	struct hwio_context *context);
/* Returns true if the program has changed bytes of an offer that it got at once: its changes would be lost. */
bool hwio_incoming_has_changed(const struct hwio_transfer *one);
/* The same as hwio_incoming_accept for a block of a gather, with the data's first and last page. */
void hwio_incoming_defer(uint64_t id, int world_rank, struct hwio_layout *layout, const char *edges,
	struct hwio_context *context);
/* Fetches `bytes` bytes at once, which may be fewer than the layout has. Takes ownership of the layout. */
void hwio_incoming_fetch_now(uint64_t id, int world_rank, struct hwio_layout *layout, size_t bytes);
/* Releases the sender of a message that the program doesn't receive. */
void hwio_incoming_reject(const struct hwio_envelope *envelope);
bool hwio_incoming_overlaps(uintptr_t low, uintptr_t high);
/* Fetches all that overlaps the range. */
void hwio_incoming_fetch(uintptr_t low, uintptr_t high);
void hwio_incoming_fetch_all(void);
/* Prepares the range for being overwritten: drops messages that lie in it as a whole, and fetches the rest. */
void hwio_incoming_drop(uintptr_t low, uintptr_t high);
bool hwio_incoming_can_defer(const struct hwio_layout *layout);
/* The same for the blocks of a layout. */
void hwio_incoming_drop_blocks(const struct hwio_layout *layout);
/* Delegates the program's write of this memory to the senders. `has_overlapped`: it had to wait for another one. True: all
 * is done, as by one write. */
bool hwio_incoming_write(int descriptor, const void *memory, size_t bytes, off_t offset, bool has_overlapped);
/* Waits for the writes of other ranks, to all files. Returns 0 or an error number. */
int hwio_incoming_wait(void);
bool hwio_incoming_is_writing(void);

/* For the rest of this floor. Sends a verdict. */
void hwio_incoming_notify(struct hwio_transfer *one, enum hwio_verdict_kind kind);
struct hwio_reply hwio_incoming_reply(uint64_t id, int world_rank);
/* Receives the data, except for edges, which were delivered at once and may have changed. */
void hwio_incoming_receive(struct hwio_transfer *one);
/* Receives data that is being sent, and removes it from the list. */
void hwio_incoming_fill(struct hwio_transfer *one);
/* Copies the data's first and last page to where they belong. */
void hwio_incoming_place_ends(const struct hwio_transfer *one);
/* Removes it from the list, without protecting or opening its pages. */
void hwio_incoming_unlink(struct hwio_transfer *one);
void hwio_incoming_free(struct hwio_transfer *one);

#endif
