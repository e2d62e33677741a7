/* A write of small pieces that are scattered over a range of a file. The ranks that have them exchange them, so that
 * each writes whole stripes of the range. Source: Thakur, Gropp and Lusk, "Data Sieving and Collective I/O in ROMIO",
 * two-phase I/O. Here the writing rank chooses the participants, from the ranks that wait in a send. */
#ifndef HWIO_EXCHANGE_H
#define HWIO_EXCHANGE_H

#include "mpi/control.h"
#include "mpi/runs.h"
#include "transfer/offer.h"

/* Maximum of ranks; more ranks write their pieces without an exchange. */
#define HWIO_SHARES_MAX 16
#define HWIO_STRIPE_BYTES_MAX (4UL << 20)
/* Stripes begin and end at multiples of this in the file, so that no page or block has two writers. */
#define HWIO_STRIPE_UNIT_BYTES (64UL << 10)

/* One rank's part of the range, in ascending order. */
struct hwio_share {
	int32_t world_rank;
	/* The runs begin behind so many bytes of the rank's data. */
	uint32_t skip;
	struct hwio_runs runs;
};

/* The range is divided among the shares' ranks in their order. */
struct hwio_plan {
	uint64_t low, high;
	/* 0: there is no exchange. */
	uint32_t count;
	uint32_t reserved;
	struct hwio_share shares[HWIO_SHARES_MAX];
};

/* Returns the bytes of ascending runs before `end` in the file. */
uint64_t hwio_runs_below(const struct hwio_runs *runs, uint64_t end);
bool hwio_runs_are_ascending(const struct hwio_runs *runs);
/* Returns true if a plan of another rank is valid and has no more than `bytes` bytes for this rank; sets the index of its
 * share. */
bool hwio_plan_is_good(const struct hwio_plan *plan, uint64_t bytes, uint32_t *own);

/* Cuts the range and its shares. False: nothing is left, or a plan can't express it. */
bool hwio_plan_cut(struct hwio_plan *plan, uint64_t low, uint64_t high);
/* The same, to whole pages. */
static inline bool hwio_plan_cut_to_pages(struct hwio_plan *plan)
{
	return hwio_plan_cut(plan, hwio_page_up(plan->low), hwio_page_down(plan->high));
}

/* Sorts the shares by their offsets, so that each rank writes near its data; returns the index of this rank's own. */
uint32_t hwio_plan_sort(struct hwio_plan *plan);

/* Returns memory for an exchange, or NULL. */
char *hwio_exchange_space(void);
void hwio_exchange_free(char *space);
/* Called by all ranks of the plan. Returns 0 or the error number of a write. */
int hwio_exchange(const struct hwio_plan *plan, uint32_t own, const struct hwio_layout *layout, int descriptor,
	char *space);
/* Writes shares whose data is in this rank's memory, each at an index of `data`. Returns 0 or an error number. */
int hwio_exchange_write_here(const struct hwio_plan *plan, char *const data[], int descriptor, char *space);
/* Takes part as a sender that was invited. True: the data is in the file. */
bool hwio_exchange_join(const struct hwio_verdict *verdict, const struct hwio_layout *layout, int root);

/* The program's write, at the root. */
struct hwio_target {
	int descriptor;
	/* The program's memory, and its offset in the file. */
	uintptr_t low, high;
	off_t offset;
	/* The file's size, to which it is truncated if a write fails. */
	off_t bytes_before;
	const struct hwio_identity *identity;
	const char *path;
	/* The write's place. */
	struct hwio_context *context;
	/* True if no two ranks may write to the same page of the file; this rank then writes the range's first page and
	 * its last one if they are not whole. */
	bool is_by_pages;
};

/* Returns true if the layout lies in the written memory as a whole. */
static inline bool hwio_target_has(const struct hwio_target *target, const struct hwio_layout *layout)
{
	return layout->low >= target->low && layout->high <= target->high;
}

/* Finds the parts of the file to which a part of the memory is written. False: there are too many runs. */
bool hwio_target_runs(const struct hwio_target *target, const struct hwio_layout *layout, struct hwio_runs *runs);
/* Makes the shares of the range, this rank's first. False: a plan can't express them. */
bool hwio_plan_make(const struct hwio_target *target, const struct hwio_layout *own, struct hwio_plan *plan);
/* Returns true if the pending data in this memory, and this rank's own, should be exchanged. */
bool hwio_exchange_is_better(const struct hwio_target *target, const struct hwio_layout *own);
/* Writes the first and the last page of a range that was cut to whole pages, from memory that stands for the range's
 * first and last bytes. Returns 0 or an error number. */
int hwio_exchange_write_ends(int descriptor, uint64_t low, uint64_t high, const char *first, const char *end);
/* Writes by an exchange. True: all data is in the file. False: all data is in memory. */
bool hwio_exchange_write(const struct hwio_target *target, const struct hwio_layout *own);

#endif
