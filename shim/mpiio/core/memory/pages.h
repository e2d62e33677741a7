/* Protected pages: those with bytes that a deferred read or a message still owes. No other part of the library
 * changes the protection of memory.
 *
 * Each source reports the ranges that it owes. After a change, hwio_pages_settle makes the pages' protection agree:
 * a page with nothing owed is opened. MPI, or the library itself, is admitted for a while to pages that are still
 * owed. hwio_pages_dismiss protects them again, at the latest where the thread's outermost call into the library
 * ends. */
#ifndef HWIO_PAGES_H
#define HWIO_PAGES_H

#include "../engine.h"

struct hwio_range {
	uintptr_t low, high;
};

/* More ranges than this are never protected: the kernel has a bound on mappings, and opening a part makes two of
 * one. */
#define HWIO_CLOSED_MAX 16384

struct hwio_source {
	/* The lowest whole pages between these two pages of which it owes anything, cut to them. Called with the
	 * lock held. */
	bool (*find)(uintptr_t low, uintptr_t high, struct hwio_range *owed);
	/* Brings what it owes in the range: its pages can't be protected. Called without the lock. */
	void (*complete)(uintptr_t low, uintptr_t high);
};

/* Adds a source, once. */
void hwio_pages_add_source(const struct hwio_source *source);
/* Makes the protection of the range's pages what it is to be. False: they can't be protected; none is that wasn't. */
bool hwio_pages_settle(uintptr_t low, uintptr_t high);
/* Opens pages while the caller holds the lock, and is about to fill them; hwio_pages_settle follows. */
void hwio_pages_open(uintptr_t low, uintptr_t high);
/*
 * Opens the protected pages of the range for the calling thread, whatever is owed there, until hwio_pages_dismiss
 * is called with what this returns. With more threads nothing is opened: what is to be used must be filled before.
 */
size_t hwio_pages_admit(uintptr_t low, uintptr_t high);
void hwio_pages_dismiss(size_t admitted);
/* The range of protected pages that the address is in. */
bool hwio_pages_find(uintptr_t address, struct hwio_range *closed);
/* How many ranges are protected. */
size_t hwio_pages_count(void);

#endif
