/* A write whose parts are small pieces all over a range of a file. The ranks that have them exchange them, so that
 * each writes whole stripes of the range. Source: Thakur, Gropp and Lusk, "Data Sieving and Collective I/O in
 * ROMIO", two-phase I/O. The writing rank chooses the participants, from those that wait in a send; that part is
 * ours. */
#ifndef HWIO_EXCHANGE_H
#define HWIO_EXCHANGE_H

#include "../mpi/control.h"
#include "../mpi/runs.h"
#include "../patterns/offer.h"

/* More ranks write their pieces as they are. */
#define HWIO_SHARES_MAX 16
#define HWIO_STRIPE_BYTES_MAX (4UL << 20)
/* Stripes begin and end at multiples of it in the file: no page or block of it has two writers. */
#define HWIO_STRIPE_UNIT_BYTES (64UL << 10)

/* What one rank has of the range, in ascending order. */
struct hwio_share {
	int32_t world_rank;
	int32_t reserved;
	struct hwio_runs runs;
};

/* The range is divided among the shares' ranks in their order. */
struct hwio_plan {
	uint64_t low, high;
	/* 0: it doesn't take place. */
	uint32_t count;
	uint32_t reserved;
	struct hwio_share shares[HWIO_SHARES_MAX];
};

/* Bytes of ascending runs before `end` in the file. */
uint64_t hwio_runs_below(const struct hwio_runs *runs, uint64_t end);
bool hwio_runs_are_ascending(const struct hwio_runs *runs);
/* Whether what another rank said can be a plan in which this rank has `bytes` bytes; gives the number of its share. */
bool hwio_plan_is_good(const struct hwio_plan *plan, uint64_t bytes, uint32_t *own);

/*
 * Brings the shares into the order of what they have, so that each rank writes near it; gives the number of this rank's
 * own.
 */
uint32_t hwio_plan_sort(struct hwio_plan *plan);

/* Memory for an exchange, or NULL. */
char *hwio_exchange_space(void);
void hwio_exchange_free(char *space);
/* By all ranks of the plan. 0, or what a write has failed with. */
int hwio_exchange(const struct hwio_plan *plan, uint32_t own, const struct hwio_layout *layout, int descriptor,
	char *space);
/* The side of a sender, after it was asked. True: the data is in the file. */
bool hwio_exchange_join(const struct hwio_verdict *verdict, const struct hwio_layout *layout, int root);

/* The side of the rank that wanted to write. */
struct hwio_target {
	int descriptor;
	/* The program's memory, and where it belongs in the file. */
	uintptr_t low, high;
	off_t offset;
	/* The file's size, to which it is cut if a write fails. */
	off_t bytes_before;
	const struct hwio_identity *identity;
	const char *path;
};

/* The shares of the range, this rank's first; false: a plan can't express them. */
bool hwio_plan_make(const struct hwio_target *target, const struct hwio_layout *own, struct hwio_plan *plan);
/* Whether all data that is pending in this memory, and this rank's own, should be exchanged. */
bool hwio_exchange_is_better(const struct hwio_target *target, const struct hwio_layout *own);
/* True: all of it is in the file. False: all of it is in memory. */
bool hwio_exchange_write(const struct hwio_target *target, const struct hwio_layout *own);

#endif
