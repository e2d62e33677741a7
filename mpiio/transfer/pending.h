/* State that incoming.c and delegated.c share: data that its sender still has, or has written. */
#ifndef HWIO_PENDING_H
#define HWIO_PENDING_H

#include "mpi/layout.h"
#include "transfer/offer.h"

struct hwio_pending {
	uint64_t id;
	int world_rank;
	struct hwio_layout layout;
	/* Protected pages. */
	uintptr_t low, high;
	struct hwio_context *context;
	/* The sender was notified to write it. */
	bool is_notified;
	struct hwio_pending *next;
	/* How many bytes of memory lie before the protected pages, and behind them. */
	size_t head, tail;
	/* As many of the data's first and last bytes, which were delivered at once. */
	bool has_edges;
	char edges[];
};

extern struct hwio_pending *hwio_pending_list;

void hwio_pending_unlink(struct hwio_pending *one);
void hwio_pending_free(struct hwio_pending *one);
void hwio_pending_notify(const struct hwio_pending *one, enum hwio_verdict_kind kind);
struct hwio_reply hwio_pending_reply(uint64_t id, int world_rank);
/* Receives the data, except for edges, which were delivered at once and may have changed. */
void hwio_pending_receive(struct hwio_pending *one);
/* Receives data that is being sent, and removes it from the list. */
void hwio_pending_fill(struct hwio_pending *one);

#endif
