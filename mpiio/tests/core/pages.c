/* The protection of pages against what is owed there. Parts share pages, lie within each other or side by side,
 * complete in any order, and are admitted and dismissed as calls nest. Then the same with the real sources: the ends of
 * messages that lie between others, and reads beside them. */
#include "memory/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/file.h"
#include "memory/deferred.h"
#include "memory/memory_map.h"
#include "memory/records.h"
#include "transfer/incoming.h"
#include "random.h"
#include "real.h"

#define PAGES 40
#define BYTES (PAGES * hwio_page_bytes)
#define PARTS 12
#define ROUNDS 3000
#define NESTED_MAX 4

static char *region;
/* The owed ranges of bytes, by two owners. */
static struct hwio_range parts[2][PARTS];
static size_t completed;

static bool is_owed_by(int owner, uintptr_t page)
{
	for (int i = 0; i < PARTS; i++)
		if (hwio_page_down(parts[owner][i].low) <= page && page < parts[owner][i].high)
			return true;
	return false;
}

static bool find(int owner, uintptr_t low, uintptr_t high, struct hwio_range *owed)
{
	CHECK(low % hwio_page_bytes == 0 && high % hwio_page_bytes == 0 && low < high);
	for (uintptr_t page = low; page < high; page += hwio_page_bytes) {
		if (!is_owed_by(owner, page))
			continue;
		*owed = (struct hwio_range){page, page + hwio_page_bytes};
		return true;
	}
	return false;
}

static bool find_first(uintptr_t low, uintptr_t high, struct hwio_range *owed)
{
	return find(0, low, high, owed);
}

static bool find_second(uintptr_t low, uintptr_t high, struct hwio_range *owed)
{
	return find(1, low, high, owed);
}

static void complete(uintptr_t low, uintptr_t high)
{
	for (int owner = 0; owner < 2; owner++)
		for (int i = 0; i < PARTS; i++)
			if (parts[owner][i].low < high && parts[owner][i].high > low) {
				uintptr_t from = parts[owner][i].low, to = parts[owner][i].high;
				parts[owner][i] = (struct hwio_range){0, 0};
				hwio_pages_settle(from, to);
				completed++;
			}
}

static const struct hwio_source first = {.find = find_first, .complete = complete},
				second = {.find = find_second, .complete = complete};

static struct hwio_range nested[NESTED_MAX];
static size_t marks[NESTED_MAX], depth;

static bool is_admitted(uintptr_t page)
{
	for (size_t i = 0; i < depth; i++)
		if (hwio_page_down(nested[i].low) <= page && page < nested[i].high)
			return true;
	return false;
}

static void compare(void)
{
	for (size_t i = 0; i < PAGES; i++) {
		uintptr_t page = (uintptr_t)region + i * hwio_page_bytes;
		bool is_owed = is_owed_by(0, page) || is_owed_by(1, page);
		struct hwio_range closed;
		bool is_open = hwio_memory_map_page_is_open(page);
		CHECK(is_open == (!is_owed || is_admitted(page)));
		CHECK(hwio_pages_find(page + 5, &closed) == !is_open);
		CHECK(is_open || (closed.low <= page && closed.high > page));
	}
}

static struct hwio_range some(void)
{
	size_t low = random_below(BYTES), bytes = 1 + random_below(random_below(2) ? 3 * hwio_page_bytes : BYTES / 2);
	if (low + bytes > BYTES)
		bytes = BYTES - low;
	return (struct hwio_range){(uintptr_t)region + low, (uintptr_t)region + low + bytes};
}

static int refuse(void *address, size_t bytes, int protection)
{
	if (protection != PROT_NONE)
		return mprotect(address, bytes, protection);
	/* As the kernel does, it may have done a part. */
	if (bytes > hwio_page_bytes && random_below(2))
		CHECK(mprotect(address, bytes / 2 / hwio_page_bytes * hwio_page_bytes, PROT_NONE) == 0);
	errno = ENOMEM;
	return -1;
}

static void owe(void)
{
	struct hwio_range *part = &parts[random_below(2)][random_below(PARTS)], before = *part, one = some();
	part->low = part->high = 0;
	hwio_pages_settle(before.low, before.high);
	*part = one;
	bool is_refused = random_below(8) == 0;
	if (is_refused)
		hwio_libc.mprotect = refuse;
	bool is_good = hwio_pages_settle(one.low, one.high);
	hwio_libc.mprotect = mprotect;
	CHECK(is_good || is_refused);
	if (!is_good) {
		part->low = part->high = 0;
		hwio_pages_settle(one.low, one.high);
	}
}

static void nest(void)
{
	if (depth == NESTED_MAX)
		return;
	struct hwio_range one = some(), closed = {0, 0};
	bool is_any = false;
	for (uintptr_t page = hwio_page_down(one.low); page < one.high; page += hwio_page_bytes)
		is_any |= hwio_pages_find(page, &closed);
	marks[depth] = hwio_pages_admit(one.low, one.high);
	/* If nothing was protected, nothing is admitted. */
	nested[depth++] = is_any ? one : (struct hwio_range){0, 0};
}

static void leave(void)
{
	if (depth == 0)
		return;
	depth--;
	bool is_refused = random_below(8) == 0;
	if (is_refused)
		hwio_libc.mprotect = refuse;
	hwio_pages_dismiss(marks[depth]);
	hwio_libc.mprotect = mprotect;
}

static void compare_random(void)
{
	hwio_pages_add_source(&first);
	hwio_pages_add_source(&second);
	for (round_number = 0; round_number < ROUNDS; round_number++) {
		size_t what = random_below(10);
		struct hwio_range one = some();
		if (what < 4)
			owe();
		else if (what < 6)
			complete(one.low, one.high);
		else if (what < 8)
			nest();
		else if (what < 9)
			leave();
		else
			hwio_pages_settle(one.low, one.high);
		compare();
	}
	CHECK(completed > 0);
	depth = 0;
	hwio_reprotect();
	compare();
	complete(0, UINTPTR_MAX);
	compare();
	CHECK(hwio_pages_count() == 0);
}

/* Rows of a block in a matrix, whose first byte is at `at`. */
static void expect(size_t at, size_t rows, size_t row_bytes, size_t stride, char byte)
{
	static char ends[2 * HWIO_PAGE_BYTES_MAX];
	static uint64_t id;
	struct hwio_layout layout = {.buffer = region, .bytes = rows * row_bytes, .count = rows};
	layout.blocks = calloc(rows, sizeof(*layout.blocks));
	CHECK(layout.blocks);
	for (size_t row = 0; row < rows; row++)
		layout.blocks[row] = (struct hwio_block){(intptr_t)(at + row * stride), row_bytes};
	layout.low = (uintptr_t)region + at;
	layout.high = layout.low + (rows - 1) * stride + row_bytes;
	memset(ends, byte, sizeof(ends));
	hwio_incoming_defer(++id, 1, &layout, ends, NULL);
}

static bool is_pending_at(uintptr_t page)
{
	for (const struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (one->low <= page && page < one->high)
			return true;
	return false;
}

static void check_pending(void)
{
	for (size_t i = 0; i < PAGES; i++) {
		uintptr_t page = (uintptr_t)region + i * hwio_page_bytes;
		bool is_owed = is_pending_at(page) || hwio_deferred_in(page, page + hwio_page_bytes);
		CHECK(hwio_memory_map_page_is_open(page) == !is_owed);
	}
}

/* The second block's first bytes are present between rows of the first one, and a read ends between them. */
static void compare_messages(void)
{
	size_t row_bytes = hwio_page_bytes * (1 + random_below(2)) + random_below(3) * 100, stride = 2 * row_bytes;
	size_t rows = 4 + random_below(3);
	expect(0, rows, row_bytes, stride, 'a');
	check_pending();
	expect(row_bytes, rows, row_bytes, stride, 'b');
	check_pending();
	CHECK(!hwio_is_exposed);
	char path[] = "/tmp/headwater-test-XXXXXX";
	int made = mkstemp(path);
	CHECK(made >= 0 && unlink(path) == 0 && ftruncate(made, BYTES) == 0);
	struct stat status;
	CHECK(fstat(made, &status) == 0);
	hwio_enter();
	struct hwio_file *file = hwio_file_of(made, &status);
	uintptr_t page = hwio_page_up((uintptr_t)region + random_below(BYTES / 2));
	struct hwio_record record = {
		.low = page + 100, .high = page + 2 * hwio_page_bytes - 7, .state = HWIO_DEFERRED, .file = file};
	hwio_deferred_add(&record);
	CHECK(file && hwio_pages_settle(record.low, record.high));
	hwio_leave();
	check_pending();
	/* Nothing is owed of one of them any more. */
	struct hwio_transfer *one = random_below(2) ? hwio_incoming_list : hwio_incoming_list->next, *other;
	hwio_incoming_unlink(one);
	hwio_pages_settle(one->low, one->high);
	check_pending();
	hwio_memory_in_loosely((void *)record.low, 1);
	check_pending();
	other = hwio_incoming_list;
	hwio_incoming_unlink(other);
	hwio_pages_settle(other->low, other->high);
	hwio_memory_out(region, BYTES);
	check_pending();
	hwio_incoming_free(one);
	hwio_incoming_free(other);
	hwio_enter();
	hwio_file_release(file);
	hwio_leave();
	close(made);
	CHECK(hwio_pages_count() == 0 && hwio_record_count() == 0);
}

int main(void)
{
	random_start();
	hwio_file_start();
	region = map_pages(PAGES);
	compare_random();
	for (round_number = 0; round_number < 200; round_number++)
		compare_messages();
	return 0;
}
