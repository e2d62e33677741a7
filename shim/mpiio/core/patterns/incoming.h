/*
 * Data that the program believes received and whose sender still has it: its pages are protected, and it is fetched when
 * somebody looks. If the program writes it to a file instead, its sender is told to do that.
 */
#ifndef HW_INCOMING_H
#define HW_INCOMING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hw_envelope;
struct hw_offer;
struct hw_layout;
struct hw_context;

bool hw_incoming_any(void);
/* Notes an offer for this buffer, whose layout it takes; or fetches the data at once if it can't wait. */
void hw_incoming_take(const struct hw_offer *offer, struct hw_layout *layout, bool may_defer);
/* The same for a block of a gather; `context` is the gather's. */
bool hw_incoming_expect(uint64_t id, int world_rank, struct hw_layout *layout, const char *first, const char *last,
			struct hw_context *context);
/* Fetches `bytes` at once, which may be less than the layout, which it takes, has room for. */
void hw_incoming_take_now(uint64_t id, int world_rank, struct hw_layout *layout, size_t bytes);
/* Releases the sender of what the program doesn't get. */
void hw_incoming_refuse(const struct hw_envelope *envelope);
bool hw_incoming_overlaps(uintptr_t low, uintptr_t high);
/* Whether this page is protected for any of them. */
bool hw_incoming_holds(uintptr_t address);
/* Opens what is protected with this page, whatever is owed there, until the thread's outermost call ends. */
void hw_incoming_expose(uintptr_t address);
/* A page was touched. False: none of these. Talks to other ranks. */
bool hw_incoming_touch(uintptr_t address);
/* Fetches what lies in the range. */
void hw_incoming_fetch(uintptr_t low, uintptr_t high);
void hw_incoming_fetch_all(void);
/* The range is about to be overwritten: what lies in it as a whole is given up, the rest fetched. */
void hw_incoming_drop(uintptr_t low, uintptr_t high);
bool hw_incoming_can_defer(const struct hw_layout *layout);
/* The same for the blocks of a layout. */
void hw_incoming_drop_blocks(const struct hw_layout *layout);
/*
 * The program writes this memory to its descriptor at this offset. True: done, by this rank and the senders, as one
 * write would have.
 */
bool hw_incoming_write(int descriptor, const void *memory, size_t bytes, off_t offset);
/* Writes of other ranks that are not known to be done, of all files. 0, or what they have failed with. */
int hw_incoming_wait(void);
bool hw_incoming_is_writing(void);

#endif
