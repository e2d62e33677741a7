/* Mappings of /proc/self/maps, with a cache of the last ones; and writes into protected pages. */
#include "memory/memory_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/pages.h"
#include "real.h"

#define CACHED_MAX 16
#define EXCLUDED_MAX 256
#define STAGE_BYTES (256UL << 10)

static struct hwio_range cached[CACHED_MAX];
static size_t cached_next;
static struct hwio_range excluded[EXCLUDED_MAX];
static size_t excluded_count;
static int memory_descriptor = -1;
/* The file of that descriptor. */
static struct stat memory_file;
static char stage[STAGE_BYTES];

void hwio_memory_map_forget(void)
{
	memset(cached, 0, sizeof(cached));
}

void hwio_memory_map_exclude(const void *memory, size_t bytes)
{
	if (bytes == 0)
		return;
	hwio_enter();
	struct hwio_range one = {(uintptr_t)memory, (uintptr_t)memory + bytes};
	/* Ranges that it touches are merged with it. */
	for (size_t i = excluded_count; i-- > 0;) {
		if (excluded[i].low > one.high || excluded[i].high < one.low)
			continue;
		one.low = hwio_least(one.low, excluded[i].low);
		one.high = hwio_most(one.high, excluded[i].high);
		excluded[i] = excluded[--excluded_count];
	}
	/* If the table is full, all memory is excluded. */
	if (excluded_count == EXCLUDED_MAX)
		excluded[0] = (struct hwio_range){0, UINTPTR_MAX};
	else
		excluded[excluded_count++] = one;
	hwio_leave();
}

void hwio_memory_map_unmapped(uintptr_t low, uintptr_t high)
{
	if (excluded_count == 0)
		return;
	hwio_enter();
	for (size_t i = excluded_count; i-- > 0;) {
		struct hwio_range *one = &excluded[i];
		if (one->high == UINTPTR_MAX || one->low >= high || one->high <= low)
			continue;
		/* A range that extends beyond both ends stays excluded. */
		if (low <= one->low && one->high <= high)
			*one = excluded[--excluded_count];
		else if (low <= one->low)
			one->low = high;
		else if (one->high <= high)
			one->high = low;
	}
	hwio_leave();
}

static bool is_excluded(uintptr_t low, uintptr_t high)
{
	for (size_t i = 0; i < excluded_count; i++)
		if (low < hwio_page_up(excluded[i].high) && high > hwio_page_down(excluded[i].low))
			return true;
	return false;
}

struct mapping {
	struct hwio_range range;
	bool is_fit;
};

/* "55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0   [heap]" */
static bool parse(const char *line, struct mapping *mapping)
{
	char *rest;
	mapping->range.low = strtoul(line, &rest, 16);
	if (*rest != '-')
		return false;
	mapping->range.high = strtoul(rest + 1, &rest, 16);
	/* The program's own pages without access refuse a read. */
	bool is_closed = strncmp(rest, " ---p ", 6) == 0 &&
		hwio_pages_are_protected(mapping->range.low, mapping->range.high);
	bool is_private = strncmp(rest, " rw-p ", 6) == 0 || is_closed;
	bool is_strange = strstr(line, "[stack") || strstr(line, "/dev/") || strstr(line, "anon_hugepage") ||
		strstr(line, "[v");
	mapping->is_fit = is_private && !is_strange;
	return true;
}

/* Finds the fit mappings around the address, joined where they touch. */
static bool find_mapping(uintptr_t address, struct hwio_range *found)
{
	char buffer[8192 + 1];
	size_t filled = 0;
	struct hwio_range joined = {0, 0};
	int descriptor = hwio_libc.open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		return false;
	bool is_past = false;
	for (ssize_t got;
		!is_past && (got = hwio_libc.read(descriptor, buffer + filled, sizeof(buffer) - 1 - filled)) > 0;) {
		filled += (size_t)got;
		buffer[filled] = 0;
		char *line = buffer;
		for (char *end; !is_past && (end = strchr(line, '\n')); line = end + 1) {
			struct mapping mapping;
			*end = 0;
			if (!parse(line, &mapping))
				continue;
			bool does_continue = mapping.is_fit && mapping.range.low == joined.high;
			if (!does_continue && joined.high > address && joined.low <= address)
				is_past = true;
			else if (does_continue)
				joined.high = mapping.range.high;
			else
				joined = mapping.is_fit ? mapping.range : (struct hwio_range){0, 0};
		}
		filled -= (size_t)(line - buffer);
		memmove(buffer, line, filled);
		if (filled == sizeof(buffer) - 1)
			filled = 0;
	}
	hwio_libc.close(descriptor);
	*found = joined;
	return joined.low <= address && address < joined.high;
}

bool hwio_memory_map_is_private(const void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	if (is_excluded(low, high))
		return false;
	for (size_t i = 0; i < CACHED_MAX; i++)
		if (cached[i].low <= low && high <= cached[i].high && !(cached[i].low <= here && here < cached[i].high))
			return true;
	struct hwio_range found;
	if (!find_mapping(low, &found) || high > found.high || (found.low <= here && here < found.high))
		return false;
	cached[cached_next++ % CACHED_MAX] = found;
	return true;
}

/* The program may have closed the descriptor with a range of others, and opened another file by its number. */
static bool is_memory(void)
{
	struct stat now;
	return memory_descriptor >= 0 && fstat(memory_descriptor, &now) == 0 && now.st_dev == memory_file.st_dev &&
		now.st_ino == memory_file.st_ino;
}

static bool open_memory(void)
{
	if (!is_memory()) {
		int low = hwio_libc.open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		memory_descriptor = low < 0 ? low : fcntl(low, F_DUPFD_CLOEXEC, 512);
		if (low >= 0 && memory_descriptor >= 0)
			hwio_libc.close(low);
		else
			memory_descriptor = low;
		if (memory_descriptor >= 0 && fstat(memory_descriptor, &memory_file) != 0)
			return false;
	}
	return memory_descriptor >= 0;
}

bool hwio_memory_map_can_fill_protected(void)
{
	static enum { UNKNOWN, CAN, CANNOT } can;
	if (can != UNKNOWN)
		return can == CAN;
	can = CANNOT;
	/* Some kernels are configured not to write into protected pages. */
	void *page = hwio_libc.mmap(NULL, hwio_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return false;
	if (open_memory() && hwio_libc.pwrite(memory_descriptor, "", 1, (off_t)(uintptr_t)page) == 1)
		can = CAN;
	hwio_libc.munmap(page, hwio_page_bytes);
	return can == CAN;
}

bool hwio_memory_map_can_fill(void)
{
	return !hwio_is_threaded() || hwio_memory_map_can_fill_protected();
}

bool hwio_memory_map_fill(uintptr_t low, uintptr_t high, int descriptor, off_t offset)
{
	if (!open_memory())
		return false;
	while (low < high) {
		size_t want = high - low < STAGE_BYTES ? high - low : STAGE_BYTES;
		ssize_t got = hwio_libc.pread(descriptor, stage, want, offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || hwio_libc.pwrite(memory_descriptor, stage, (size_t)got, (off_t)low) != got)
			return false;
		low += (uintptr_t)got;
		offset += got;
	}
	return true;
}

bool hwio_memory_map_page_is_open(uintptr_t address)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)address, 1};
	return hwio_libc.process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}
