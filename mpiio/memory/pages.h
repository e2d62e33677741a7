/* Protected pages: those with bytes that a deferred read or a message still owes. No other part of the library
 * changes the protection of memory.
 *
 * Each source reports the ranges that it owes. After a change, hwio_pages_settle makes the pages' protection agree:
 * a page with nothing owed is opened. MPI, or the library itself, is admitted for a while to pages that are still
 * owed. hwio_pages_dismiss protects them again, at the latest where the thread's outermost call into the library
 * ends. */
#ifndef HWIO_PAGES_H
#define HWIO_PAGES_H

#include "base/engine.h"

/* Maximum of protected ranges: the kernel limits mappings, and opening a part splits a range. */
#define HWIO_CLOSED_MAX 16384

struct hwio_source {
	/* Finds the lowest whole pages between the two with bytes that the source owes, cut to them. Called with the
	 * lock held. */
	bool (*find)(uintptr_t low, uintptr_t high, struct hwio_range *owed);
	/* Fetches what the source owes in the range, whose pages can't be protected. Called without the lock. */
	void (*complete)(uintptr_t low, uintptr_t high);
	/* Of a source that other ranks have to fill: whether this page is protected for it; opens all pages that are
	 * protected with this one; fetches what the page lacks. Only the last sends messages. NULL for other sources. */
	bool (*protects)(uintptr_t address);
	void (*expose)(uintptr_t address);
	void (*fetch)(uintptr_t address);
};

/* Adds a source, once. */
void hwio_pages_add_source(const struct hwio_source *source);
/* Makes the protection of the range's pages agree with what is owed. False: they can't be protected, and are as
 * before. */
bool hwio_pages_settle(uintptr_t low, uintptr_t high);
/* Opens pages that the caller is about to fill, under the lock; hwio_pages_settle follows. */
void hwio_pages_open(uintptr_t low, uintptr_t high);
/* Opens the protected pages of the range for the calling thread, whatever is owed there. hwio_pages_dismiss, called
 * with the returned value, ends that. With several threads nothing is opened: memory must be filled before it is
 * used. */
size_t hwio_pages_admit(uintptr_t low, uintptr_t high);
void hwio_pages_dismiss(size_t admitted);
/* Return whether other ranks have to fill the page of this address; open the pages that are protected with it, whatever
 * is owed there, until the thread's outermost call ends; and fetch what it lacks, by messages to other ranks. */
bool hwio_pages_need_messages(uintptr_t address);
void hwio_pages_expose(uintptr_t address);
void hwio_pages_fetch(uintptr_t address);
/* Returns whether all these pages are protected by this table, not by the program. */
bool hwio_pages_are_protected(uintptr_t low, uintptr_t high);
/* Finds the range of protected pages that has the address. */
bool hwio_pages_find(uintptr_t address, struct hwio_range *closed);
/* Returns the number of protected ranges. */
size_t hwio_pages_count(void);

#endif
