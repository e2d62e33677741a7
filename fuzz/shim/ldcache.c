/* The shim's reader of ld.so.cache over a file in memory: AddressSanitizer sees the first byte that is
 * read beyond it. */
#include <string.h>

#include "memory.h"
#include "../../shim/audit/ldcache.c"

static const void *content;
static size_t content_bytes;

/* Replaces a mapped file. */
void *hwa_map_file(const char *path, int writable, size_t bytes_min, size_t bytes_max, size_t *bytes)
{
	if (strcmp(path, CACHE) != 0 || writable || content_bytes < bytes_min)
		return NULL;
	*bytes = content_bytes < bytes_max ? content_bytes : bytes_max;
	return (void *)(uintptr_t)content;
}

/* Looks a name up in a cache of so many bytes. Returns the path's length, or -1 without one. */
long fuzz_ldcache(const void *data, size_t bytes, const char *name)
{
	bool unsure;

	content = data;
	content_bytes = bytes;
	cache = NULL;
	cache_unusable = false;
	const char *path = hwa_ldcache_find(name, &unsure);
	return path ? (long)strlen(path) : -1;
}
