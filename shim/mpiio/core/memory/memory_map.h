/* Memory that may be protected: it is private to the process, and no device uses it. */
#ifndef HWIO_MEMORY_MAP_H
#define HWIO_MEMORY_MAP_H

#include "../engine.h"

/* Whether the range is private, writable memory and not a stack. */
bool hwio_memory_map_is_private(const void *memory, size_t bytes);
/* Mappings have changed: what is known of them is looked up again. */
void hwio_memory_map_forget(void);
/* The range is seen by others, as windows of one-sided communication are: it is left alone for good. */
void hwio_memory_map_exclude(const void *memory, size_t bytes);
/* There is no memory any more: what comes there is other memory. */
void hwio_memory_map_unmapped(uintptr_t low, uintptr_t high);
/* The program has made a thread. */
void hwio_memory_map_threads_begin(void);
bool hwio_memory_map_is_threaded(void);
/* Writes what a file has into protected pages. */
bool hwio_memory_map_fill(uintptr_t low, uintptr_t high, int descriptor, off_t offset);
/* Whether the page can be read: another thread may have made it so. */
bool hwio_memory_map_page_is_open(uintptr_t address);
/* Whether pages can be filled while they are protected; and whether they can be as far as there are threads. */
bool hwio_memory_map_can_fill_protected(void);
bool hwio_memory_map_can_fill(void);

#endif
