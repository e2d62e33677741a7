/* The receiver's side of offers. The list is short: a program seldom receives from many before it looks. */
#include "incoming.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../context.h"
#include "../generated-calls.h"
#include "../memory/pages.h"
#include "../memory/private.h"
#include "delegated.h"
#include "envelope.h"
#include "offer.h"
#include "outstanding.h"
#include "pending.h"
#include "real.h"

struct hw_pending *hw_pending_list;

static void link_in(struct hw_pending *one)
{
	hw_enter();
	one->next = hw_pending_list;
	hw_pending_list = one;
	hw_count_busy();
	hw_leave();
}

void hw_pending_unlink(struct hw_pending *one)
{
	hw_enter();
	struct hw_pending **link = &hw_pending_list;
	while (*link && *link != one)
		link = &(*link)->next;
	if (*link)
		*link = one->next;
	hw_count_busy();
	hw_leave();
}

bool hw_incoming_any(void)
{
	return hw_pending_list != NULL;
}

static bool find_owed(uintptr_t low, uintptr_t high, struct hw_range *owed)
{
	bool is_any = false;
	for (const struct hw_pending *one = hw_pending_list; one; one = one->next) {
		uintptr_t from = one->low > low ? one->low : low, to = one->high < high ? one->high : high;
		if (from < to && (!is_any || from < owed->low)) {
			*owed = (struct hw_range){from, to};
			is_any = true;
		}
	}
	return is_any;
}

static const struct hw_source messages = {find_owed, hw_incoming_fetch};

void hw_pending_free(struct hw_pending *one)
{
	hw_layout_free(&one->layout);
	free(one);
}

void hw_pending_tell(const struct hw_pending *one, enum hw_verdict_kind kind)
{
	struct hw_verdict verdict = {.id = one->id, .kind = kind};
	hw_real.MPI_Send(&verdict, offsetof(struct hw_verdict, path), MPI_BYTE, one->world_rank,
			 HW_TAG_OF(HW_TAG_VERDICT, one->id), hw_control);
}

struct hw_reply hw_pending_reply(const struct hw_pending *one)
{
	struct hw_reply reply = {0};
	hw_real.MPI_Recv(&reply, sizeof(reply), MPI_BYTE, one->world_rank, HW_TAG_OF(HW_TAG_REPLY, one->id), hw_control,
			 MPI_STATUS_IGNORE);
	return reply;
}

void hw_pending_receive(struct hw_pending *one)
{
	/* Parts of other buffers may lie between its own. */
	size_t admitted = hw_pages_admit(one->layout.low, one->layout.high);
	char first[HW_PAGE_BYTES], last[HW_PAGE_BYTES];
	size_t tail = one->layout.bytes - HW_PAGE_BYTES;
	if (one->has_edges) {
		hw_layout_copy(&one->layout, 0, first, sizeof(first), false);
		hw_layout_copy(&one->layout, tail, last, sizeof(last), false);
	}
	hw_stream_receive(&one->layout, one->layout.bytes, one->world_rank, HW_TAG_OF(HW_TAG_DATA, one->id));
	if (one->has_edges) {
		/* Of these only what lies outside of the protected pages was the program's. */
		hw_pending_restore(one, first, last);
	}
	hw_pages_dismiss(admitted);
}

void hw_pending_restore(const struct hw_pending *one, const char *first, const char *last)
{
	const struct hw_layout *layout = &one->layout;
	size_t position = 0;
	for (size_t i = 0; i < layout->count; position += layout->blocks[i++].bytes) {
		uintptr_t at = (uintptr_t)(layout->buffer + layout->blocks[i].at), end = at + layout->blocks[i].bytes;
		if (at < one->low) {
			size_t part = (end < one->low ? end : one->low) - at;
			memcpy((void *)at, first + position, part);
		}
		if (end > one->high) {
			uintptr_t from = at > one->high ? at : one->high;
			size_t behind = position + (from - at) - (layout->bytes - HW_PAGE_BYTES);
			memcpy((void *)from, last + behind, end - from);
		}
	}
}

void hw_pending_fill(struct hw_pending *one)
{
	size_t admitted = hw_pages_admit(one->low, one->high);
	hw_pending_unlink(one);
	hw_pages_settle(one->low, one->high);
	hw_pending_receive(one);
	hw_context_touched(one->context, hw_context_operation(one->context));
	hw_pages_dismiss(admitted);
	hw_pending_free(one);
}

static void fetch(struct hw_pending *one)
{
	hw_step_in();
	hw_pending_tell(one, HW_VERDICT_SEND);
	hw_pending_reply(one);
	hw_pending_fill(one);
	hw_step_out();
}

static void drop(struct hw_pending *one)
{
	hw_step_in();
	hw_pending_unlink(one);
	hw_pages_settle(one->low, one->high);
	hw_pending_tell(one, HW_VERDICT_DROP);
	if (hw_pending_reply(one).kind == HW_REPLY_LATE)
		hw_stream_receive(NULL, one->layout.bytes, one->world_rank, HW_TAG_OF(HW_TAG_DATA, one->id));
	hw_pending_free(one);
	hw_step_out();
}

/* Protected pages begin and end with bytes that are there already, so the data must lie in the order of its addresses. */
static bool is_ascending(const struct hw_layout *layout)
{
	for (size_t i = 1; i < layout->count; i++)
		if (layout->blocks[i].at < layout->blocks[i - 1].at + (intptr_t)layout->blocks[i - 1].bytes)
			return false;
	return layout->count > 0;
}

static bool can_defer(const struct hw_layout *layout)
{
	return layout->bytes >= 4 * HW_PAGE_BYTES && is_ascending(layout) && !hw_private_is_threaded() &&
	       hw_page_up(layout->low) < hw_page_down(layout->high) &&
	       hw_private_is((void *)layout->low, layout->high - layout->low);
}

static struct hw_pending *make(uint64_t id, int world_rank, struct hw_layout *layout, struct hw_context *context)
{
	struct hw_pending *one = calloc(1, sizeof(*one));
	if (!one)
		abort();
	one->id = id;
	one->world_rank = world_rank;
	one->layout = *layout;
	if (layout->blocks == &layout->single)
		one->layout.blocks = &one->layout.single;
	one->context = context;
	one->low = one->high = layout->low;
	return one;
}

static void begin(struct hw_pending *one, const char *first, const char *last)
{
	one->has_edges = true;
	memcpy(one->first, first, HW_PAGE_BYTES);
	memcpy(one->last, last, HW_PAGE_BYTES);
	/* Its first and last page may be between parts of other buffers. */
	size_t admitted = hw_pages_admit(one->layout.low, one->layout.high);
	hw_layout_copy(&one->layout, 0, one->first, HW_PAGE_BYTES, true);
	hw_layout_copy(&one->layout, one->layout.bytes - HW_PAGE_BYTES, one->last, HW_PAGE_BYTES, true);
	hw_pages_dismiss(admitted);
	one->low = hw_page_up(one->layout.low);
	one->high = hw_page_down(one->layout.high);
	hw_pages_add_source(&messages);
	link_in(one);
	if (!hw_pages_settle(one->low, one->high))
		fetch(one);
}

void hw_incoming_take_now(uint64_t id, int world_rank, struct hw_layout *layout, size_t bytes)
{
	struct hw_pending *one = make(id, world_rank, layout, NULL);
	one->layout.bytes = bytes;
	hw_pending_tell(one, HW_VERDICT_SEND);
	hw_pending_reply(one);
	hw_pending_receive(one);
	hw_pending_free(one);
}

void hw_incoming_take(const struct hw_offer *offer, struct hw_layout *layout, bool may_defer)
{
	const struct hw_envelope *envelope = &offer->envelope;
	if (may_defer && layout->bytes == envelope->bytes && can_defer(layout))
		begin(make(envelope->id, envelope->sender, layout, NULL), offer->first, offer->last);
	else
		hw_incoming_take_now(envelope->id, envelope->sender, layout, envelope->bytes);
}

bool hw_incoming_expect(uint64_t id, int world_rank, struct hw_layout *layout, const char *first, const char *last,
			struct hw_context *context)
{
	begin(make(id, world_rank, layout, context), first, last);
	return true;
}

bool hw_incoming_can_defer(const struct hw_layout *layout)
{
	return can_defer(layout);
}

void hw_incoming_refuse(const struct hw_envelope *envelope)
{
	struct hw_layout scratch = {.bytes = envelope->bytes};
	struct hw_ack ack = {.id = envelope->id, .is_read = 1, .is_same = 1};
	if (envelope->kind == HW_HINT)
		hw_real.MPI_Send(&ack, sizeof(ack), MPI_BYTE, envelope->sender, HW_TAG_ACK, hw_control);
	else
		drop(make(envelope->id, envelope->sender, &scratch, NULL));
}

/* Any pending byte, or page, of the range. */
static struct hw_pending *first_in(uintptr_t low, uintptr_t high)
{
	for (struct hw_pending *one = hw_pending_list; one; one = one->next)
		if (one->layout.low < high && one->layout.high > low)
			return one;
	return NULL;
}

bool hw_incoming_overlaps(uintptr_t low, uintptr_t high)
{
	return first_in(low, high) != NULL;
}

bool hw_incoming_holds(uintptr_t address)
{
	for (const struct hw_pending *one = hw_pending_list; one; one = one->next)
		if (one->low <= address && address < one->high)
			return true;
	return false;
}

void hw_incoming_expose(uintptr_t address)
{
	hw_pages_admit(address, address + 1);
	for (struct hw_pending *one = hw_pending_list; one; one = one->next)
		if (one->low <= address && address < one->high)
			hw_pages_admit(one->low, one->high);
}

bool hw_incoming_touch(uintptr_t address)
{
	bool is_ours = false;
	for (struct hw_pending *one = hw_pending_list, *next; one; one = next) {
		next = one->next;
		if (one->low <= address && address < one->high) {
			fetch(one);
			is_ours = true;
			next = hw_pending_list;
		}
	}
	return is_ours;
}

void hw_incoming_fetch(uintptr_t low, uintptr_t high)
{
	for (struct hw_pending *one; (one = first_in(low, high));)
		fetch(one);
}

void hw_incoming_fetch_all(void)
{
	while (hw_pending_list)
		fetch(hw_pending_list);
}

static bool has_byte_in(const struct hw_pending *one, uintptr_t low, uintptr_t high)
{
	for (size_t i = 0; i < one->layout.count; i++) {
		uintptr_t at = (uintptr_t)(one->layout.buffer + one->layout.blocks[i].at);
		if (at < high && at + one->layout.blocks[i].bytes > low)
			return true;
	}
	return false;
}

void hw_incoming_drop(uintptr_t low, uintptr_t high)
{
	for (struct hw_pending *one = hw_pending_list, *next; one; one = next) {
		next = one->next;
		if (one->layout.low >= high || one->layout.high <= low)
			continue;
		if (one->layout.low >= low && one->layout.high <= high)
			drop(one);
		else if (has_byte_in(one, low, high))
			fetch(one);
		else
			continue;
		next = hw_pending_list;
	}
}

/* Whether two layouts, both in the order of their addresses, have a byte in common. */
static bool do_meet(const struct hw_layout *a, const struct hw_layout *b)
{
	for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
		const char *low_a = a->buffer + a->blocks[i].at, *high_a = low_a + a->blocks[i].bytes;
		const char *low_b = b->buffer + b->blocks[j].at, *high_b = low_b + b->blocks[j].bytes;
		if (low_a < high_b && low_b < high_a)
			return true;
		if (high_a <= high_b)
			i++;
		else
			j++;
	}
	return false;
}

static bool is_same_memory(const struct hw_layout *a, const struct hw_layout *b)
{
	if (a->bytes != b->bytes || a->count != b->count || a->buffer + a->blocks[0].at != b->buffer + b->blocks[0].at)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->buffer + a->blocks[i].at != b->buffer + b->blocks[i].at || a->blocks[i].bytes != b->blocks[i].bytes)
			return false;
	return true;
}

void hw_incoming_drop_blocks(const struct hw_layout *layout)
{
	bool is_sorted = is_ascending(layout);
	for (struct hw_pending *one = hw_pending_list, *next; one; one = next) {
		next = one->next;
		if (is_sorted && is_same_memory(&one->layout, layout))
			drop(one);
		else if (!is_sorted || do_meet(&one->layout, layout))
			fetch(one);
		else
			continue;
		next = hw_pending_list;
	}
}
