/* The shim's table reader and resolution over a table in memory that is exactly as large as its header has it:
 * AddressSanitizer detects the first byte that is read beyond it. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "memory.h"
#include "../../shim/audit/table.c"

static const void *file;
static size_t file_bytes;

/* Replaces a mapped file. Only the table exists, there are no counters. */
void *hwa_map_file(const char *path, int writable, size_t bytes_min, size_t bytes_max, size_t *bytes)
{
	if (strcmp(path, "/table") != 0 || writable || file_bytes < bytes_min)
		return NULL;
	*bytes = file_bytes < bytes_max ? file_bytes : bytes_max;
	return (void *)(uintptr_t)file;
}

/* For paths that outgrow their declarer's memory. */
void *hwa_map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Replaces the daemon: it has no answer. */
enum hw_status hwa_request(const char *path, size_t bytes, unsigned want)
{
	(void)want;
	return path[0] == '/' && path[bytes] == 0 ? HW_DONE : HW_FALLBACK;
}

/* Replaces the clock: so much time passes that each path is looked up again and again. */
uint64_t hwa_now_s(void)
{
	static uint64_t now_s;

	return now_s += 60;
}

/* Replaces the view, which knows who hands the library on. */
long hwa_handing_on;

/* Replaces the check of this process: it sees what the table has. */
bool hwa_has_same_view(const struct hw_header *header)
{
	(void)header;
	return true;
}

static void read_record(const struct hw_record *record, uint64_t state)
{
	size_t bytes;
	const char *text = HW_KIND(state) == HW_LINK ? hwa_link_target(record, &bytes) : NULL;
	volatile char sink;

	for (size_t i = 0; text && i < bytes; i++)
		sink = text[i];
	const struct hw_listing *listing = hwa_listing_of(record, state);
	if (!listing)
		return;
	hwa_listing_has(record, listing, "liba.so", 7, NULL);
	for (uint32_t number = 0; number < 8; number++)
		if (hwa_listing_name(record, listing, number, &text))
			sink = text[strlen(text)];
	(void)sink;
}

/* Attaches to a table of so many bytes and forgets what was attached before. Returns 1 if it is usable. */
int fuzz_attach(const void *data, size_t bytes)
{
	char *environment[] = {"HEADWATER_TABLE=/table", NULL};

	memset(&table, 0, sizeof(table));
	file = data;
	file_bytes = bytes;
	hwa_attach(environment);
	return hwa_attached();
}

/* Looks a path up and reads all of its record. Returns 1 if it has one. */
int fuzz_find(const char *path)
{
	uint64_t state;
	const struct hw_record *record = hwa_find(path, strlen(path), &state);

	hwa_in_scope(path, strlen(path));
	if (record)
		read_record(record, state);
	return record != NULL;
}

/* The same for an inode number in the store. */
int fuzz_find_inode(uint64_t ino)
{
	uint64_t state;
	const struct hw_record *record = hwa_find_inode(ino, &state);

	if (record)
		read_record(record, state);
	return record != NULL;
}

/* Resolves a path. Returns false if the result is no canonical path. */
int fuzz_resolve(const char *path, unsigned want)
{
	HWA_FOUND(found);

	if (hwa_resolve(-1, path, want, &found) != HWA_KNOWN)
		return 1;
	read_record(found.record, found.state);
	return found.path.at[0] == '/' && strlen(found.path.at) == found.path.bytes && !strstr(found.path.at, "/../");
}
