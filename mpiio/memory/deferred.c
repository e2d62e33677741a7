/* Protects the pages of deferred reads, and fills them. */
#include "memory/deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/left.h"
#include "memory/lease.h"
#include "memory/pages.h"
#include "memory/memory_map.h"
#include "real.h"

/* A fault fills this much at first; twice as much each time the program continues behind it. */
#define WINDOW_BYTES_MIN (256UL << 10)
#define WINDOW_BYTES_MAX (64UL << 20)

static const struct hwio_writers *writers;
static uintptr_t last_filled;
static size_t window_bytes = WINDOW_BYTES_MIN;

/* Returns the first deferred record with a byte in the range, or NULL. */
static struct hwio_record *first_deferred(uintptr_t low, uintptr_t high)
{
	struct hwio_record *record;
	for (size_t index = hwio_record_find(low); (record = hwio_record_at(index)) && record->low < high; index++)
		if (record->state == HWIO_DEFERRED)
			return record;
	return NULL;
}

static bool find_owed_read(uintptr_t low, uintptr_t high, struct hwio_range *owed)
{
	const struct hwio_record *record = first_deferred(low, high);
	if (record)
		*owed = (struct hwio_range){
			hwio_most(hwio_page_down(record->low), low), hwio_least(hwio_page_up(record->high), high)};
	return record != NULL;
}

static void complete_range(uintptr_t low, uintptr_t high)
{
	hwio_memory_in((void *)low, high - low);
}

static const struct hwio_source reads = {.find = find_owed_read, .complete = complete_range};

bool hwio_deferred_add(const struct hwio_record *record)
{
	hwio_record_cut(record->low, record->high);
	if (!hwio_records_have_room(4))
		return false;
	hwio_pages_add_source(&reads);
	hwio_record_add(record);
	hwio_records_note();
	return true;
}

bool hwio_read_whole(int descriptor, void *memory, size_t bytes, off_t offset)
{
	while (bytes > 0) {
		ssize_t got = hwio_libc.pread(descriptor, memory,
			bytes < HWIO_CALL_BYTES_MAX ? bytes : HWIO_CALL_BYTES_MAX, offset);
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

bool hwio_write_whole(int descriptor, const void *memory, size_t bytes, off_t offset)
{
	while (bytes > 0) {
		ssize_t written = hwio_libc.pwrite(descriptor, memory, bytes, offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written == 0)
			errno = EIO;
		if (written <= 0)
			return false;
		memory = (const char *)memory + written;
		bytes -= (size_t)written;
		offset += written;
	}
	return true;
}

static bool add(uintptr_t low, uintptr_t high, enum hwio_state state, struct hwio_file *file, off_t offset,
	struct hwio_context *context)
{
	struct hwio_record record = {.low = low,
		.high = high,
		.state = state,
		.file = file,
		.offset = offset,
		.context = context,
		.operation = hwio_context_operation(context)};
	return low == high || hwio_record_add(&record);
}

bool hwio_defer(void *memory, size_t bytes, struct hwio_file *file, off_t offset, struct hwio_context *context)
{
	uintptr_t start = (uintptr_t)memory, end = start + bytes;
	uintptr_t low = hwio_page_up(start), high = hwio_page_down(end);
	if (!hwio_records_have_room(4))
		return false;
	if (low >= high) {
		/* No whole page belongs to it: it is read at once, and recorded as a copy. */
		bool is_read = hwio_read_whole(file->descriptor, memory, bytes, offset) &&
			add(start, end, HWIO_PEEKED, file, offset, context);
		hwio_records_note();
		return is_read;
	}
	/* Pages that this read fills only in part are never protected: MPI may be receiving beside it. */
	if (!hwio_read_whole(file->descriptor, memory, low - start, offset) ||
		!hwio_read_whole(file->descriptor, (void *)high, end - high, offset + (off_t)(high - start)))
		return false;
	if (!hwio_file_lease(file))
		return false;
	hwio_pages_add_source(&reads);
	add(start, low, HWIO_PEEKED, file, offset, context);
	add(low, high, HWIO_DEFERRED, file, offset + (off_t)(low - start), context);
	add(high, end, HWIO_PEEKED, file, offset + (off_t)(high - start), context);
	bool is_deferred = hwio_pages_settle(low, high);
	if (!is_deferred)
		hwio_record_cut(start, end);
	hwio_records_note();
	return is_deferred;
}

/* The file can't be read any more. As for a mapped file that was truncated, that is SIGBUS. */
static void raise_bus_error(const struct hwio_file *file)
{
	hwio_log("%s can't be read any more (%s): a read of it had been deferred; --io off avoids that",
		file->path[0] ? file->path : "a file without a name", strerror(errno));
	raise(SIGBUS);
}

static void warn_if_changed(struct hwio_file *file)
{
	static bool has_warned;
	if (has_warned || hwio_file_is_unchanged(file))
		return;
	has_warned = true;
	hwio_log("%s was changed while a read of it was deferred; the program sees its present content",
		file->path[0] ? file->path : "a file without a name");
}

void hwio_deferred_check(struct hwio_file *file, bool is_read)
{
	warn_if_changed(file);
	if (!is_read)
		raise_bus_error(file);
}

/* Returns true if pages must be filled while protected: other threads must not see a page half filled. */
static bool must_stay_protected(void)
{
	return hwio_is_threaded() || hwio_lease_is_thread();
}

static void read_record(const struct hwio_record *part)
{
	size_t bytes = part->high - part->low;
	bool is_good = must_stay_protected()
		? hwio_memory_map_fill(part->low, part->high, part->file->descriptor, part->offset)
		: hwio_read_whole(part->file->descriptor, (void *)part->low, bytes, part->offset);
	if (!is_good)
		raise_bus_error(part->file);
}

/* Fills all that is deferred in these pages. The bytes are then recorded as a copy of the file. */
static void fill_pages(uintptr_t low, uintptr_t high)
{
	if (!must_stay_protected())
		hwio_pages_open(low, high);
	const struct hwio_record *record;
	for (uintptr_t at = low; (record = first_deferred(at, high));) {
		struct hwio_record part = *record;
		uintptr_t from = hwio_most(part.low, low), to = hwio_least(part.high, high);
		at = to;
		part.offset += (off_t)(from - part.low);
		part.low = from;
		part.high = to;
		hwio_file_retain(part.file);
		warn_if_changed(part.file);
		read_record(&part);
		hwio_record_cut(from, to);
		part.state = HWIO_PEEKED;
		hwio_record_add(&part);
		hwio_file_release(part.file);
		hwio_context_touched(part.context, part.operation);
	}
	hwio_pages_settle(low, high);
	hwio_records_note();
}

/* Fills the pages of the range in which anything is deferred. With a full table, whole records are filled: the rest of
 * a cut record would be lost. */
static void fill_within(uintptr_t low, uintptr_t high)
{
	const struct hwio_record *record;
	for (uintptr_t at = low; (record = first_deferred(at, high));) {
		bool is_full = !hwio_records_have_room(4);
		uintptr_t from = is_full ? record->low : hwio_most(record->low, low);
		uintptr_t to = is_full ? record->high : hwio_least(record->high, high);
		at = to;
		fill_pages(hwio_page_down(from), hwio_page_up(to));
	}
}

void hwio_deferred_set_writers(const struct hwio_writers *of)
{
	writers = of;
}

static bool is_being_written(void)
{
	return writers && writers->is_any();
}

void hwio_deferred_read(const struct hwio_record *record)
{
	uintptr_t low = hwio_page_down(record->low), high = hwio_page_up(record->high);
	if (is_being_written())
		writers->wait();
	hwio_enter();
	if (!must_stay_protected())
		hwio_pages_open(low, high);
	read_record(record);
	hwio_pages_settle(low, high);
	hwio_leave();
}

bool hwio_deferred_awaits_writes(uintptr_t low, uintptr_t high)
{
	return is_being_written() && hwio_deferred_in(low, high);
}

void hwio_deferred_await_writes(void)
{
	writers->wait();
}

/* Completes other ranks' writes before a file is read. That takes messages, so it isn't done under the lock, nor by a
 * signal's handler. */
static void wait_for_writes(uintptr_t low, uintptr_t high)
{
	if (!hwio_is_inside() && hwio_deferred_awaits_writes(low, high))
		writers->wait();
}

static void fill_range(uintptr_t low, uintptr_t high)
{
	wait_for_writes(low, high);
	hwio_enter();
	fill_within(low, high);
	hwio_leave();
}

void hwio_memory_in(const void *memory, size_t bytes)
{
	uintptr_t low = hwio_page_down((uintptr_t)memory), high = hwio_page_up((uintptr_t)memory + bytes);
	if (hwio_may_be_recorded(low, high) && bytes > 0)
		fill_range(low, high);
}

void hwio_memory_in_loosely(const void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	if (hwio_may_be_recorded(low, high) && bytes > 0)
		fill_range(low, high);
}

bool hwio_deferred_in(uintptr_t low, uintptr_t high)
{
	hwio_enter();
	bool is_any = first_deferred(low, high) != NULL;
	hwio_leave();
	return is_any;
}

static void discard_range(uintptr_t low, uintptr_t high)
{
	hwio_record_cut(low, high);
	hwio_pages_settle(low, high);
	hwio_records_note();
}

void hwio_memory_out(void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	uintptr_t first = hwio_page_down(low), last = hwio_page_up(high);
	if (!hwio_may_be_recorded(first, last) || bytes == 0)
		return;
	/* The rest of pages that are overwritten in part is filled. */
	if (low != first)
		wait_for_writes(first, hwio_page_up(low));
	if (high != last)
		wait_for_writes(hwio_page_down(high), last);
	hwio_enter();
	if (low != first)
		fill_within(first, hwio_page_up(low));
	if (high != last)
		fill_within(hwio_page_down(high), last);
	discard_range(low, high);
	hwio_leave();
}

void hwio_deferred_fill_partial(void)
{
	/* Filling a record may join and split others, so the search restarts. */
	for (uintptr_t at = 0;;) {
		hwio_enter();
		const struct hwio_record *record = first_deferred(at, UINTPTR_MAX);
		uintptr_t low = record ? hwio_most(record->low, at) : 0, high = record ? record->high : 0;
		hwio_leave();
		if (!record)
			return;
		if (low != hwio_page_down(low))
			hwio_memory_in((void *)low, 1);
		if (high != hwio_page_down(high))
			hwio_memory_in((void *)(high - 1), 1);
		at = high;
	}
}

/* Returns the end of the deferred pages from a record on, before the limit. Reads that follow each other have a page
 * between them that neither fills alone, and that isn't protected. */
static uintptr_t end_of_deferred(const struct hwio_record *record, uintptr_t limit)
{
	uintptr_t end = hwio_page_up(record->high);
	const struct hwio_record *next;
	for (size_t index = hwio_record_find(record->high);
		end < limit && (next = hwio_record_at(index)) && next->low <= end + hwio_page_bytes; index++)
		if (next->state == HWIO_DEFERRED)
			end = hwio_page_up(next->high);
	return hwio_least(end, limit);
}

bool hwio_deferred_touch(uintptr_t address)
{
	uintptr_t page = hwio_page_down(address);
	const struct hwio_record *record = first_deferred(page, page + hwio_page_bytes);
	if (!record)
		return false;
	bool does_continue = page >= last_filled && page - last_filled <= hwio_page_bytes;
	window_bytes = does_continue ? hwio_least(window_bytes * 2, WINDOW_BYTES_MAX) : WINDOW_BYTES_MIN;
	uintptr_t end = end_of_deferred(record, page + window_bytes);
	struct hwio_range whole;
	/* Opening scattered parts must not make too many ranges. */
	if (hwio_pages_count() > HWIO_CLOSED_MAX && hwio_pages_find(address, &whole)) {
		page = whole.low;
		end = whole.high;
	}
	last_filled = end;
	hwio_left_accessed(end - page);
	fill_pages(page, end);
	return true;
}

/* Returns true if the record is of this part of the file. */
static bool is_in_range(const struct hwio_record *record, const struct hwio_file *file, off_t low, off_t high)
{
	off_t end = record->offset + (off_t)(record->high - record->low);
	return record->file->identity.device == file->identity.device &&
		record->file->identity.inode == file->identity.inode && record->offset < high && end > low;
}

static bool is_any_deferred_of(const struct hwio_file *file, off_t low, off_t high)
{
	bool is_any = false;
	hwio_enter();
	for (size_t index = 0; hwio_record_at(index) && !is_any; index++)
		is_any = hwio_record_at(index)->state == HWIO_DEFERRED &&
			is_in_range(hwio_record_at(index), file, low, high);
	hwio_leave();
	return is_any;
}

void hwio_deferred_fill_now(const struct hwio_file *file, off_t low, off_t high)
{
	hwio_enter();
	for (size_t index = 0; hwio_record_at(index); index++) {
		struct hwio_record *record = hwio_record_at(index);
		if (!is_in_range(record, file, low, high))
			continue;
		uintptr_t from = record->low, to = record->high;
		if (record->state == HWIO_DEFERRED)
			fill_within(hwio_page_down(from), hwio_page_up(to));
		/* The bytes in memory can no longer be compared with the file. */
		hwio_record_cut(from, to);
		index = hwio_record_find(from) - 1;
	}
	hwio_records_note();
	hwio_leave();
}

void hwio_deferred_fill_file(const struct hwio_file *file, off_t low, off_t high)
{
	/* Not under the lock: waiting takes messages. */
	if (is_being_written() && !hwio_is_inside() && is_any_deferred_of(file, low, high))
		writers->wait();
	hwio_deferred_fill_now(file, low, high);
}

void hwio_deferred_fill_all(void)
{
	if (hwio_record_count() > 0)
		hwio_memory_in((void *)hwio_records_low, hwio_records_high - hwio_records_low);
}
