/* Two tables: the protected ranges, in the order of their addresses, and a stack of admitted ranges. */
#include "memory/pages.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/memory_map.h"
#include "real.h"

#define SOURCES_MAX 4
#define ADMITTED_MAX 32
/* Opening parts may split each of the protected ranges. */
#define TABLE_MAX (64UL * HWIO_CLOSED_MAX)

static const struct hwio_source *sources[SOURCES_MAX];
static size_t source_count;

static struct hwio_range *closed;
static size_t closed_count;

static struct hwio_range admitted[ADMITTED_MAX];
static size_t admitted_count;

void hwio_pages_add_source(const struct hwio_source *source)
{
	for (size_t i = 0; i < source_count; i++)
		if (sources[i] == source)
			return;
	if (source_count < SOURCES_MAX)
		sources[source_count++] = source;
}

static struct hwio_range whole_pages(uintptr_t low, uintptr_t high)
{
	/* The last page's end is no address. */
	uintptr_t bound = hwio_page_down(UINTPTR_MAX);
	return (struct hwio_range){hwio_page_down(low), high > bound ? bound : hwio_page_up(high)};
}

/* Returns the index of the first protected range that ends above the address, or the count. */
static size_t find_closed(uintptr_t address)
{
	size_t low = 0, high = closed_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (closed[middle].high <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_any_closed(uintptr_t low, uintptr_t high)
{
	size_t index = find_closed(low);
	return index < closed_count && closed[index].low < high;
}

/* Replaces the ranges from `first` up to `end`. */
static void replace(size_t first, size_t end, const struct hwio_range *ranges, size_t count)
{
	memmove(&closed[first + count], &closed[end], (closed_count - end) * sizeof(*closed));
	memcpy(&closed[first], ranges, count * sizeof(*ranges));
	closed_count = closed_count - (end - first) + count;
}

/* Records the range as protected, merged with ranges that it touches. */
static void note_closed(uintptr_t low, uintptr_t high)
{
	size_t first = low == 0 ? 0 : find_closed(low - 1), end = first;
	struct hwio_range one = {low, high};
	while (end < closed_count && closed[end].low <= high) {
		one.low = hwio_least(one.low, closed[end].low);
		one.high = hwio_most(one.high, closed[end].high);
		end++;
	}
	replace(first, end, &one, 1);
}

static bool protect_pages(uintptr_t low, uintptr_t high, int protection)
{
	assert(low < high && (low | high) % hwio_page_bytes == 0);
	return hwio_libc.mprotect((void *)low, high - low, protection) == 0;
}

/* Reserves the table's memory at once, since a fault never allocates. */
static bool reserve_pages(void)
{
	if (!closed) {
		void *memory = hwio_libc.mmap(NULL, TABLE_MAX * sizeof(*closed), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		closed = memory == MAP_FAILED ? NULL : memory;
	}
	return closed != NULL;
}

void hwio_pages_open(uintptr_t low, uintptr_t high)
{
	/* An empty range would split the one that has it. */
	for (size_t index = find_closed(low); low < high && index < closed_count && closed[index].low < high;) {
		struct hwio_range one = closed[index], rest[2];
		uintptr_t from = hwio_most(one.low, low), to = hwio_least(one.high, high);
		size_t count = 0;
		if (closed_count == TABLE_MAX || !protect_pages(from, to, PROT_READ | PROT_WRITE)) {
			hwio_log("protected memory can't be opened again: %m");
			raise(SIGBUS);
			return;
		}
		if (one.low < from)
			rest[count++] = (struct hwio_range){one.low, from};
		if (to < one.high)
			rest[count++] = (struct hwio_range){to, one.high};
		replace(index, index + 1, rest, count);
		index += count;
	}
}

/* Protects pages that aren't admitted. False: the kernel refuses, and the range is as before. */
static bool close_pages(uintptr_t low, uintptr_t high)
{
	if (low >= high)
		return true;
	for (size_t i = 0; i < admitted_count; i++)
		if (admitted[i].low < high && admitted[i].high > low) {
			bool is_good = close_pages(low, admitted[i].low);
			return close_pages(admitted[i].high, high) && is_good;
		}
	size_t index = find_closed(low);
	if (index < closed_count && closed[index].low <= low && closed[index].high >= high)
		return true;
	if (!reserve_pages() || closed_count >= HWIO_CLOSED_MAX)
		return false;
	if (protect_pages(low, high, PROT_NONE)) {
		note_closed(low, high);
		return true;
	}
	/* mprotect may have protected a part. */
	for (; low < high; index++) {
		uintptr_t end = index < closed_count ? hwio_least(hwio_most(closed[index].low, low), high) : high;
		if (low < end)
			protect_pages(low, end, PROT_READ | PROT_WRITE);
		low = index < closed_count ? hwio_most(closed[index].high, end) : high;
	}
	return false;
}

/* Finds the lowest pages with bytes owed, and all that follow without a gap; unchanged if there are none. */
static void next_owed(uintptr_t low, uintptr_t high, struct hwio_range *owed)
{
	struct hwio_range one;
	bool is_any = false;
	for (size_t i = 0; i < source_count; i++)
		if (sources[i]->find(low, high, &one) && (!is_any || one.low < owed->low)) {
			*owed = one;
			is_any = true;
		}
	for (bool does_continue = is_any; does_continue && owed->high < high;) {
		does_continue = false;
		for (size_t i = 0; i < source_count; i++)
			if (owed->high < high && sources[i]->find(owed->high, high, &one) && one.low == owed->high) {
				owed->high = one.high;
				does_continue = true;
			}
	}
}

bool hwio_pages_settle(uintptr_t low, uintptr_t high)
{
	struct hwio_range range = whole_pages(low, high);
	bool is_good = true;
	hwio_enter();
	for (uintptr_t at = range.low; at < range.high;) {
		struct hwio_range owed = {range.high, range.high};
		next_owed(at, range.high, &owed);
		hwio_pages_open(at, owed.low);
		is_good = close_pages(owed.low, owed.high) && is_good;
		at = owed.high;
	}
	hwio_leave();
	return is_good;
}

static void protect_admitted(void)
{
	hwio_pages_dismiss(0);
}

size_t hwio_pages_admit(uintptr_t low, uintptr_t high)
{
	struct hwio_range range = whole_pages(low, high);
	hwio_enter();
	size_t before = admitted_count;
	if (!hwio_is_threaded() && is_any_closed(range.low, range.high)) {
		/* If the stack is full, the last entry covers the ranges between, too. Pages without owed bytes are
		 * never protected. */
		if (admitted_count == ADMITTED_MAX) {
			struct hwio_range *last = &admitted[ADMITTED_MAX - 1];
			*last = (struct hwio_range){
				hwio_least(last->low, range.low), hwio_most(last->high, range.high)};
		} else {
			admitted[admitted_count++] = range;
		}
		hwio_pages_open(range.low, range.high);
		hwio_expose(protect_admitted);
	}
	hwio_leave();
	return before;
}

static void complete_sources(uintptr_t low, uintptr_t high)
{
	for (size_t i = 0; i < source_count; i++)
		sources[i]->complete(low, high);
}

void hwio_pages_dismiss(size_t wanted)
{
	while (admitted_count > wanted) {
		hwio_enter();
		struct hwio_range range = admitted[--admitted_count];
		bool is_good = hwio_pages_settle(range.low, range.high);
		hwio_leave();
		if (!is_good)
			complete_sources(range.low, range.high);
	}
	hwio_is_exposed = admitted_count > 0;
}

bool hwio_pages_need_messages(uintptr_t address)
{
	for (size_t i = 0; i < source_count; i++)
		if (sources[i]->protects && sources[i]->protects(address))
			return true;
	return false;
}

void hwio_pages_expose(uintptr_t address)
{
	hwio_pages_admit(address, address + 1);
	for (size_t i = 0; i < source_count; i++)
		if (sources[i]->expose)
			sources[i]->expose(address);
}

void hwio_pages_fetch(uintptr_t address)
{
	for (size_t i = 0; i < source_count; i++)
		if (sources[i]->fetch)
			sources[i]->fetch(address);
}

bool hwio_pages_are_protected(uintptr_t low, uintptr_t high)
{
	size_t index = find_closed(low);
	return index < closed_count && closed[index].low <= low && closed[index].high >= high;
}

bool hwio_pages_find(uintptr_t address, struct hwio_range *found)
{
	hwio_enter();
	size_t index = find_closed(address);
	bool is_closed = index < closed_count && closed[index].low <= address;
	if (is_closed)
		*found = closed[index];
	hwio_leave();
	return is_closed;
}

size_t hwio_pages_count(void)
{
	return closed_count;
}
