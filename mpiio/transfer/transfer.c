#include "transfer/transfer.h"

#include <assert.h>
#include <stdlib.h>

/* No transfer has this state. */
#define NEVER (-1)

/* The next state, by state and event. docs/internals/io.md has the same table. */
static const signed char next_state[][3] = {
	[HWIO_TRANSFER_OFFERED] = {HWIO_TRANSFER_NOTIFIED, HWIO_TRANSFER_LATE, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_PENDING] = {HWIO_TRANSFER_NOTIFIED, NEVER, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_NOTIFIED] = {HWIO_TRANSFER_NOTIFIED, NEVER, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_LATE] = {HWIO_TRANSFER_LATE, NEVER, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_DONE] = {NEVER, NEVER, NEVER},
};

struct hwio_transfer *hwio_transfer_make(enum hwio_transfer_state state, uint64_t id, int world_rank,
	struct hwio_context *context, size_t more)
{
	struct hwio_transfer *one = calloc(1, sizeof(*one) + more);
	if (one) {
		one->state = state;
		one->id = id;
		one->world_rank = world_rank;
		one->context = context;
	}
	return one;
}

void hwio_transfer_note(struct hwio_transfer *one, enum hwio_transfer_event event)
{
	int next = next_state[one->state][event];
	assert(next != NEVER);
	one->state = (enum hwio_transfer_state)next;
}

void hwio_transfer_link(struct hwio_transfer **list, struct hwio_transfer *one)
{
	hwio_enter();
	one->next = *list;
	*list = one;
	hwio_leave();
}

void hwio_transfer_unlink(struct hwio_transfer **list, struct hwio_transfer *one)
{
	hwio_enter();
	while (*list && *list != one)
		list = &(*list)->next;
	if (*list)
		*list = one->next;
	hwio_leave();
}
