/* Records which memory is a copy of which part of a file, or would be if the program's read had been carried out.
 *
 * A record is DEFERRED while its pages, which are whole, are protected and empty; PEEKED when the bytes are in memory,
 * where the program may have changed them; OBSERVED when the read was only recorded; MAPPED while a call examines a
 * mapping of the file (mapped.h). Records don't overlap, and are in the order of their addresses. Source: Natvig, Elster
 * and Meyer, §II and §III.A. */
#ifndef HWIO_RECORDS_H
#define HWIO_RECORDS_H

#include "base/engine.h"
#include "memory/file.h"

struct hwio_context;

enum hwio_state { HWIO_DEFERRED, HWIO_PEEKED, HWIO_OBSERVED, HWIO_MAPPED };

struct hwio_record {
	uintptr_t low, high;
	enum hwio_state state;
	struct hwio_file *file;
	off_t offset;
	struct hwio_context *context;
	/* Number of the context's operation that made it. */
	uint32_t operation;
};

#define HWIO_RECORDS_MAX 65536

/* Bounds of all records; nothing is recorded outside. */
extern uintptr_t hwio_records_low, hwio_records_high;

static inline bool hwio_may_be_recorded(uintptr_t low, uintptr_t high)
{
	return low < hwio_records_high && high > hwio_records_low;
}

size_t hwio_record_count(void);
/* Returns whether so many more records can be added. The table is mapped by the first call, for which there may be no
 * room in the address space. */
bool hwio_records_have_room(size_t more);
/* Makes hwio_is_busy agree with the records, after changes. */
void hwio_records_note(void);
/* Returns the index of the first record that ends above the address, or the count. */
size_t hwio_record_find(uintptr_t address);
struct hwio_record *hwio_record_at(size_t index);
/* Adds a record where there is none; joins it with neighbours that it continues. False: the table is full. */
bool hwio_record_add(const struct hwio_record *record);
/* Maximum of ranges that are cut at once. */
#define HWIO_CUT_MAX 256
/* Removes the records of some ranges, which are in the order of their addresses; the caller settles the pages. In a full
 * table, what is left behind a range within a record is lost: where that matters, the caller checks the count. */
void hwio_records_cut(const struct hwio_range *ranges, size_t range_count);
/* The same for one range. */
static inline void hwio_record_cut(uintptr_t low, uintptr_t high)
{
	hwio_records_cut(&(struct hwio_range){low, high}, 1);
}
bool hwio_records_any(enum hwio_state state);

#endif
