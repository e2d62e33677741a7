/* The life of a deferred read, from its protection to its filling. */
#include "deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../context.h"
#include "private.h"
#include "real.h"

/* Around a touched page this much is filled at first; twice as much each time the program goes on behind it. */
#define WINDOW_BYTES_MIN (256UL << 10)
#define WINDOW_BYTES_MAX (64UL << 20)

static uintptr_t last_filled;
static size_t window_bytes = WINDOW_BYTES_MIN;

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
	if (low >= high || hw_record_count() + 4 > HW_RECORDS_MAX)
		return false;
	/* Pages that are not filled by this read alone are never protected: MPI may be receiving beside it. */
	if (!hw_read_whole(file->descriptor, memory, low - start, offset) ||
	    !hw_read_whole(file->descriptor, (void *)high, end - high, offset + (off_t)(high - start)))
		return false;
	if (!hw_file_lease(file) || hw_libc.mprotect((void *)low, high - low, PROT_NONE) != 0)
		return false;
	add(start, low, HW_PEEKED, file, offset, context);
	add(low, high, HW_DEFERRED, file, offset + (off_t)(low - start), context);
	add(high, end, HW_PEEKED, file, offset + (off_t)(high - start), context);
	hw_count_busy();
	return true;
}

/* What the program would have read can't be had any more. As with a mapped file that is cut, that is SIGBUS. */
static void fail(const struct hw_file *file)
{
	hw_say("%s can't be read any more (%s): a read of it had been put off; --io off avoids that",
	       file->path[0] ? file->path : "a file without a name", strerror(errno));
	raise(SIGBUS);
}

static void fill_pages(uintptr_t low, uintptr_t high, const struct hw_file *file, off_t offset)
{
	static bool has_warned;
	if (!has_warned && !hw_file_is_unchanged(file)) {
		has_warned = true;
		hw_say("%s was changed while a read of it was put off; the program sees its present content",
		       file->path[0] ? file->path : "a file without a name");
	}
	if (!hw_private_is_threaded()) {
		if (hw_libc.mprotect((void *)low, high - low, PROT_READ | PROT_WRITE) != 0)
			fail(file);
		if (!hw_read_whole(file->descriptor, (void *)low, high - low, offset))
			fail(file);
		return;
	}
	/* Another thread must not see pages that are not filled yet. */
	if (!hw_private_fill(low, high, file->descriptor, offset))
		fail(file);
	if (hw_libc.mprotect((void *)low, high - low, PROT_READ | PROT_WRITE) != 0)
		fail(file);
}

/* Fills a part of a deferred record; what is in memory then may still be used if it is unchanged. */
static void fill(size_t index, uintptr_t low, uintptr_t high)
{
	struct hw_record record = *hw_record_at(index);
	/* Cutting a hole needs a place for what remains behind it, and the kernel needs another mapping. */
	if (hw_record_count() + 2 > HW_RECORDS_MAX) {
		low = record.low;
		high = record.high;
	}
	off_t offset = record.offset + (off_t)(low - record.low);
	hw_file_keep(record.file);
	fill_pages(low, high, record.file, offset);
	hw_record_cut(low, high);
	add(low, high, HW_PEEKED, record.file, offset, record.context);
	hw_file_release(record.file);
	hw_context_touched(record.context, record.operation);
}

static uintptr_t least(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

static uintptr_t most(uintptr_t a, uintptr_t b)
{
	return a > b ? a : b;
}

void hw_memory_in(const void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	if (!hw_may_be_recorded(low, high))
		return;
	hw_enter();
	size_t index = hw_record_find(low);
	for (struct hw_record *record; (record = hw_record_at(index)) && record->low < high;) {
		uintptr_t from = most(record->low, hw_page_down(low)), to = least(record->high, hw_page_up(high));
		if (record->state == HW_DEFERRED) {
			fill(index, from, to);
			index = hw_record_find(to - 1);
		}
		index++;
	}
	hw_leave();
}

void hw_memory_out(void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	if (!hw_may_be_recorded(low, high) || low == high)
		return;
	hw_enter();
	/* Of pages that are overwritten in part the rest is filled. */
	struct hw_record *first = hw_record_at(hw_record_find(low));
	if (first && first->state == HW_DEFERRED && first->low < low && low != hw_page_down(low))
		hw_memory_in((void *)hw_page_down(low), HW_PAGE_BYTES);
	struct hw_record *last = hw_record_at(hw_record_find(high - 1));
	if (last && last->state == HW_DEFERRED && last->low < high && high != hw_page_down(high))
		hw_memory_in((void *)hw_page_down(high), HW_PAGE_BYTES);
	for (size_t index = hw_record_find(low); hw_record_at(index) && hw_record_at(index)->low < high; index++) {
		struct hw_record *record = hw_record_at(index);
		uintptr_t from = most(record->low, low), to = least(record->high, high);
		if (record->state == HW_DEFERRED && hw_libc.mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) != 0)
			hw_memory_in((void *)record->low, record->high - record->low);
	}
	hw_record_cut(low, high);
	hw_count_busy();
	hw_leave();
}

bool hw_deferred_touch(uintptr_t address)
{
	size_t index = hw_record_find(address);
	struct hw_record *record = hw_record_at(index);
	if (!record || record->low > address || record->state != HW_DEFERRED)
		return false;
	uintptr_t page = hw_page_down(address);
	window_bytes = page == last_filled ? least(window_bytes * 2, WINDOW_BYTES_MAX) : WINDOW_BYTES_MIN;
	uintptr_t end = least(record->high, page + window_bytes);
	fill(index, page, end);
	last_filled = end;
	return true;
}

void hw_deferred_fill_file(const struct hw_file *file, off_t low, off_t high)
{
	hw_enter();
	for (size_t index = 0; hw_record_at(index); index++) {
		struct hw_record *record = hw_record_at(index);
		off_t end = record->offset + (off_t)(record->high - record->low);
		bool is_of = record->file->identity.device == file->identity.device &&
			     record->file->identity.inode == file->identity.inode;
		if (!is_of || record->offset >= high || end <= low)
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
	hw_enter();
	if (hw_record_count() > 0)
		hw_memory_in((void *)hw_records_low, hw_records_high - hw_records_low);
	hw_leave();
}
