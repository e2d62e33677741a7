/* Defers contiguous writes of one file at a time. */
#include "transfer/exchange/deferred_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/available.h"
#include "base/context.h"
#include "base/waits.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "transfer/incoming.h"
#include "real.h"

/* Limits of this rank's own deferred data: bytes, and a part of the available memory. */
#define OWN_BYTES_MAX (512UL << 20)
#define AVAILABLE_PART 4

static struct deferred {
	struct hwio_plan plan;
	/* For each share from the second one on: the number of its offer, the bytes of its data, of which later writes may
	 * have replaced some, and the data if that was sent instead. */
	uint64_t ids[HWIO_SHARES_MAX], bytes[HWIO_SHARES_MAX];
	char *late[HWIO_SHARES_MAX];
	/* This rank's data, in the order of its runs. */
	char *own;
	size_t own_bytes, own_bytes_max;
	int descriptor;
	struct hwio_identity identity;
	struct hwio_context *context;
	char path[HWIO_PATH_BYTES_MAX];
	double touched, end;
	/* With `is_by_pages`, what this rank writes: the first page and the last one, if they are not whole. */
	bool is_by_pages;
	char first[HWIO_PAGE_BYTES_MAX], last[HWIO_PAGE_BYTES_MAX];
} deferred;

bool hwio_deferred_write_any(void)
{
	return deferred.plan.count > 0;
}

bool hwio_deferred_write_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high)
{
	return hwio_deferred_write_any() && deferred.identity.device == device && deferred.identity.inode == inode &&
		deferred.plan.low < high && deferred.plan.high > low;
}

static bool append_runs(struct hwio_runs *to, const struct hwio_runs *runs)
{
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		for (uint64_t piece = 0; piece < run.count; piece++)
			if (!hwio_runs_append(to, run.offset + piece * run.stride, run.bytes))
				return false;
	}
	return true;
}

/* Returns true if the write continues the deferred ones, with other senders, soon enough. `before`: what the write leaves
 * of these, with this rank's runs of all: the last write of a byte counts. */
static bool does_follow(const struct hwio_target *target, const struct hwio_plan *plan, size_t own_bytes,
	struct hwio_plan *before)
{
	if (!hwio_identity_agrees(&deferred.identity, target->identity, true) || plan->low > deferred.plan.high ||
		plan->high < deferred.plan.high || deferred.plan.count + plan->count - 1 > HWIO_SHARES_MAX ||
		deferred.own_bytes + own_bytes > deferred.own_bytes_max || hwio_seconds() > deferred.end)
		return false;
	for (uint32_t i = 1; i < deferred.plan.count; i++)
		for (uint32_t k = 1; k < plan->count; k++)
			if (deferred.plan.shares[i].world_rank == plan->shares[k].world_rank)
				return false;
	*before = deferred.plan;
	struct hwio_runs *own = &before->shares[0].runs;
	if (plan->low < deferred.plan.high && !hwio_plan_cut(before, deferred.plan.low, plan->low))
		return false;
	return append_runs(own, &plan->shares[0].runs) && hwio_runs_are_ascending(own);
}

/* Begins a deferred write. False: no write can be deferred now. */
static bool begin_deferred_write(const struct hwio_target *target, const struct hwio_plan *plan, size_t own_bytes)
{
	hwio_step_in();
	uint64_t available = hwio_available_bytes() / AVAILABLE_PART;
	deferred.own = hwio_libc.mmap(NULL, OWN_BYTES_MAX, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	deferred.descriptor = deferred.own == MAP_FAILED || own_bytes > available
		? -1
		: fcntl(target->descriptor, F_DUPFD_CLOEXEC, 512);
	if (deferred.own != MAP_FAILED && deferred.descriptor < 0)
		hwio_libc.munmap(deferred.own, OWN_BYTES_MAX);
	hwio_step_out();
	deferred.own_bytes_max = available < OWN_BYTES_MAX ? available : OWN_BYTES_MAX;
	if (deferred.descriptor < 0)
		return false;
	deferred.own_bytes = 0;
	deferred.identity = *target->identity;
	deferred.context = target->context;
	strcpy(deferred.path, target->path);
	deferred.plan.low = deferred.plan.high = plan->low;
	deferred.plan.shares[0] = plan->shares[0];
	deferred.plan.count = 1;
	deferred.end = HWIO_WAIT_UNBOUNDED_S;
	deferred.is_by_pages = target->is_by_pages;
	memcpy(deferred.first, (void *)target->low, hwio_page_up(plan->low) - plan->low);
	return true;
}

bool hwio_deferred_write_add(const struct hwio_target *target, const struct hwio_layout *own)
{
	struct hwio_plan plan, before;
	if (own->bytes > OWN_BYTES_MAX || target->high - target->low < hwio_page_bytes ||
		!hwio_plan_make(target, own, &plan))
		return false;
	bool does_go_on = hwio_deferred_write_any() && does_follow(target, &plan, own->bytes, &before);
	if (hwio_deferred_write_any() && !does_go_on)
		hwio_incoming_wait();
	/* From here on no write fails for lack of space. */
	if (fallocate(target->descriptor, 0, target->offset, (off_t)(target->high - target->low)) != 0)
		return false;
	if (!does_go_on && !begin_deferred_write(target, &plan, own->bytes))
		return false;
	if (does_go_on) {
		deferred.plan = before;
		deferred.own_bytes = hwio_runs_bytes(&before.shares[0].runs) - own->bytes;
	}
	hwio_layout_copy(own, 0, deferred.own + deferred.own_bytes, own->bytes, false);
	deferred.own_bytes += own->bytes;
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next) {
		if (!hwio_target_has(target, &one->layout))
			continue;
		for (uint32_t i = 1; i < plan.count; i++)
			if (plan.shares[i].world_rank == one->world_rank)
				deferred.plan.shares[deferred.plan.count] = plan.shares[i];
		deferred.bytes[deferred.plan.count] = one->layout.bytes;
		deferred.ids[deferred.plan.count++] = one->id;
		hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
		double end = hwio_seconds() + HWIO_WAIT_DEFERRED_PART * hwio_model_timeout_s(one->layout.bytes);
		deferred.end = end < deferred.end ? end : deferred.end;
	}
	deferred.plan.high = plan.high;
	memcpy(deferred.last, (void *)(target->high - (plan.high - hwio_page_down(plan.high))),
		plan.high - hwio_page_down(plan.high));
	deferred.touched = hwio_seconds();
	return true;
}

static struct hwio_layout layout_of(char *memory, size_t bytes, struct hwio_block *block)
{
	*block = (struct hwio_block){0, bytes};
	return (struct hwio_layout){.buffer = memory, .bytes = bytes, .count = bytes > 0, .blocks = block};
}

static char *receive(const struct deferred *from, uint32_t share)
{
	size_t bytes = from->bytes[share];
	struct hwio_block block;
	struct hwio_layout data = layout_of(malloc(bytes), bytes, &block);
	if (!data.buffer)
		abort();
	hwio_stream_receive(&data, bytes, from->plan.shares[share].world_rank,
		HWIO_TAG_OF(HWIO_TAG_DATA, from->ids[share]));
	return data.buffer;
}

static struct hwio_reply reply_of(const struct deferred *from, uint32_t share)
{
	return hwio_incoming_reply(from->ids[share], from->plan.shares[share].world_rank);
}

static void notify_rank(const struct deferred *from, uint32_t share, const void *message, size_t bytes)
{
	hwio_real.MPI_Send(message, (int)bytes, MPI_BYTE, from->plan.shares[share].world_rank,
		HWIO_TAG_OF(HWIO_TAG_VERDICT, from->ids[share]), hwio_control);
}

/* Invites all ranks. Ranks that aren't ready send their data; the plan has the others. */
static void ask_ranks(struct deferred *from, struct hwio_plan *plan)
{
	struct hwio_verdict verdict = {.kind = HWIO_VERDICT_EXCHANGE, .identity = from->identity};
	verdict.path_bytes = (uint32_t)strlen(from->path) + 1;
	memcpy(verdict.path, from->path, verdict.path_bytes);
	for (uint32_t i = 1; i < from->plan.count; i++) {
		verdict.id = from->ids[i];
		notify_rank(from, i, &verdict, offsetof(struct hwio_verdict, path) + verdict.path_bytes);
	}
	*plan = from->plan;
	plan->count = 1;
	for (uint32_t i = 1; i < from->plan.count; i++) {
		if (reply_of(from, i).kind == HWIO_REPLY_READY) {
			plan->shares[plan->count++] = from->plan.shares[i];
			continue;
		}
		from->late[i] = receive(from, i);
		hwio_context_sent(from->context, hwio_model_saved(from->bytes[i], 1, 0));
	}
}

/* Writes data that this rank has. Returns 0 or an error number. */
static int write_here(const struct deferred *from, const struct hwio_runs *runs, char *memory)
{
	struct hwio_block block;
	struct hwio_layout data = layout_of(memory, hwio_runs_bytes(runs), &block);
	errno = 0;
	if (data.bytes == 0 || hwio_runs_transfer(from->descriptor, runs, &data, true))
		return 0;
	return errno ? errno : EIO;
}

/* Carries out the exchange, and writes what the plan leaves of the range's ends. Returns 0 or an error number. */
static int exchange(struct deferred *from, const struct hwio_plan *plan, uint32_t number, char *space)
{
	struct hwio_block block;
	struct hwio_layout own = layout_of(from->own, from->own_bytes, &block);
	int error = hwio_exchange(plan, number, &own, from->descriptor, space);
	for (uint32_t i = 1; i < from->plan.count; i++)
		if (!from->late[i] && reply_of(from, i).kind != HWIO_REPLY_DONE)
			error = error ? error : EIO;
	hwio_mounts_forget(from->descriptor);
	if (from->is_by_pages && !error)
		error = hwio_exchange_write_ends(from->descriptor, from->plan.low, from->plan.high, from->first,
			from->last + (from->plan.high - hwio_page_down(from->plan.high)));
	return error;
}

/* Ends the exchange: releases the other ranks, or receives their data after a failure. */
static void end_deferred_exchange(struct deferred *from, bool is_done)
{
	for (uint32_t i = 1; i < from->plan.count; i++) {
		if (from->late[i])
			continue;
		struct hwio_verdict verdict = {
			.id = from->ids[i], .kind = is_done ? HWIO_VERDICT_DROP : HWIO_VERDICT_SEND};
		notify_rank(from, i, &verdict, offsetof(struct hwio_verdict, path));
		if (!is_done)
			from->late[i] = receive(from, i);
	}
}

/* Returns true if what some ranks have sent instead is in pieces so small that it is better written with all else, for
 * which this rank has the memory. */
static bool is_scattered(const struct deferred *from)
{
	uint64_t bytes = 0, pieces = 0;
	for (uint32_t i = 1; i < from->plan.count; i++) {
		bytes += from->late[i] ? hwio_runs_bytes(&from->plan.shares[i].runs) : 0;
		pieces += from->late[i] ? hwio_runs_pieces(&from->plan.shares[i].runs) : 0;
	}
	return from->plan.high - from->plan.low <= from->own_bytes_max && hwio_model_exchanges(bytes, pieces, true);
}

/* Writes what other ranks have sent, and with `has_own` this rank's data. Returns 0 or an error number. */
static int write_rest(struct deferred *from, bool has_own, char *space)
{
	struct hwio_plan here = {.low = from->plan.low, .high = from->plan.high};
	char *data[HWIO_SHARES_MAX];
	int error = 0;
	for (uint32_t i = has_own ? 0 : 1; i < from->plan.count; i++)
		if (i == 0 || from->late[i]) {
			here.shares[here.count] = from->plan.shares[i];
			data[here.count++] = i == 0 ? from->own : from->late[i];
		}
	if (space && here.count > 0)
		return hwio_exchange_write_here(&here, data, from->descriptor, space);
	for (uint32_t i = 0; i < here.count && !error; i++)
		error = write_here(from, &here.shares[i].runs, data[i]);
	return error;
}

static int carry_out_exchange(struct deferred *from)
{
	struct hwio_plan plan;
	/* Releases this rank's own offers first, since other ranks may wait for them. */
	hwio_offer_release();
	char *space = hwio_exchange_space();
	bool is_prepared = !from->is_by_pages || hwio_file_send(from->descriptor, from->plan.low, from->plan.high) == 0;
	ask_ranks(from, &plan);
	bool is_done = space && plan.count > 1 && is_prepared && !is_scattered(from) &&
		(!from->is_by_pages || hwio_plan_cut_to_pages(&plan));
	uint32_t number = hwio_plan_sort(&plan);
	is_done = is_done && hwio_plan_is_good(&plan, from->own_bytes, &number);
	if (!is_done)
		plan.count = 0;
	for (uint32_t i = 1; i < from->plan.count; i++)
		if (!from->late[i])
			notify_rank(from, i, &plan, sizeof(plan));
	if (is_done) {
		is_done = exchange(from, &plan, number, space) == 0;
		end_deferred_exchange(from, is_done);
	}
	for (uint32_t i = 1; i < from->plan.count; i++)
		if (!from->late[i] && plan.count == 0)
			from->late[i] = receive(from, i);
	int error = write_rest(from, !is_done, space);
	for (uint32_t i = 1; i < from->plan.count; i++) {
		free(from->late[i]);
		from->late[i] = NULL;
	}
	hwio_exchange_free(space);
	return error;
}

int hwio_deferred_write_flush(uint64_t *device, uint64_t *inode)
{
	static struct deferred now;
	if (!hwio_deferred_write_any())
		return 0;
	now = deferred;
	deferred.plan.count = 0;
	*device = now.identity.device;
	*inode = now.identity.inode;
	int error = carry_out_exchange(&now);
	hwio_mounts_forget(now.descriptor);
	hwio_file_refresh(now.descriptor);
	hwio_libc.close(now.descriptor);
	hwio_libc.munmap(now.own, OWN_BYTES_MAX);
	return error;
}

/* Returns true if there is time for the exchange. An offer that has arrived since then would time out meanwhile; it
 * belongs to the next write. */
static bool is_idle(double now, bool (*has_arrived)(void))
{
	double part = HWIO_WAIT_IDLE_PART * hwio_model_timeout_s(deferred.plan.high - deferred.plan.low);
	return now > deferred.touched + (part > HWIO_WAIT_IDLE_S ? part : HWIO_WAIT_IDLE_S) && !hwio_incoming_any() &&
		!has_arrived();
}

void hwio_deferred_write_poll(bool (*has_arrived)(void))
{
	double now = hwio_seconds();
	if (hwio_deferred_write_any() && (is_idle(now, has_arrived) || now > deferred.end))
		hwio_incoming_wait();
}
