/* What a mapping is now is read in /proc/self/maps, and which of its pages the program has written in
 * /proc/self/pagemap. */
#include "memory/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "memory/records.h"
#include "real.h"

#define MAPPINGS_MAX 32
/* Maximum of parts of a mapping between pages that the program has written. */
#define PARTS_MAX 256
/* Entries of /proc/self/pagemap, and how many are read at once. */
#define PAGE_PRESENT (1ULL << 63)
#define PAGE_SWAPPED (1ULL << 62)
#define PAGE_OF_FILE (1ULL << 61)
#define ENTRIES_AT_ONCE 1024

static struct mapping {
	uintptr_t low, high;
	off_t offset;
	struct hwio_identity identity;
	struct hwio_context *context;
	char path[HWIO_PATH_BYTES_MAX];
} mappings[MAPPINGS_MAX];
static size_t next;

volatile uintptr_t hwio_mapped_low = UINTPTR_MAX, hwio_mapped_high;

static void bound(void)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	for (size_t i = 0; i < MAPPINGS_MAX; i++) {
		if (mappings[i].high == 0)
			continue;
		low = hwio_least(low, mappings[i].low);
		high = hwio_most(high, mappings[i].high);
	}
	hwio_mapped_low = low;
	hwio_mapped_high = high;
}

void hwio_mapped_note(void *address, size_t bytes, int descriptor, off_t offset, struct hwio_context *context)
{
	struct stat status;
	if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || offset >= status.st_size)
		return;
	hwio_enter();
	struct hwio_file *file = hwio_file_of(descriptor, &status);
	if (file && file->path[0]) {
		struct mapping *one = &mappings[next++ % MAPPINGS_MAX];
		*one = (struct mapping){.low = (uintptr_t)address,
			.high = hwio_page_up((uintptr_t)address + bytes),
			.offset = offset,
			.identity = file->identity,
			.context = context};
		memcpy(one->path, file->path, sizeof(one->path));
		bound();
	}
	if (file)
		hwio_file_release(file);
	hwio_leave();
}

void hwio_mapped_forget(uintptr_t low, uintptr_t high)
{
	if (low >= hwio_mapped_high || high <= hwio_mapped_low)
		return;
	hwio_enter();
	for (size_t i = 0; i < MAPPINGS_MAX; i++)
		if (mappings[i].low < high && mappings[i].high > low)
			mappings[i].high = 0;
	bound();
	hwio_leave();
}

/* The parts of one mapping that are the file's content. */
struct parts {
	size_t count;
	struct hwio_range range[PARTS_MAX];
};

static bool add_part(struct parts *parts, uintptr_t low, uintptr_t high)
{
	struct hwio_range *last = parts->count ? &parts->range[parts->count - 1] : NULL;
	if (low >= high)
		return true;
	if (last && last->high == low) {
		last->high = high;
		return true;
	}
	if (parts->count == PARTS_MAX)
		return false;
	parts->range[parts->count++] = (struct hwio_range){low, high};
	return true;
}

/* Adds the pages of a private mapping that the program hasn't written: such a page is a copy, and no page of the file
 * any more. */
static bool add_unwritten(struct parts *parts, uintptr_t low, uintptr_t high)
{
	uint64_t entries[ENTRIES_AT_ONCE];
	int pages = hwio_libc.open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool is_good = pages >= 0;
	for (uintptr_t at = low; at < high && is_good;) {
		size_t count = hwio_least((high - at) / hwio_page_bytes, ENTRIES_AT_ONCE), bytes = count * 8;
		is_good = hwio_libc.pread(pages, entries, bytes, (off_t)(at / hwio_page_bytes * 8)) == (ssize_t)bytes;
		for (size_t i = 0; i < count && is_good; i++, at += hwio_page_bytes)
			if ((entries[i] & PAGE_OF_FILE) || !(entries[i] & (PAGE_PRESENT | PAGE_SWAPPED)))
				is_good = add_part(parts, at, at + hwio_page_bytes);
	}
	if (pages >= 0)
		hwio_libc.close(pages);
	return is_good;
}

/* Adds what a line of /proc/self/maps shows of the mapping: "7f12e8400000-7f12f8400000 r--s 00000000 fe:00 1234 PATH".
 * Sets `is_past` behind it. */
static bool add_line(const struct mapping *one, const char *line, struct parts *parts, bool *is_past)
{
	char permissions[5], *rest;
	uintptr_t low = strtoul(line, &rest, 16), high = *rest == '-' ? strtoul(rest + 1, &rest, 16) : 0;
	*is_past = low >= one->high;
	if (high <= one->low || *is_past || strnlen(rest, 6) < 6)
		return true;
	memcpy(permissions, rest + 1, 4);
	uint64_t offset = strtoul(rest + 6, &rest, 16);
	const char *path = strchr(rest, '/');
	const char *device = strchr(rest, ':'), *inode = device ? strchr(device, ' ') : NULL;
	uintptr_t from = hwio_most(low, one->low), to = hwio_least(high, one->high);
	bool is_same = path && inode && strcmp(path, one->path) == 0 &&
		strtoul(inode, NULL, 10) == one->identity.inode &&
		offset + (from - low) == (uint64_t)one->offset + (from - one->low);
	bool is_private = permissions[3] == 'p', is_written = permissions[1] == 'w';
	if (!is_same || permissions[0] != 'r' || (is_written && !is_private))
		return true;
	/* It may have been written while it was writable. */
	return is_private ? add_unwritten(parts, from, to) : add_part(parts, from, to);
}

/* Finds the parts of the mapping that are the file's content now. False: it can't be found out. */
static bool find_parts(const struct mapping *one, struct parts *parts)
{
	char buffer[8192 + 1];
	size_t filled = 0;
	bool is_good = true, is_past = false;
	int maps = hwio_libc.open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	parts->count = 0;
	for (ssize_t got; maps >= 0 && is_good && !is_past &&
		(got = hwio_libc.read(maps, buffer + filled, sizeof(buffer) - 1 - filled)) > 0;) {
		filled += (size_t)got;
		buffer[filled] = 0;
		char *line = buffer;
		for (char *end; is_good && !is_past && (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			is_good = add_line(one, line, parts, &is_past);
		}
		filled -= (size_t)(line - buffer);
		memmove(buffer, line, filled);
		/* No line is so long that a path of ours is in it. */
		if (filled == sizeof(buffer) - 1)
			filled = 0;
	}
	if (maps >= 0)
		hwio_libc.close(maps);
	return maps >= 0 && is_good;
}

/* Returns true if nothing else is recorded in the range. */
static bool is_free(uintptr_t low, uintptr_t high)
{
	const struct hwio_record *record = hwio_record_at(hwio_record_find(low));
	return !record || record->low >= high;
}

static bool add_records(const struct mapping *one, struct hwio_file *file, uintptr_t low, uintptr_t high)
{
	static struct parts parts;
	bool is_any = false;
	if (!find_parts(one, &parts))
		return false;
	uintptr_t end = one->low + (uintptr_t)(file->identity.bytes - one->offset);
	for (size_t i = 0; i < parts.count; i++) {
		struct hwio_record record = {.low = hwio_most(parts.range[i].low, low),
			.high = hwio_least(hwio_least(parts.range[i].high, end), high),
			.state = HWIO_MAPPED,
			.file = file,
			.context = one->context};
		record.offset = one->offset + (off_t)(record.low - one->low);
		if (record.low < record.high && is_free(record.low, record.high) && hwio_records_have_room(4))
			is_any |= hwio_record_add(&record);
	}
	return is_any;
}

bool hwio_mapped_begin(uintptr_t low, uintptr_t high)
{
	bool is_any = false;
	int saved = errno;
	hwio_enter();
	for (size_t i = 0; i < MAPPINGS_MAX; i++) {
		const struct mapping *one = &mappings[i];
		if (one->low >= high || one->high <= low || hwio_context_is_off(one->context))
			continue;
		struct hwio_file *file = hwio_file_open_now(one->path, &one->identity);
		if (file && file->identity.bytes > one->offset && hwio_file_lease(file)) {
			bool is_one = add_records(one, file, hwio_most(one->low, low), hwio_least(one->high, high));
			is_any |= is_one;
			if (is_one)
				hwio_context_begin(one->context);
		}
		if (file)
			hwio_file_release(file);
	}
	hwio_leave();
	errno = saved;
	return is_any;
}

void hwio_mapped_end(void)
{
	const struct hwio_record *record;
	hwio_enter();
	for (size_t index = 0; (record = hwio_record_at(index));) {
		if (record->state == HWIO_MAPPED)
			hwio_record_cut(record->low, record->high);
		else
			index++;
	}
	hwio_records_note();
	hwio_leave();
}
