/*
 * Which memory is a copy of which part of a file, or would be if the program's read had been carried out.
 *
 * A record is DEFERRED while its pages, which are whole ones, are protected and hold nothing; PEEKED when the bytes are
 * in memory, where the program may have changed them; OBSERVED when nothing was done but noting. Records don't overlap,
 * and are in the order of their addresses. Source: Natvig, Elster and Meyer, §II and §III.A.
 */
#ifndef HW_RECORDS_H
#define HW_RECORDS_H

#include "../engine.h"
#include "../files/file.h"

struct hw_context;

enum hw_state { HW_DEFERRED, HW_PEEKED, HW_OBSERVED };

struct hw_record {
	uintptr_t low, high;
	enum hw_state state;
	struct hw_file *file;
	off_t offset;
	struct hw_context *context;
	/* Which of the context's operations made it. */
	uint32_t operation;
};

#define HW_RECORDS_MAX 65536

/* Bounds of all records; nothing is recorded outside. */
extern uintptr_t hw_records_low, hw_records_high;

static inline bool hw_may_be_recorded(uintptr_t low, uintptr_t high)
{
	return low < hw_records_high && high > hw_records_low;
}

size_t hw_record_count(void);
/* The first record that ends above the address, or the count. */
size_t hw_record_find(uintptr_t address);
struct hw_record *hw_record_at(size_t index);
/* Adds one to where nothing is recorded; joins it with its neighbours where they go on. False: the table is full. */
bool hw_record_add(const struct hw_record *record);
/* Forgets what lies in the range; protection is the caller's business. */
void hw_record_cut(uintptr_t low, uintptr_t high);
bool hw_records_any(enum hw_state state);

#endif
