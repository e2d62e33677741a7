/* The life of a deferred read, from its protection to its filling. */
#include "deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../context.h"
#include "../patterns/incoming.h"
#include "lease.h"
#include "pages.h"
#include "private.h"
#include "real.h"

/* Around a touched page this much is filled at first; twice as much each time the program goes on behind it. */
#define WINDOW_BYTES_MIN (256UL << 10)
#define WINDOW_BYTES_MAX (64UL << 20)

static uintptr_t last_filled;
static size_t window_bytes = WINDOW_BYTES_MIN;

static uintptr_t least(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

static uintptr_t most(uintptr_t a, uintptr_t b)
{
	return a > b ? a : b;
}

static bool find_owed(uintptr_t low, uintptr_t high, struct hw_range *owed)
{
	const struct hw_record *record;
	for (size_t index = hw_record_find(low); (record = hw_record_at(index)) && record->low < high; index++)
		if (record->state == HW_DEFERRED) {
			*owed = (struct hw_range){most(hw_page_down(record->low), low),
						  least(hw_page_up(record->high), high)};
			return true;
		}
	return false;
}

static void pay(uintptr_t low, uintptr_t high)
{
	hw_memory_in((void *)low, high - low);
}

static const struct hw_source reads = {find_owed, pay};

void hw_deferred_stand(const struct hw_record *record)
{
	hw_pages_add_source(&reads);
	hw_record_cut(record->low, record->high);
	if (!hw_record_add(record))
		abort();
}

bool hw_read_whole(int descriptor, void *memory, size_t bytes, off_t offset)
{
	while (bytes > 0) {
		ssize_t got = hw_libc.pread(descriptor, memory, bytes < HW_CALL_BYTES_MAX ? bytes : HW_CALL_BYTES_MAX, offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		memory = (char *)memory + got;
		bytes -= (size_t)got;
		offset += got;
	}
	return true;
}

static bool add(uintptr_t low, uintptr_t high, enum hw_state state, struct hw_file *file, off_t offset,
		struct hw_context *context)
{
	struct hw_record record = {.low = low, .high = high, .state = state, .file = file, .offset = offset,
				   .context = context, .operation = hw_context_operation(context)};
	return low == high || hw_record_add(&record);
}

bool hw_defer(void *memory, size_t bytes, struct hw_file *file, off_t offset, struct hw_context *context)
{
	uintptr_t start = (uintptr_t)memory, end = start + bytes;
	uintptr_t low = hw_page_up(start), high = hw_page_down(end);
	if (hw_record_count() + 4 > HW_RECORDS_MAX)
		return false;
	if (low >= high) {
		/* No page is its own: it is read, and known to be a copy. */
		bool is_read = hw_read_whole(file->descriptor, memory, bytes, offset) &&
			       add(start, end, HW_PEEKED, file, offset, context);
		hw_count_busy();
		return is_read;
	}
	/* Pages that are not filled by this read alone are never protected: MPI may be receiving beside it. */
	if (!hw_read_whole(file->descriptor, memory, low - start, offset) ||
	    !hw_read_whole(file->descriptor, (void *)high, end - high, offset + (off_t)(high - start)))
		return false;
	if (!hw_file_lease(file))
		return false;
	hw_pages_add_source(&reads);
	add(start, low, HW_PEEKED, file, offset, context);
	add(low, high, HW_DEFERRED, file, offset + (off_t)(low - start), context);
	add(high, end, HW_PEEKED, file, offset + (off_t)(high - start), context);
	bool is_deferred = hw_pages_settle(low, high);
	if (!is_deferred)
		hw_record_cut(start, end);
	hw_count_busy();
	return is_deferred;
}

/* What the program would have read can't be had any more. As with a mapped file that is cut, that is SIGBUS. */
static void fail(const struct hw_file *file)
{
	hw_say("%s can't be read any more (%s): a read of it had been put off; --io off avoids that",
	       file->path[0] ? file->path : "a file without a name", strerror(errno));
	raise(SIGBUS);
}

static void warn_if_changed(const struct hw_file *file)
{
	static bool has_warned;
	if (has_warned || hw_file_is_unchanged(file))
		return;
	has_warned = true;
	hw_say("%s was changed while a read of it was put off; the program sees its present content",
	       file->path[0] ? file->path : "a file without a name");
}

/* Other threads must not see a page before all of it is there. */
static bool is_apart(void)
{
	return hw_private_is_threaded() || hw_lease_is_server();
}

static void read_part(const struct hw_record *part)
{
	size_t bytes = part->high - part->low;
	bool is_good = is_apart()
			       ? hw_private_fill(part->low, part->high, part->file->descriptor, part->offset)
			       : hw_read_whole(part->file->descriptor, (void *)part->low, bytes, part->offset);
	if (!is_good)
		fail(part->file);
}

/* Fills all that is deferred in these pages; what is in memory then may still be used if it is unchanged. */
static void fill_pages(uintptr_t low, uintptr_t high)
{
	if (!is_apart())
		hw_pages_open(low, high);
	for (size_t index = hw_record_find(low); hw_record_at(index) && hw_record_at(index)->low < high; index++) {
		struct hw_record part = *hw_record_at(index);
		if (part.state != HW_DEFERRED)
			continue;
		uintptr_t from = most(part.low, low), to = least(part.high, high);
		part.offset += (off_t)(from - part.low);
		part.low = from;
		part.high = to;
		hw_file_keep(part.file);
		warn_if_changed(part.file);
		read_part(&part);
		hw_record_cut(from, to);
		part.state = HW_PEEKED;
		hw_record_add(&part);
		hw_file_release(part.file);
		hw_context_touched(part.context, part.operation);
		index = hw_record_find(to - 1);
	}
	hw_pages_settle(low, high);
	hw_count_busy();
}

/* The pages of the range in which anything is deferred are filled; a hole in a full table would be lost. */
static void fill_within(uintptr_t low, uintptr_t high)
{
	for (size_t index = hw_record_find(low); hw_record_at(index) && hw_record_at(index)->low < high; index++) {
		struct hw_record *record = hw_record_at(index);
		if (record->state != HW_DEFERRED)
			continue;
		bool is_full = hw_record_count() + 4 > HW_RECORDS_MAX;
		uintptr_t from = is_full ? record->low : most(record->low, low);
		uintptr_t to = is_full ? record->high : least(record->high, high);
		fill_pages(hw_page_down(from), hw_page_up(to));
		index = hw_record_find(to - 1);
	}
}

/*
 * What others still write to files is written before any of it is read. They are asked by messages, so not while the lock
 * is held, and not by a signal's handler.
 */
static void wait_for_writes(uintptr_t low, uintptr_t high)
{
	if (hw_incoming_is_writing() && !hw_is_inside() && hw_deferred_in(low, high))
		hw_incoming_wait();
}

static void fill_range(uintptr_t low, uintptr_t high)
{
	wait_for_writes(low, high);
	hw_enter();
	fill_within(low, high);
	hw_leave();
}

void hw_memory_in(const void *memory, size_t bytes)
{
	uintptr_t low = hw_page_down((uintptr_t)memory), high = hw_page_up((uintptr_t)memory + bytes);
	if (hw_may_be_recorded(low, high) && bytes > 0)
		fill_range(low, high);
}

void hw_memory_in_loosely(const void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	if (hw_may_be_recorded(low, high) && bytes > 0)
		fill_range(low, high);
}

bool hw_deferred_in(uintptr_t low, uintptr_t high)
{
	bool is_any = false;
	hw_enter();
	for (size_t index = hw_record_find(low); hw_record_at(index) && hw_record_at(index)->low < high; index++)
		if (hw_record_at(index)->state == HW_DEFERRED) {
			is_any = true;
			break;
		}
	hw_leave();
	return is_any;
}

static void give_up(uintptr_t low, uintptr_t high)
{
	hw_record_cut(low, high);
	hw_pages_settle(low, high);
	hw_count_busy();
}

void hw_memory_out(void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	uintptr_t first = hw_page_down(low), last = hw_page_up(high);
	if (!hw_may_be_recorded(first, last) || bytes == 0)
		return;
	/* Of pages that are overwritten in part the rest is filled. */
	if (low != first)
		wait_for_writes(first, hw_page_up(low));
	if (high != last)
		wait_for_writes(hw_page_down(high), last);
	hw_enter();
	if (low != first)
		fill_within(first, hw_page_up(low));
	if (high != last)
		fill_within(hw_page_down(high), last);
	give_up(low, high);
	hw_leave();
}

void hw_memory_out_loosely(void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	/* Beside threads MPI can't be let at pages that stay protected. */
	if (hw_private_is_threaded() || hw_record_count() + 4 > HW_RECORDS_MAX) {
		hw_memory_out(memory, bytes);
		return;
	}
	if (!hw_may_be_recorded(hw_page_down(low), hw_page_up(high)) || bytes == 0)
		return;
	hw_enter();
	give_up(low, high);
	hw_leave();
}

void hw_deferred_round(void)
{
	/* Filling one may join and divide others. */
	for (uintptr_t at = 0;;) {
		hw_enter();
		size_t index = hw_record_find(at);
		while (hw_record_at(index) && hw_record_at(index)->state != HW_DEFERRED)
			index++;
		const struct hw_record *record = hw_record_at(index);
		uintptr_t low = record ? most(record->low, at) : 0, high = record ? record->high : 0;
		hw_leave();
		if (!record)
			return;
		if (low != hw_page_down(low))
			hw_memory_in((void *)low, 1);
		if (high != hw_page_down(high))
			hw_memory_in((void *)(high - 1), 1);
		at = high;
	}
}

bool hw_deferred_touch(uintptr_t address)
{
	uintptr_t page = hw_page_down(address);
	size_t index = hw_record_find(page);
	struct hw_record *record;
	while ((record = hw_record_at(index)) && record->state != HW_DEFERRED && record->low < page + HW_PAGE_BYTES)
		index++;
	if (!record || record->low >= page + HW_PAGE_BYTES)
		return false;
	window_bytes = page == last_filled ? least(window_bytes * 2, WINDOW_BYTES_MAX) : WINDOW_BYTES_MIN;
	uintptr_t end = least(hw_page_up(record->high), page + window_bytes);
	struct hw_range whole;
	/* Opening parts here and there must not make too many ranges. */
	if (hw_pages_count() > HW_CLOSED_MAX && hw_pages_find(address, &whole)) {
		page = whole.low;
		end = whole.high;
	}
	last_filled = end;
	fill_pages(page, end);
	return true;
}

/* Whether the record is of this part of the file. */
static bool is_of(const struct hw_record *record, const struct hw_file *file, off_t low, off_t high)
{
	off_t end = record->offset + (off_t)(record->high - record->low);
	return record->file->identity.device == file->identity.device &&
	       record->file->identity.inode == file->identity.inode && record->offset < high && end > low;
}

static bool is_any_deferred_of(const struct hw_file *file, off_t low, off_t high)
{
	bool is_any = false;
	hw_enter();
	for (size_t index = 0; hw_record_at(index) && !is_any; index++)
		is_any = hw_record_at(index)->state == HW_DEFERRED && is_of(hw_record_at(index), file, low, high);
	hw_leave();
	return is_any;
}

void hw_deferred_fill_file(const struct hw_file *file, off_t low, off_t high)
{
	/* While the lock is held nothing is waited for. */
	if (hw_incoming_is_writing() && !hw_is_inside() && is_any_deferred_of(file, low, high))
		hw_incoming_wait();
	hw_enter();
	for (size_t index = 0; hw_record_at(index); index++) {
		struct hw_record *record = hw_record_at(index);
		if (!is_of(record, file, low, high))
			continue;
		uintptr_t from = record->low, to = record->high;
		if (record->state == HW_DEFERRED)
			hw_memory_in((void *)from, to - from);
		/* What is in memory can no longer be compared with the file. */
		hw_record_cut(from, to);
		index = hw_record_find(from) - 1;
	}
	hw_count_busy();
	hw_leave();
}

void hw_deferred_fill_all(void)
{
	if (hw_record_count() > 0)
		hw_memory_in((void *)hw_records_low, hw_records_high - hw_records_low);
}
