/* The root of an exchange: the rank whose program writes. It invites the ranks that have the data, and takes part
 * itself. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "mpi/model.h"
#include "mpi/mounts.h"
#include "transfer/exchange/exchange.h"
#include "transfer/incoming.h"
#include "real.h"

bool hwio_target_runs(const struct hwio_target *target, const struct hwio_layout *layout, struct hwio_runs *runs)
{
	hwio_runs_clear(runs);
	for (size_t i = 0; i < layout->count; i++) {
		uintptr_t at = (uintptr_t)(layout->buffer + layout->blocks[i].at);
		if (!hwio_runs_append(runs, (uint64_t)target->offset + (at - target->low), layout->blocks[i].bytes))
			return false;
	}
	return true;
}

bool hwio_plan_make(const struct hwio_target *target, const struct hwio_layout *own, struct hwio_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->low = (uint64_t)target->offset;
	plan->high = plan->low + (target->high - target->low);
	plan->shares[0].world_rank = hwio_rank;
	if (!hwio_target_runs(target, own, &plan->shares[0].runs) || !hwio_runs_are_ascending(&plan->shares[0].runs))
		return false;
	plan->count = 1;
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next) {
		if (!hwio_target_has(target, &one->layout))
			continue;
		for (uint32_t i = 0; i < plan->count; i++)
			if (plan->shares[i].world_rank == one->world_rank)
				return false;
		if (plan->count == HWIO_SHARES_MAX)
			return false;
		struct hwio_share *share = &plan->shares[plan->count++];
		share->world_rank = one->world_rank;
		if (!hwio_target_runs(target, &one->layout, &share->runs) || !hwio_runs_are_ascending(&share->runs))
			return false;
	}
	return plan->count > 1;
}

bool hwio_exchange_is_better(const struct hwio_target *target, const struct hwio_layout *own)
{
	struct hwio_plan plan;
	uint64_t pieces = 0;
	if (!hwio_plan_make(target, own, &plan))
		return false;
	for (uint32_t i = 0; i < plan.count; i++)
		pieces += hwio_runs_pieces(&plan.shares[i].runs);
	return hwio_model_exchanges(plan.high - plan.low, pieces, hwio_identity_is_shared(target->identity));
}

static void ask_rank(struct hwio_transfer *one, const struct hwio_target *target)
{
	struct hwio_verdict verdict = {.id = one->id, .kind = HWIO_VERDICT_EXCHANGE, .identity = *target->identity};
	hwio_transfer_note(one, HWIO_TRANSFER_NOTIFIES);
	verdict.path_bytes = (uint32_t)strlen(target->path) + 1;
	memcpy(verdict.path, target->path, verdict.path_bytes);
	hwio_real.MPI_Send(&verdict, (int)(offsetof(struct hwio_verdict, path) + verdict.path_bytes), MPI_BYTE,
		one->world_rank, HWIO_TAG_OF(HWIO_TAG_VERDICT, one->id), hwio_control);
}

/* Collects all replies. Ranks that aren't ready have sent their data instead. */
static bool are_all_ready(const struct hwio_target *target)
{
	bool are_ready = true;
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (!hwio_target_has(target, &one->layout) ||
			hwio_incoming_reply(one->id, one->world_rank).kind == HWIO_REPLY_READY)
			continue;
		are_ready = false;
		hwio_incoming_fill(one);
	}
	return are_ready;
}

static void send_plan(const struct hwio_target *target, const struct hwio_plan *plan)
{
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(target, &one->layout))
			hwio_real.MPI_Send(plan, sizeof(*plan), MPI_BYTE, one->world_rank,
				HWIO_TAG_OF(HWIO_TAG_VERDICT, one->id), hwio_control);
}

/* Ends the exchange: releases the other ranks, or requests their data after a failure. */
static void end_root_exchange(const struct hwio_target *target, bool is_done)
{
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(target, &one->layout))
			hwio_incoming_notify(one, is_done ? HWIO_VERDICT_DROP : HWIO_VERDICT_SEND);
}

static void fill_all(const struct hwio_target *target)
{
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (hwio_target_has(target, &one->layout))
			hwio_incoming_fill(one);
	}
}

static int write_ends(const struct hwio_target *target)
{
	uint64_t low = (uint64_t)target->offset, high = low + (target->high - target->low);
	return hwio_exchange_write_ends(target->descriptor, low, high, (char *)target->low, (char *)target->high);
}

bool hwio_exchange_write(const struct hwio_target *target, const struct hwio_layout *own)
{
	struct hwio_plan plan;
	/* Releases this rank's own offers first, since other ranks may wait for them. */
	hwio_offer_release();
	char *space = hwio_exchange_space();
	if (!space || !hwio_plan_make(target, own, &plan) || (target->is_by_pages && !hwio_plan_cut_to_pages(&plan))) {
		hwio_exchange_free(space);
		return false;
	}
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(target, &one->layout))
			ask_rank(one, target);
	bool is_done = are_all_ready(target);
	uint32_t number = hwio_plan_sort(&plan);
	if (!is_done)
		plan.count = 0;
	send_plan(target, &plan);
	if (is_done) {
		is_done = hwio_exchange(&plan, number, own, target->descriptor, space) == 0;
		for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
			if (hwio_target_has(target, &one->layout))
				is_done &= hwio_incoming_reply(one->id, one->world_rank).kind == HWIO_REPLY_DONE;
		hwio_mounts_forget(target->descriptor);
		if (target->is_by_pages && is_done)
			is_done = write_ends(target) == 0;
		end_root_exchange(target, is_done);
		if (!is_done && target->offset + (off_t)(target->high - target->low) > target->bytes_before &&
			hwio_libc.ftruncate(target->descriptor, target->bytes_before) != 0)
			hwio_log("%s can't be cut to its former size: %m", target->path);
	}
	for (struct hwio_transfer *one = hwio_incoming_list; one && is_done; one = one->next)
		if (hwio_target_has(target, &one->layout))
			hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
	if (!is_done)
		fill_all(target);
	hwio_exchange_free(space);
	hwio_mounts_forget(target->descriptor);
	return is_done;
}
