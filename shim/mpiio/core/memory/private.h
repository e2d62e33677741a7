/* What memory may be protected: the process's own, that nobody else sees and no device uses. */
#ifndef HWIO_PRIVATE_H
#define HWIO_PRIVATE_H

#include "../engine.h"

/* Whether the range is private, writable memory and not a stack. */
bool hwio_private_is(const void *memory, size_t bytes);
/* Mappings have changed: what is known of them is looked up again. */
void hwio_private_forget(void);
/* The range is seen by others, as windows of one-sided communication are: it is left alone for good. */
void hwio_private_exclude(const void *memory, size_t bytes);
/* There is no memory any more: what comes there is other memory. */
void hwio_private_gone(uintptr_t low, uintptr_t high);
/* The program has made a thread. */
void hwio_private_threads_begin(void);
bool hwio_private_is_threaded(void);
/* Writes what a file has into protected pages. */
bool hwio_private_fill(uintptr_t low, uintptr_t high, int descriptor, off_t offset);
/* Whether the page can be read: another thread may have made it so. */
bool hwio_private_page_is_open(uintptr_t address);
/* Whether pages can be filled while they are protected; and whether they can be as far as there are threads. */
bool hwio_private_can_fill_apart(void);
bool hwio_private_can_fill(void);

#endif
