/* The receiver's side of offers. The list is short: programs receive few messages before they access the data. */
#include "transfer/incoming.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "memory/pages.h"
#include "memory/memory_map.h"
#include "transfer/delegated.h"
#include "transfer/envelope.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "real.h"

struct hwio_transfer *hwio_incoming_list;

void hwio_incoming_unlink(struct hwio_transfer *one)
{
	hwio_enter();
	hwio_transfer_unlink(&hwio_incoming_list, one);
	hwio_note_busy(HWIO_PART_INCOMING, hwio_incoming_any);
	hwio_leave();
}

bool hwio_incoming_any(void)
{
	return hwio_incoming_list != NULL;
}

static bool find_owed_message(uintptr_t low, uintptr_t high, struct hwio_range *owed)
{
	bool is_any = false;
	for (const struct hwio_transfer *one = hwio_incoming_list; one; one = one->next) {
		uintptr_t from = one->low > low ? one->low : low, to = one->high < high ? one->high : high;
		if (from < to && (!is_any || from < owed->low)) {
			*owed = (struct hwio_range){from, to};
			is_any = true;
		}
	}
	return is_any;
}

void hwio_incoming_free(struct hwio_transfer *one)
{
	hwio_layout_free(&one->layout);
	free(one);
}

void hwio_incoming_notify(struct hwio_transfer *one, enum hwio_verdict_kind kind)
{
	hwio_transfer_note(one, HWIO_TRANSFER_NOTIFIES);
	struct hwio_verdict verdict = {.id = one->id, .kind = kind};
	hwio_real.MPI_Send(&verdict, offsetof(struct hwio_verdict, path), MPI_BYTE, one->world_rank,
		HWIO_TAG_OF(HWIO_TAG_VERDICT, one->id), hwio_control);
}

struct hwio_reply hwio_incoming_reply(uint64_t id, int world_rank)
{
	struct hwio_reply reply = {0};
	/* The other rank may wait for this one's data. */
	if (hwio_offer_any())
		hwio_offer_release();
	hwio_real.MPI_Recv(&reply, sizeof(reply), MPI_BYTE, world_rank, HWIO_TAG_OF(HWIO_TAG_REPLY, id), hwio_control,
		MPI_STATUS_IGNORE);
	return reply;
}

static char *edges_end(const struct hwio_transfer *one)
{
	return one->edges + 2 * hwio_page_bytes;
}

/* Copies the bytes before and behind the protected pages to where they belong, or from there. */
static void copy_edges(struct hwio_transfer *one, bool is_write)
{
	hwio_layout_copy(&one->layout, 0, one->edges, one->head, is_write);
	hwio_layout_copy(&one->layout, one->layout.bytes - one->tail, edges_end(one) - one->tail, one->tail, is_write);
}

/* Restores memory, or returns false if it differs from what has arrived. */
static bool check_part(uintptr_t memory, const char *arrived, size_t bytes, bool does_restore)
{
	if (does_restore)
		memcpy((void *)memory, arrived, bytes);
	return does_restore || memcmp((void *)memory, arrived, bytes) == 0;
}

/* The same for the bytes outside of the protected pages. */
static bool check_edges(const struct hwio_transfer *one, bool does_restore)
{
	const struct hwio_layout *layout = &one->layout;
	size_t position = 0;
	bool is_same = true;
	for (size_t i = 0; i < layout->count && is_same; position += layout->blocks[i++].bytes) {
		uintptr_t at = (uintptr_t)(layout->buffer + layout->blocks[i].at), end = at + layout->blocks[i].bytes;
		if (at < one->low) {
			size_t part = (end < one->low ? end : one->low) - at;
			is_same = check_part(at, one->edges + position, part, does_restore);
		}
		if (end > one->high) {
			uintptr_t from = at > one->high ? at : one->high;
			size_t left = layout->bytes - position - (from - at);
			is_same = is_same && check_part(from, edges_end(one) - left, end - from, does_restore);
		}
	}
	return is_same;
}

bool hwio_incoming_has_changed(const struct hwio_transfer *one)
{
	/* The rest of such a page may be deferred. */
	size_t admitted = hwio_pages_admit(one->layout.low, one->layout.high);
	bool has_changed = !check_edges(one, false);
	hwio_pages_dismiss(admitted);
	return has_changed;
}

void hwio_incoming_receive(struct hwio_transfer *one)
{
	/* Parts of other buffers may lie between its own. */
	size_t admitted = hwio_pages_admit(one->layout.low, one->layout.high);
	/* The program may have changed the bytes outside of the protected pages: they are restored. */
	if (one->edges)
		copy_edges(one, false);
	hwio_stream_receive(&one->layout, one->layout.bytes, one->world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
	if (one->edges)
		check_edges(one, true);
	hwio_pages_dismiss(admitted);
}

void hwio_incoming_fill(struct hwio_transfer *one)
{
	size_t admitted = hwio_pages_admit(one->low, one->high);
	hwio_incoming_unlink(one);
	hwio_pages_settle(one->low, one->high);
	hwio_incoming_receive(one);
	hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
	hwio_context_touched(one->context, hwio_context_operation(one->context));
	hwio_pages_dismiss(admitted);
	hwio_incoming_free(one);
}

static void fetch(struct hwio_transfer *one)
{
	hwio_refuse_copy();
	hwio_step_in();
	hwio_incoming_notify(one, HWIO_VERDICT_SEND);
	hwio_incoming_reply(one->id, one->world_rank);
	hwio_incoming_fill(one);
	hwio_step_out();
}

static void drop(struct hwio_transfer *one)
{
	hwio_step_in();
	hwio_incoming_unlink(one);
	hwio_pages_settle(one->low, one->high);
	if (!hwio_is_copy()) {
		hwio_incoming_notify(one, HWIO_VERDICT_DROP);
		if (hwio_incoming_reply(one->id, one->world_rank).kind == HWIO_REPLY_LATE)
			hwio_stream_receive(NULL, one->layout.bytes, one->world_rank,
				HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
	}
	hwio_incoming_free(one);
	hwio_step_out();
}

/* Returns true if the blocks are in the order of their addresses: the bytes before and behind the protected pages are
 * then the message's first and last. */
static bool is_ascending(const struct hwio_layout *layout)
{
	for (size_t i = 1; i < layout->count; i++)
		if (layout->blocks[i].at < layout->blocks[i - 1].at + (intptr_t)layout->blocks[i - 1].bytes)
			return false;
	return layout->count > 0;
}

void hwio_incoming_place_ends(const struct hwio_transfer *one)
{
	const struct hwio_layout *layout = &one->layout;
	hwio_layout_copy(layout, 0, one->edges, hwio_page_bytes, true);
	hwio_layout_copy(layout, layout->bytes - hwio_page_bytes, one->edges + hwio_page_bytes, hwio_page_bytes, true);
}

bool hwio_incoming_can_defer(const struct hwio_layout *layout)
{
	return layout->bytes >= 4 * hwio_page_bytes && is_ascending(layout) && !hwio_is_threaded() &&
		hwio_page_up(layout->low) < hwio_page_down(layout->high) &&
		hwio_memory_map_is_private((void *)layout->low, layout->high - layout->low);
}

static struct hwio_transfer *make_pending(uint64_t id, int world_rank, const struct hwio_layout *layout,
	struct hwio_context *context, size_t edges_bytes)
{
	struct hwio_transfer *one = hwio_transfer_make(HWIO_TRANSFER_PENDING, id, world_rank, context, edges_bytes);
	if (!one)
		abort();
	one->layout = *layout;
	if (layout->blocks == &layout->single)
		one->layout.blocks = &one->layout.single;
	one->low = one->high = layout->low;
	return one;
}

/* Returns a pending message for which this page is protected, or NULL. */
static struct hwio_transfer *find_protected(uintptr_t address)
{
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (one->low <= address && address < one->high)
			return one;
	return NULL;
}

static bool protects(uintptr_t address)
{
	return find_protected(address) != NULL;
}

static void expose(uintptr_t address)
{
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (one->low <= address && address < one->high)
			hwio_pages_admit(one->low, one->high);
}

static void fetch_page(uintptr_t address)
{
	for (struct hwio_transfer *one; (one = find_protected(address));)
		fetch(one);
}

static const struct hwio_source messages = {
	.find = find_owed_message,
	.complete = hwio_incoming_fetch,
	.protects = protects,
	.expose = expose,
	.fetch = fetch_page,
};

void hwio_incoming_defer(uint64_t id, int world_rank, struct hwio_layout *layout, const char *edges,
	struct hwio_context *context)
{
	uintptr_t low = hwio_page_up(layout->low), high = hwio_page_down(layout->high);
	size_t head = low - layout->low, tail = layout->high - high;
	struct hwio_transfer *one = make_pending(id, world_rank, layout, context, 2 * hwio_page_bytes);
	one->head = head;
	one->tail = tail;
	one->edges = (char *)(one + 1);
	memcpy(one->edges, edges, 2 * hwio_page_bytes);
	/* Its first and last page may have parts of other buffers. */
	size_t admitted = hwio_pages_admit(layout->low, layout->high);
	copy_edges(one, true);
	hwio_pages_dismiss(admitted);
	one->low = low;
	one->high = high;
	hwio_pages_add_source(&messages);
	hwio_enter();
	hwio_transfer_link(&hwio_incoming_list, one);
	hwio_note_busy(HWIO_PART_INCOMING, hwio_incoming_any);
	hwio_leave();
	if (!hwio_pages_settle(one->low, one->high))
		fetch(one);
}

void hwio_incoming_fetch_now(uint64_t id, int world_rank, struct hwio_layout *layout, size_t bytes)
{
	struct hwio_transfer *one = make_pending(id, world_rank, layout, NULL, 0);
	one->layout.bytes = bytes;
	hwio_incoming_notify(one, HWIO_VERDICT_SEND);
	hwio_incoming_reply(one->id, one->world_rank);
	hwio_incoming_receive(one);
	hwio_incoming_free(one);
}

void hwio_incoming_accept(const struct hwio_envelope *envelope, struct hwio_layout *layout, bool may_defer,
	struct hwio_context *context)
{
	if (!may_defer || layout->bytes != envelope->bytes || !hwio_incoming_can_defer(layout)) {
		hwio_incoming_fetch_now(envelope->id, envelope->sender, layout, envelope->bytes);
		return;
	}
	char *edges = malloc(2 * hwio_page_bytes);
	if (!edges)
		abort();
	hwio_layout_copy(layout, offsetof(struct hwio_offer, edges), edges, 2 * hwio_page_bytes, false);
	hwio_incoming_defer(envelope->id, envelope->sender, layout, edges, context);
	free(edges);
}

void hwio_incoming_reject(const struct hwio_envelope *envelope)
{
	struct hwio_layout scratch = {.bytes = envelope->bytes};
	struct hwio_ack ack = {.id = envelope->id, .is_read = 1, .is_same = 1};
	if (envelope->kind == HWIO_HINT)
		hwio_real.MPI_Send(&ack, sizeof(ack), MPI_BYTE, envelope->sender, HWIO_TAG_ACK, hwio_control);
	else
		drop(make_pending(envelope->id, envelope->sender, &scratch, NULL, 0));
}

/* Returns a pending message that overlaps the range, or NULL. */
static struct hwio_transfer *find_pending(uintptr_t low, uintptr_t high)
{
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (one->layout.low < high && one->layout.high > low)
			return one;
	return NULL;
}

bool hwio_incoming_overlaps(uintptr_t low, uintptr_t high)
{
	return find_pending(low, high) != NULL;
}

void hwio_incoming_fetch(uintptr_t low, uintptr_t high)
{
	for (struct hwio_transfer *one; (one = find_pending(low, high));)
		fetch(one);
}

void hwio_incoming_fetch_all(void)
{
	while (hwio_incoming_list)
		fetch(hwio_incoming_list);
}

static bool has_byte_in(const struct hwio_transfer *one, uintptr_t low, uintptr_t high)
{
	for (size_t i = 0; i < one->layout.count; i++) {
		uintptr_t at = (uintptr_t)(one->layout.buffer + one->layout.blocks[i].at);
		if (at < high && at + one->layout.blocks[i].bytes > low)
			return true;
	}
	return false;
}

void hwio_incoming_drop(uintptr_t low, uintptr_t high)
{
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (one->layout.low >= high || one->layout.high <= low)
			continue;
		if (one->layout.low >= low && one->layout.high <= high)
			drop(one);
		else if (has_byte_in(one, low, high))
			fetch(one);
		else
			continue;
		next = hwio_incoming_list;
	}
}

/* Returns true if two layouts, both in the order of their addresses, have a byte in common. */
static bool overlaps_layout(const struct hwio_layout *a, const struct hwio_layout *b)
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

static bool is_same_memory(const struct hwio_layout *a, const struct hwio_layout *b)
{
	if (a->bytes != b->bytes || a->count != b->count || a->buffer + a->blocks[0].at != b->buffer + b->blocks[0].at)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->buffer + a->blocks[i].at != b->buffer + b->blocks[i].at ||
			a->blocks[i].bytes != b->blocks[i].bytes)
			return false;
	return true;
}

void hwio_incoming_drop_blocks(const struct hwio_layout *layout)
{
	bool is_sorted = is_ascending(layout);
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (is_sorted && is_same_memory(&one->layout, layout))
			drop(one);
		else if (!is_sorted || overlaps_layout(&one->layout, layout))
			fetch(one);
		else
			continue;
		next = hwio_incoming_list;
	}
}
