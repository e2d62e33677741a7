/* What incoming.c and delegated.c know of data whose sender still has it, or has written it. */
#ifndef HW_PENDING_H
#define HW_PENDING_H

#include "../mpi/layout.h"
#include "offer.h"

/* A file to which other ranks write on behalf of the program's write. */
struct hw_target {
	/* Ours, to read back what was written. */
	int descriptor;
	uint64_t device, inode;
	int references;
	/* What a write has failed with that the program believes done. */
	int error;
	struct hw_target *next;
};

struct hw_pending {
	uint64_t id;
	int world_rank;
	struct hw_layout layout;
	/* Protected pages. */
	uintptr_t low, high;
	bool has_edges;
	char first[HW_PAGE_BYTES], last[HW_PAGE_BYTES];
	struct hw_context *context;
	/* The sender was told to write it there, and what its memory has in the file; NULL before. */
	struct hw_target *target;
	off_t offset;
	uintptr_t written_low;
	struct hw_pending *next;
};

extern struct hw_pending *hw_pending_list;

void hw_pending_unlink(struct hw_pending *one);
void hw_pending_free(struct hw_pending *one);
void hw_pending_protect(const struct hw_pending *one, bool is_protected);
void hw_pending_tell(const struct hw_pending *one, enum hw_verdict_kind kind);
struct hw_reply hw_pending_reply(const struct hw_pending *one);
/* Puts back what lies outside of the protected pages. */
void hw_pending_restore(const struct hw_pending *one, const char *first, const char *last);

#endif
