/*
 * Which memory is a copy of which part of a file, or would be if the program's read had been carried out.
 *
 * A record is DEFERRED while its pages, which are whole ones, are protected and hold nothing; PEEKED when the bytes are
 * in memory, where the program may have changed them; OBSERVED when nothing was done but noting. Records don't overlap,
 * and are in the order of their addresses. Source: Natvig, Elster and Meyer, §II and §III.A.
 */
#ifndef HWIO_RECORDS_H
#define HWIO_RECORDS_H

#include "../engine.h"
#include "../files/file.h"

struct hwio_context;

enum hwio_state { HWIO_DEFERRED, HWIO_PEEKED, HWIO_OBSERVED };

struct hwio_record {
	uintptr_t low, high;
	enum hwio_state state;
	struct hwio_file *file;
	off_t offset;
	struct hwio_context *context;
	/* Which of the context's operations made it. */
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
/* The first record that ends above the address, or the count. */
size_t hwio_record_find(uintptr_t address);
struct hwio_record *hwio_record_at(size_t index);
/* Adds one to where nothing is recorded; joins it with its neighbours where they go on. False: the table is full. */
bool hwio_record_add(const struct hwio_record *record);
/* Forgets what lies in the range; protection is the caller's business. */
void hwio_record_cut(uintptr_t low, uintptr_t high);
bool hwio_records_any(enum hwio_state state);

#endif
