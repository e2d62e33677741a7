/* The table of records: one sorted array, in memory that is reserved at once, so that a fault never allocates. */
#include "memory/records.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "real.h"

uintptr_t hwio_records_low = UINTPTR_MAX, hwio_records_high;

static struct hwio_record *table;
static size_t count;
static size_t count_by_state[HWIO_MAPPED + 1];

static bool reserve_records(void)
{
	if (table)
		return true;
	void *memory = hwio_libc.mmap(NULL, (HWIO_RECORDS_MAX + HWIO_CUT_MAX) * sizeof(*table), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	table = memory;
	return true;
}

bool hwio_records_have_room(size_t more)
{
	return count + more <= HWIO_RECORDS_MAX && reserve_records();
}

static void bound(void)
{
	hwio_records_low = count ? table[0].low : UINTPTR_MAX;
	hwio_records_high = count ? table[count - 1].high : 0;
}

size_t hwio_record_count(void)
{
	return count;
}

static bool has_records(void)
{
	return count > 0;
}

void hwio_records_note(void)
{
	hwio_note_busy(HWIO_PART_RECORDS, has_records);
}

size_t hwio_record_find(uintptr_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (table[middle].high <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct hwio_record *hwio_record_at(size_t index)
{
	return index < count ? &table[index] : NULL;
}

bool hwio_records_any(enum hwio_state state)
{
	return count_by_state[state] > 0;
}

/* Removes the records from `first` up to `end`. */
static void remove_between(size_t first, size_t end)
{
	for (size_t index = first; index < end; index++) {
		count_by_state[table[index].state]--;
		hwio_file_release(table[index].file);
	}
	memmove(&table[first], &table[end], (count - end) * sizeof(*table));
	count -= end - first;
}

static bool insert_at(size_t index, const struct hwio_record *record)
{
	if (!reserve_records() || count == HWIO_RECORDS_MAX)
		return false;
	memmove(&table[index + 1], &table[index], (count - index) * sizeof(*table));
	table[index] = *record;
	hwio_file_retain(record->file);
	count_by_state[record->state]++;
	count++;
	return true;
}

static bool does_continue(const struct hwio_record *first, const struct hwio_record *second)
{
	return first->high == second->low && first->state == second->state && first->file == second->file &&
		first->context == second->context &&
		first->offset + (off_t)(first->high - first->low) == second->offset;
}

bool hwio_record_add(const struct hwio_record *record)
{
	assert(record->low < record->high);
	size_t index = hwio_record_find(record->low);
	assert(index == count || table[index].low >= record->high);
	if (index > 0 && does_continue(&table[index - 1], record)) {
		struct hwio_record *before = &table[index - 1];
		before->high = record->high;
		before->operation = record->operation;
		if (index < count && does_continue(before, &table[index])) {
			before->high = table[index].high;
			remove_between(index, index + 1);
		}
	} else if (!insert_at(index, record)) {
		return false;
	}
	bound();
	return true;
}

/* A cut in progress: the records before `out` are done, those from `in` on are as they were. */
struct cut {
	size_t in, out;
};

/* Places a part of a record that is being cut: there is always space for the first. */
static void place_part(struct cut *cut, struct hwio_record part, uintptr_t low, uintptr_t high)
{
	if (cut->out + count - cut->in >= HWIO_RECORDS_MAX)
		return;
	if (cut->out == cut->in) {
		/* Space for this cut's further parts as well: each range splits one record. */
		memmove(&table[cut->in + HWIO_CUT_MAX], &table[cut->in], (count - cut->in) * sizeof(*table));
		cut->in += HWIO_CUT_MAX;
		count += HWIO_CUT_MAX;
	}
	part.offset += (off_t)(low - part.low);
	part.low = low;
	part.high = high;
	hwio_file_retain(part.file);
	count_by_state[part.state]++;
	table[cut->out++] = part;
}

/* Cuts one record. Returns the first range that may also lie in the next. */
static size_t cut_record(struct cut *cut, const struct hwio_range *ranges, size_t index, size_t range_count)
{
	struct hwio_record record = table[cut->in++];
	uintptr_t low = record.low;
	for (; index < range_count && ranges[index].low < record.high; index++) {
		if (low < ranges[index].low)
			place_part(cut, record, low, ranges[index].low);
		low = hwio_most(low, ranges[index].high);
		if (low >= record.high)
			break;
	}
	if (low < record.high)
		place_part(cut, record, low, record.high);
	count_by_state[record.state]--;
	hwio_file_release(record.file);
	return index;
}

void hwio_records_cut(const struct hwio_range *ranges, size_t range_count)
{
	assert(range_count <= HWIO_CUT_MAX);
	struct cut cut = {.in = hwio_record_find(ranges[0].low)};
	cut.out = cut.in;
	for (size_t index = 0; cut.in < count && table[cut.in].low < ranges[range_count - 1].high;)
		index = cut_record(&cut, ranges, index, range_count);
	if (cut.out < cut.in)
		memmove(&table[cut.out], &table[cut.in], (count - cut.in) * sizeof(*table));
	count -= cut.in - cut.out;
	bound();
}
