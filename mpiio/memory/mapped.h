/* Parts of files that the program has mapped. Such memory is the file, or a copy of it until the program writes there,
 * so nothing is deferred. A mapping is remembered by its addresses; whether it still is what it was is found out at each
 * use, so no call that changes mappings need be seen. */
#ifndef HWIO_MAPPED_H
#define HWIO_MAPPED_H

#include "memory/pages.h"

struct hwio_context;

/* Bounds of the remembered mappings. */
extern volatile uintptr_t hwio_mapped_low, hwio_mapped_high;

static inline bool hwio_mapped_is_near(const void *memory)
{
	return (uintptr_t)memory >= hwio_mapped_low && (uintptr_t)memory < hwio_mapped_high;
}

/* Remembers a mapping that the program has made of a regular file, from `offset` on. */
void hwio_mapped_note(void *address, size_t bytes, int descriptor, off_t offset, struct hwio_context *context);
/* Forgets mappings with addresses in the range. */
void hwio_mapped_forget(uintptr_t low, uintptr_t high);
/* Adds records of what is the file's content, of mappings with addresses in the range, until hwio_mapped_end. False:
 * there is none. */
bool hwio_mapped_begin(uintptr_t low, uintptr_t high);
void hwio_mapped_end(void);

#endif
