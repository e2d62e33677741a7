/* Data that the program considers received, and that its sender still has. Its pages are protected, and it is
 * fetched on access. If the program writes it to a file instead, its sender is notified to do that. */
#ifndef HWIO_INCOMING_H
#define HWIO_INCOMING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hwio_envelope;
struct hwio_offer;
struct hwio_layout;
struct hwio_context;

bool hwio_incoming_any(void);
/* Records an offer for this buffer, and takes the layout; or fetches the data at once if it can't be deferred. */
void hwio_incoming_accept(const struct hwio_offer *offer, struct hwio_layout *layout, bool may_defer);
/* The same for a block of a gather; `context` is the gather's. */
bool hwio_incoming_expect(uint64_t id, int world_rank, struct hwio_layout *layout, const char *first, const char *last,
	struct hwio_context *context);
/* Fetches `bytes` at once, which may be less than the layout, which it takes, has room for. */
void hwio_incoming_take_now(uint64_t id, int world_rank, struct hwio_layout *layout, size_t bytes);
/* Releases the sender of what the program doesn't get. */
void hwio_incoming_refuse(const struct hwio_envelope *envelope);
bool hwio_incoming_overlaps(uintptr_t low, uintptr_t high);
/* Whether this page is protected for any of them. */
bool hwio_incoming_protects(uintptr_t address);
/* Opens what is protected with this page, whatever is owed there, until the thread's outermost call ends. */
void hwio_incoming_expose(uintptr_t address);
/* A page was touched. False: none of these. Talks to other ranks. */
bool hwio_incoming_touch(uintptr_t address);
/* Fetches what lies in the range. */
void hwio_incoming_fetch(uintptr_t low, uintptr_t high);
void hwio_incoming_fetch_all(void);
/* The range is about to be overwritten: what lies in it as a whole is given up, the rest fetched. */
void hwio_incoming_drop(uintptr_t low, uintptr_t high);
bool hwio_incoming_can_defer(const struct hwio_layout *layout);
/* The same for the blocks of a layout. */
void hwio_incoming_drop_blocks(const struct hwio_layout *layout);
/*
 * The program writes this memory to its descriptor at this offset. True: done, by this rank and the senders, as one
 * write would have.
 */
bool hwio_incoming_write(int descriptor, const void *memory, size_t bytes, off_t offset);
/* Writes of other ranks that are not known to be done, of all files. 0, or what they have failed with. */
int hwio_incoming_wait(void);
bool hwio_incoming_is_writing(void);

#endif
