/* What incoming.c and delegated.c know of data whose sender still has it, or has written it. */
#ifndef HW_PENDING_H
#define HW_PENDING_H

#include "../mpi/layout.h"
#include "offer.h"

struct hw_pending {
	uint64_t id;
	int world_rank;
	struct hw_layout layout;
	/* Protected pages. */
	uintptr_t low, high;
	bool has_edges;
	char first[HW_PAGE_BYTES], last[HW_PAGE_BYTES];
	struct hw_context *context;
	/* The sender was told to write it. */
	bool is_told;
	struct hw_pending *next;
};

extern struct hw_pending *hw_pending_list;

void hw_pending_unlink(struct hw_pending *one);
void hw_pending_free(struct hw_pending *one);
void hw_pending_tell(const struct hw_pending *one, enum hw_verdict_kind kind);
struct hw_reply hw_pending_reply(const struct hw_pending *one);
/* Receives the data, but not where the program may have changed what it got at once. */
void hw_pending_receive(struct hw_pending *one);
/* The data is on its way: it is received, and no longer pending. */
void hw_pending_fill(struct hw_pending *one);
/* Puts back what lies outside of the protected pages. */
void hw_pending_restore(const struct hw_pending *one, const char *first, const char *last);

#endif
