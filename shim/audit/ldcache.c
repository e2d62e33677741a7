/* Reads /etc/ld.so.cache, format glibc-ld.so.cache1.1 (glibc's dl-cache.h), for names that no search path has. If an
 * entry depends on hardware capabilities, glibc chooses. */
#include "loader.h"
#include "sys.h"

#define CACHE "/etc/ld.so.cache"
#define MAGIC "glibc-ld.so.cache1.1"
#define ENDIAN_LITTLE 2

#if defined(__x86_64__)
#define FLAGS_NATIVE 0x0303
#elif defined(__aarch64__)
#define FLAGS_NATIVE 0x0a03
#endif
/* Any ELF library, a type of early glibc that glibc still accepts. */
#define FLAGS_ELF 1

struct entry {
	int32_t flags;
	uint32_t key, value, os_version;
	uint64_t hwcap;
};

struct cache {
	char magic[20];
	uint32_t count, strings_bytes;
	uint8_t endian, padding[3];
	uint32_t extension_at, unused[3];
	struct entry entries[];
};

_Static_assert(sizeof(struct cache) == 48 && sizeof(struct entry) == 24, "dl-cache.h");

static const struct cache *cache;
static size_t cache_bytes;
static bool cache_unusable;

static bool open_cache(void)
{
	if (cache || cache_unusable)
		return cache != NULL;
	const struct cache *file = hwa_map_file(CACHE, 0, sizeof(*file), SIZE_MAX, &cache_bytes);
	cache_unusable = !file;
	if (!file)
		return false;
	if (memcmp(file->magic, MAGIC, sizeof(file->magic)) == 0 &&
		(file->endian == 0 || file->endian == ENDIAN_LITTLE) &&
		file->count <= (cache_bytes - sizeof(*file)) / sizeof(struct entry)) {
		cache = file;
		return true;
	}
	cache_unusable = true;
	hwa_sys(__NR_munmap, file, cache_bytes);
	return false;
}

void hwa_ldcache_release(void)
{
	if (cache)
		hwa_sys(__NR_munmap, cache, cache_bytes);
	cache = NULL;
	cache_unusable = false;
}

/* Returns the string at an offset; NULL if it does not end inside the file. */
static const char *text_at(uint32_t at)
{
	const char *file = (const char *)cache;

	for (size_t end = at; end < cache_bytes; end++)
		if (!file[end])
			return file + at;
	return NULL;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static uint32_t number(const char **text)
{
	uint32_t value = 0;

	while (digit(**text))
		value = value * 10 + (uint32_t)(*(*text)++ - '0');
	return value;
}

/* Compares as ldconfig sorts: runs of digits by their value. */
static int compare(const char *a, const char *b)
{
	while (*a) {
		if (digit(*a) && digit(*b)) {
			uint32_t x = number(&a), y = number(&b);

			if (x != y)
				return (int32_t)(x - y);
		} else if (digit(*a)) {
			return 1;
		} else if (digit(*b)) {
			return -1;
		} else if (*a != *b) {
			return *a - *b;
		} else {
			a++, b++;
		}
	}
	return *a - *b;
}

const char *hwa_ldcache_find(const char *name, bool *unsure)
{
	uint32_t left = 0, right;

	*unsure = true;
	if (!open_cache())
		return NULL;
	right = cache->count;
	/* The entries are in descending order; find the first that is not before the name. */
	while (left < right) {
		uint32_t middle = left + (right - left) / 2;
		const char *key = text_at(cache->entries[middle].key);

		if (!key)
			return NULL;
		if (compare(name, key) < 0)
			left = middle + 1;
		else
			right = middle;
	}
	for (; left < cache->count; left++) {
		const struct entry *entry = &cache->entries[left];
		const char *key = text_at(entry->key);

		if (!key)
			return NULL;
		if (compare(name, key) != 0)
			break;
		if (entry->flags == FLAGS_ELF || (entry->flags == FLAGS_NATIVE && entry->hwcap))
			return NULL;
		if (entry->flags == FLAGS_NATIVE) {
			const char *path = text_at(entry->value);

			*unsure = !path;
			return path;
		}
	}
	*unsure = false;
	return NULL;
}
