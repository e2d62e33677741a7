/* Deferred reads against plain memory: whatever the program, the kernel or a receive does to the buffer, and however
 * the files change, the program reads what it would have read. The result of hwio_runs_of is compared with the files,
 * and by a transfer. */
#include "memory/deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/context.h"
#include "intercept/files/change.h"
#include "intercept/generated-calls.h"
#include "memory/fault.h"
#include "memory/pages.h"
#include "memory/memory_map.h"
#include "mpi/runs.h"
#include "random.h"
#include "real.h"

#define PAGES 24
#define BYTES (PAGES * hwio_page_bytes)
#define FILES 2
#define FILE_BYTES (40 * hwio_page_bytes)
/* Of pages of 4 KiB; half as many of pages four times as large. */
#define RUNS 60
#define ROUNDS 120
#define BLOCKS 6

static char *region;
static char *expected, *scratch, *content[FILES];
static char paths[FILES][32];
static int readers[FILES], aside;
static unsigned int found_runs;

static void remove_files(void)
{
	for (int file = 0; file < FILES; file++)
		unlink(paths[file]);
}

static void fill(char *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		memory[i] = (char)random_word();
}

static void write_to(int file, size_t offset, size_t bytes)
{
	int writer = open(paths[file], O_WRONLY);
	CHECK(writer >= 0 && pwrite(writer, content[file] + offset, bytes, (off_t)offset) == (ssize_t)bytes);
	hwio_file_refresh(writer);
	CHECK(close(writer) == 0);
}

static void make_files(void)
{
	for (int file = 0; file < FILES; file++) {
		strcpy(paths[file], "/tmp/headwater-test-XXXXXX");
		int made = mkstemp(paths[file]);
		CHECK(made >= 0 && close(made) == 0);
		content[file] = map_pages(FILE_BYTES / hwio_page_bytes);
		fill(content[file], FILE_BYTES);
		write_to(file, 0, FILE_BYTES);
		readers[file] = open(paths[file], O_RDONLY);
		CHECK(readers[file] >= 0);
	}
}

/* Random ends, now and then at pages. */
static size_t range(size_t *low)
{
	size_t high;
	do {
		*low = random_below(BYTES);
		high = *low + 1 + random_below(random_below(3) ? 3 * hwio_page_bytes : BYTES);
		if (!random_below(4))
			*low = hwio_page_down(*low);
		if (!random_below(4))
			high = hwio_page_up(high);
	} while (high > BYTES);
	return high - *low;
}

static void defer(size_t low, size_t bytes)
{
	int file = (int)random_below(FILES);
	size_t offset = random_below(FILE_BYTES - bytes + 1);
	struct stat status;
	/* Rows one behind the other, as programs read them. */
	if (random_below(2) && low + bytes <= FILE_BYTES)
		offset = low;
	hwio_memory_out(region + low, bytes);
	hwio_enter();
	CHECK(fstat(readers[file], &status) == 0);
	struct hwio_file *known = hwio_file_of(readers[file], &status);
	CHECK(known && hwio_defer(region + low, bytes, known, (off_t)offset, NULL));
	hwio_file_release(known);
	hwio_leave();
	memcpy(expected + low, content[file] + offset, bytes);
}

/* The kernel reads it: a page that is still protected would be an error. */
static void check_kernel_read(size_t low, size_t bytes)
{
	hwio_memory_in(region + low, bytes);
	CHECK(pwrite(aside, region + low, bytes, 0) == (ssize_t)bytes);
	CHECK(pread(aside, scratch, bytes, 0) == (ssize_t)bytes);
	CHECK(memcmp(scratch, expected + low, bytes) == 0);
}

static void overwrite(size_t low, size_t bytes, bool is_loose)
{
	size_t admitted = 0;
	fill(expected + low, bytes);
	CHECK(pwrite(aside, expected + low, bytes, 0) == (ssize_t)bytes);
	if (is_loose) {
		struct hwio_block block = {0, bytes};
		struct hwio_layout layout = {.buffer = region + low, .bytes = bytes, .count = 1, .blocks = &block};
		layout.low = (uintptr_t)region + low;
		layout.high = layout.low + bytes;
		admitted = hwio_pages_admit(layout.low, layout.high);
		hwio_out_received(&layout);
	} else {
		hwio_memory_out(region + low, bytes);
	}
	CHECK(pread(aside, region + low, bytes, 0) == (ssize_t)bytes);
	if (is_loose)
		hwio_pages_dismiss(admitted);
}

static void change_file(void)
{
	int file = (int)random_below(FILES);
	size_t low = random_below(FILE_BYTES), bytes = 1 + random_below(FILE_BYTES - low);
	hwio_before_change(readers[file], (off_t)low, (off_t)(low + bytes));
	/* Only the engine's leases could prevent the file from being opened. */
	hwio_before_change_of(paths[file], AT_FDCWD);
	fill(content[file] + low, bytes);
	write_to(file, low, bytes);
}

static void store(size_t low, size_t bytes)
{
	for (size_t i = low; i < low + bytes; i += 1 + random_below(hwio_page_bytes)) {
		region[i] = (char)random_word();
		expected[i] = region[i];
	}
}

static void check_bytes(size_t low, size_t bytes)
{
	for (size_t i = low; i < low + bytes; i += 1 + random_below(hwio_page_bytes))
		CHECK(region[i] == expected[i]);
}

/* Some of the buffer, in pieces that are often at the same distance. */
static void lay_out(struct hwio_layout *layout, struct hwio_block *blocks)
{
	size_t first = random_below(BYTES / 2), count = 1 + random_below(BLOCKS), at = first;
	size_t bytes = 1 + random_below(hwio_page_bytes), gap = random_below(hwio_page_bytes);
	*layout = (struct hwio_layout){.buffer = region, .blocks = blocks};
	for (size_t i = 0; i < count && at + bytes <= BYTES; i++) {
		blocks[layout->count++] = (struct hwio_block){(intptr_t)at, bytes};
		layout->bytes += bytes;
		at += bytes + gap;
		if (!random_below(4))
			bytes = 1 + random_below(hwio_page_bytes);
	}
}

static void find_runs(void)
{
	struct hwio_block blocks[BLOCKS], all;
	struct hwio_layout layout, other = {.buffer = scratch, .count = 1, .blocks = &all};
	struct hwio_runs runs;
	struct hwio_file *file = NULL;
	struct hwio_context *context = NULL;
	lay_out(&layout, blocks);
	hwio_enter();
	bool is_copy = hwio_runs_of(&layout, &runs, &file, &context, false);
	hwio_leave();
	if (!is_copy)
		return;
	found_runs++;
	all = (struct hwio_block){0, layout.bytes};
	other.bytes = layout.bytes;
	CHECK(hwio_runs_bytes(&runs) == layout.bytes && hwio_runs_are_sound(&runs, layout.bytes));
	CHECK(!hwio_runs_are_sound(&runs, layout.bytes + 1));
	memset(scratch, 0, layout.bytes);
	CHECK(hwio_runs_transfer(file->descriptor, &runs, &other, false));
	size_t done = 0;
	for (size_t i = 0; i < layout.count; done += blocks[i++].bytes)
		CHECK(memcmp(scratch + done, expected + blocks[i].at, blocks[i].bytes) == 0);
}

/* Reads that follow each other are filled by one fault: it fills four pages at least, and more of small ones. */
static void rows_are_filled_together(void)
{
	size_t bytes = 3 * hwio_page_bytes, low = 16, in_window = hwio_page_bytes > 4096 ? 1 : 7;
	for (size_t row = 0; row < in_window; row++)
		defer(low + row * bytes, bytes);
	CHECK(hwio_deferred_in((uintptr_t)region, (uintptr_t)region + BYTES));
	check_bytes(hwio_page_bytes, 1);
	CHECK(!hwio_deferred_in((uintptr_t)region, (uintptr_t)region + BYTES));
	check_bytes(low, in_window * bytes);
	hwio_memory_out(region, BYTES);
}

static void run(void)
{
	for (round_number = 0; round_number < ROUNDS; round_number++) {
		size_t low, bytes = range(&low);
		size_t what = random_below(20);
		if (what < 7)
			defer(low, bytes);
		else if (what < 9)
			check_bytes(low, bytes);
		else if (what < 11)
			store(low, bytes);
		else if (what < 13)
			check_kernel_read(low, bytes);
		else if (what < 15)
			overwrite(low, bytes, false);
		else if (what < 18)
			overwrite(low, bytes, true);
		else if (what < 19)
			change_file();
		else if (!random_below(4))
			hwio_deferred_fill_all();
		find_runs();
	}
	if (random_below(2))
		hwio_deferred_fill_all();
	CHECK(memcmp(region, expected, BYTES) == 0);
	hwio_memory_out(region, BYTES);
	CHECK(hwio_record_count() == 0 && !hwio_is_busy);
}

static void *no_room(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
	(void)address, (void)bytes, (void)protection, (void)flags, (void)descriptor, (void)offset;
	errno = ENOMEM;
	return MAP_FAILED;
}

/* The first read, where the address space has no room for the table of records. */
static void nothing_is_deferred_without_room(void)
{
	void *(*mmap_of_libc)(void *, size_t, int, int, int, off_t) = hwio_libc.mmap;
	size_t bytes = 3 * hwio_page_bytes;
	struct stat status;

	hwio_libc.mmap = no_room;
	hwio_enter();
	CHECK(fstat(readers[0], &status) == 0);
	struct hwio_file *known = hwio_file_of(readers[0], &status);
	CHECK(known && !hwio_defer(region, bytes, known, 0, NULL));
	struct hwio_record record = {.low = (uintptr_t)region,
		.high = (uintptr_t)region + bytes,
		.state = HWIO_DEFERRED,
		.file = known,
		.offset = 100};
	CHECK(!hwio_deferred_add(&record) && hwio_record_count() == 0);
	hwio_leave();
	hwio_deferred_read(&record);
	CHECK(memcmp(region, content[0] + 100, bytes) == 0);
	memcpy(expected, region, bytes);
	hwio_enter();
	hwio_file_release(known);
	hwio_leave();
	hwio_libc.mmap = mmap_of_libc;
}

int main(void)
{
	random_start();
	hwio_file_start();
	CHECK(hwio_fault_start());
	atexit(remove_files);
	make_files();
	int runs = RUNS;
	for (size_t bytes = hwio_page_bytes; bytes > 4096; bytes /= 4)
		runs /= 2;
	aside = memfd_create("aside", MFD_CLOEXEC);
	CHECK(aside >= 0);
	region = map_pages(PAGES);
	expected = map_pages(PAGES);
	scratch = map_pages(PAGES);
	nothing_is_deferred_without_room();
	rows_are_filled_together();
	for (int i = 0; i < runs; i++)
		run();
	/* Pages are filled before they are opened. */
	hwio_deferred_fill_partial();
	hwio_threads_begin();
	for (int i = 0; i < runs; i++)
		run();
	CHECK(found_runs > (unsigned int)runs);
	printf("%u layouts were copies\n", found_runs);
	return 0;
}
