/* One file's writes at a time, that follow one another in it. */
#include "held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../generated-calls.h"
#include "../memory/room.h"
#include "../model.h"
#include "../patterns/incoming.h"
#include "../patterns/pending.h"
#include "../requests/requests.h"
#include "real.h"

/* This rank's own parts, of which no more are held than this, or than a part of what memory is left. */
#define OWN_BYTES_MAX (512UL << 20)
#define ROOM_PART 4
/* A receive that takes longer, or longer than a part of the exchange, leaves time for the exchange. */
#define IDLE_SECONDS_MIN 0.020
#define IDLE_PART 0.05
/* Of the time that senders wait until they send copies. */
#define PATIENCE_PART 0.75

static struct held {
	struct hw_plan plan;
	/* Of the shares from the second one on: the number of its offer, and whether its data has come instead. */
	uint64_t ids[HW_SHARES_MAX];
	char *late[HW_SHARES_MAX];
	/* This rank's data, in the order of its runs. */
	char *own;
	size_t own_bytes, own_bytes_max;
	int descriptor;
	struct hw_identity identity;
	char path[HW_PATH_BYTES_MAX];
	double touched, end;
} held;

bool hw_held_any(void)
{
	return held.plan.count > 0;
}

bool hw_held_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high)
{
	return hw_held_any() && held.identity.device == device && held.identity.inode == inode && held.plan.low < high &&
	       held.plan.high > low;
}

static bool append(struct hw_runs *to, const struct hw_runs *runs)
{
	for (uint32_t i = 0; i < runs->count; i++)
		for (uint64_t piece = 0; piece < runs->run[i].count; piece++)
			if (!hw_runs_append(to, runs->run[i].offset + piece * runs->run[i].stride, runs->run[i].bytes))
				return false;
	return true;
}

/* Whether the write goes on where the held ones end, with other senders, soon enough. */
static bool does_follow(const struct hw_target *target, const struct hw_plan *plan, size_t own_bytes,
			struct hw_runs *own)
{
	if (!hw_identity_agrees(&held.identity, target->identity, true) || plan->low != held.plan.high ||
	    held.plan.count + plan->count - 1 > HW_SHARES_MAX || held.own_bytes + own_bytes > held.own_bytes_max ||
	    hw_seconds() > held.end)
		return false;
	for (uint32_t i = 1; i < held.plan.count; i++)
		for (uint32_t k = 1; k < plan->count; k++)
			if (held.plan.shares[i].world_rank == plan->shares[k].world_rank)
				return false;
	*own = held.plan.shares[0].runs;
	return append(own, &plan->shares[0].runs) && hw_runs_are_ascending(own);
}

/* False: nothing can be held now. */
static bool begin(const struct hw_target *target, const struct hw_plan *plan, size_t own_bytes)
{
	hw_step_in();
	uint64_t room = hw_room_bytes() / ROOM_PART;
	held.own = hw_libc.mmap(NULL, OWN_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
				0);
	held.descriptor = held.own == MAP_FAILED || own_bytes > room ? -1 : fcntl(target->descriptor, F_DUPFD_CLOEXEC, 512);
	if (held.own != MAP_FAILED && held.descriptor < 0)
		hw_libc.munmap(held.own, OWN_BYTES_MAX);
	hw_step_out();
	held.own_bytes_max = room < OWN_BYTES_MAX ? room : OWN_BYTES_MAX;
	if (held.descriptor < 0)
		return false;
	held.own_bytes = 0;
	held.identity = *target->identity;
	strcpy(held.path, target->path);
	held.plan.low = held.plan.high = plan->low;
	held.plan.shares[0] = plan->shares[0];
	held.plan.count = 1;
	held.end = hw_seconds() + 1e9;
	return true;
}

bool hw_held_add(const struct hw_target *target, const struct hw_layout *own)
{
	struct hw_plan plan;
	struct hw_runs all;
	if (own->bytes > OWN_BYTES_MAX || !hw_plan_make(target, own, &plan))
		return false;
	bool does_go_on = hw_held_any() && does_follow(target, &plan, own->bytes, &all);
	if (hw_held_any() && !does_go_on)
		hw_incoming_wait();
	/* From here on no write fails for want of space. */
	if (fallocate(target->descriptor, 0, target->offset, (off_t)(target->high - target->low)) != 0)
		return false;
	if (!does_go_on && !begin(target, &plan, own->bytes))
		return false;
	if (does_go_on)
		held.plan.shares[0].runs = all;
	hw_layout_copy(own, 0, held.own + held.own_bytes, own->bytes, false);
	held.own_bytes += own->bytes;
	for (struct hw_pending *one = hw_pending_list; one; one = one->next) {
		if (one->layout.low < target->low || one->layout.high > target->high)
			continue;
		for (uint32_t i = 1; i < plan.count; i++)
			if (plan.shares[i].world_rank == one->world_rank)
				held.plan.shares[held.plan.count] = plan.shares[i];
		held.ids[held.plan.count++] = one->id;
		one->is_told = true;
		double end = hw_seconds() + PATIENCE_PART * hw_model_patience_s(one->layout.bytes);
		held.end = end < held.end ? end : held.end;
	}
	held.plan.high = plan.high;
	held.touched = hw_seconds();
	return true;
}

static struct hw_layout layout_of(char *memory, size_t bytes, struct hw_block *block)
{
	*block = (struct hw_block){0, bytes};
	return (struct hw_layout){.buffer = memory, .bytes = bytes, .count = bytes > 0, .blocks = block};
}

static char *receive(const struct held *from, uint32_t share)
{
	size_t bytes = hw_runs_bytes(&from->plan.shares[share].runs);
	struct hw_block block;
	struct hw_layout data = layout_of(malloc(bytes), bytes, &block);
	if (!data.buffer)
		abort();
	hw_stream_receive(&data, bytes, from->plan.shares[share].world_rank, HW_TAG_OF(HW_TAG_DATA, from->ids[share]));
	return data.buffer;
}

static struct hw_reply reply_of(const struct held *from, uint32_t share)
{
	struct hw_pending stub = {.id = from->ids[share], .world_rank = from->plan.shares[share].world_rank};
	return hw_pending_reply(&stub);
}

static void tell(const struct held *from, uint32_t share, const void *message, size_t bytes)
{
	hw_real.MPI_Send(message, (int)bytes, MPI_BYTE, from->plan.shares[share].world_rank,
			 HW_TAG_OF(HW_TAG_VERDICT, from->ids[share]), hw_control);
}

/* Asks all; whoever isn't ready has sent its data. The plan of those who are. */
static void ask(struct held *from, struct hw_plan *plan)
{
	struct hw_verdict verdict = {.kind = HW_VERDICT_EXCHANGE, .identity = from->identity};
	verdict.path_bytes = (uint32_t)strlen(from->path) + 1;
	memcpy(verdict.path, from->path, verdict.path_bytes);
	for (uint32_t i = 1; i < from->plan.count; i++) {
		verdict.id = from->ids[i];
		tell(from, i, &verdict, offsetof(struct hw_verdict, path) + verdict.path_bytes);
	}
	*plan = from->plan;
	plan->count = 1;
	for (uint32_t i = 1; i < from->plan.count; i++) {
		if (reply_of(from, i).kind == HW_REPLY_READY)
			plan->shares[plan->count++] = from->plan.shares[i];
		else
			from->late[i] = receive(from, i);
	}
}

/* What has come here is written here. 0, or why it can't be. */
static int write_here(const struct held *from, const struct hw_runs *runs, char *memory)
{
	struct hw_block block;
	struct hw_layout data = layout_of(memory, hw_runs_bytes(runs), &block);
	errno = 0;
	if (data.bytes == 0 || hw_runs_transfer(from->descriptor, runs, &data, true))
		return 0;
	return errno ? errno : EIO;
}

static int exchange(struct held *from, const struct hw_plan *plan, uint32_t number, char *space)
{
	struct hw_block block;
	struct hw_layout own = layout_of(from->own, from->own_bytes, &block);
	int error = hw_exchange(plan, number, &own, from->descriptor, space);
	for (uint32_t i = 1; i < from->plan.count; i++)
		if (!from->late[i] && reply_of(from, i).kind != HW_REPLY_DONE)
			error = error ? error : EIO;
	return error;
}

/* Everybody has written, or everybody's data comes here. */
static void end(struct held *from, bool is_done)
{
	for (uint32_t i = 1; i < from->plan.count; i++) {
		if (from->late[i])
			continue;
		struct hw_verdict verdict = {.id = from->ids[i], .kind = is_done ? HW_VERDICT_DROP : HW_VERDICT_SEND};
		tell(from, i, &verdict, offsetof(struct hw_verdict, path));
		if (!is_done)
			from->late[i] = receive(from, i);
	}
}

static int carry_out(struct held *from)
{
	struct hw_plan plan;
	int error = 0;
	/* Who waits for this rank's own offers is answered first. */
	hw_offer_release();
	char *space = hw_exchange_space();
	ask(from, &plan);
	uint32_t number = hw_plan_sort(&plan);
	bool is_done = space && plan.count > 1 && hw_plan_is_good(&plan, from->own_bytes, &number);
	if (!is_done)
		plan.count = 0;
	for (uint32_t i = 1; i < from->plan.count; i++)
		if (!from->late[i])
			tell(from, i, &plan, sizeof(plan));
	if (is_done) {
		is_done = exchange(from, &plan, number, space) == 0;
		end(from, is_done);
	}
	if (!is_done)
		error = write_here(from, &from->plan.shares[0].runs, from->own);
	for (uint32_t i = 1; i < from->plan.count; i++) {
		if (!from->late[i] && plan.count == 0)
			from->late[i] = receive(from, i);
		if (from->late[i])
			error = error ? error : write_here(from, &from->plan.shares[i].runs, from->late[i]);
		free(from->late[i]);
		from->late[i] = NULL;
	}
	hw_exchange_free(space);
	return error;
}

int hw_held_flush(uint64_t *device, uint64_t *inode)
{
	static struct held now;
	struct stat status;
	if (!hw_held_any())
		return 0;
	now = held;
	held.plan.count = 0;
	*device = now.identity.device;
	*inode = now.identity.inode;
	int error = carry_out(&now);
	hw_file_forget(now.descriptor);
	if (fstat(now.descriptor, &status) == 0)
		hw_file_refresh(&status);
	hw_libc.close(now.descriptor);
	hw_libc.munmap(now.own, OWN_BYTES_MAX);
	return error;
}

/* Whoever has made an offer since then would lose patience during the exchange: it is for the next write. */
static bool is_idle(double now)
{
	double part = IDLE_PART * hw_model_patience_s(held.plan.high - held.plan.low);
	return now > held.touched + (part > IDLE_SECONDS_MIN ? part : IDLE_SECONDS_MIN) && !hw_incoming_any() &&
	       !hw_requests_any_arrived();
}

void hw_held_poll(void)
{
	double now = hw_seconds();
	if (hw_held_any() && (is_idle(now) || now > held.end))
		hw_incoming_wait();
}
