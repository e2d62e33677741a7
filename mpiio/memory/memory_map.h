/* Finds memory that may be protected: it is private to the process, and no device uses it. */
#ifndef HWIO_MEMORY_MAP_H
#define HWIO_MEMORY_MAP_H

#include "base/engine.h"

/* Returns true if the range is private, writable memory and not a stack. */
bool hwio_memory_map_is_private(const void *memory, size_t bytes);
/* Clears the cache, since mappings have changed. */
void hwio_memory_map_forget(void);
/* Excludes the range for good: others access it, as windows of one-sided communication. */
void hwio_memory_map_exclude(const void *memory, size_t bytes);
/* Ends an exclusion: the memory was unmapped. */
void hwio_memory_map_unmapped(uintptr_t low, uintptr_t high);
/* Reads a part of a file into protected pages. */
bool hwio_memory_map_fill(uintptr_t low, uintptr_t high, int descriptor, off_t offset);
/* Returns true if the page can be read: another thread may have opened it. */
bool hwio_memory_map_page_is_open(uintptr_t address);
/* Return whether pages can be filled while they are protected, and whether they can be as far as threads require it. */
bool hwio_memory_map_can_fill_protected(void);
bool hwio_memory_map_can_fill(void);

#endif
