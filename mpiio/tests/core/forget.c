/* Writes of other nodes are not read from pages that this node has cached; what is sent is dropped, and nothing else. */
#include <assert.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory/file.h"

/* As many as lie in a large folio, and its neighbours. */
#define PAGES (3 * 512UL)

static size_t page_bytes;

/* Makes an unlinked file beside this program. */
static int make_file(void)
{
	char path[HWIO_PATH_BYTES_MAX], *data = malloc(PAGES * page_bytes);
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
	assert(data && length > 0);
	strcpy(path + length, ".XXXXXX");
	int descriptor = mkstemp(path);
	assert(descriptor >= 0 && unlink(path) == 0);
	memset(data, 'x', PAGES * page_bytes);
	assert(pwrite(descriptor, data, PAGES * page_bytes, 0) == (ssize_t)(PAGES * page_bytes));
	free(data);
	/* The kernel drops only clean pages. */
	assert(fsync(descriptor) == 0);
	return descriptor;
}

/* Returns a letter for each third of the file: k if the kernel has cached all of it, - if nothing. */
static const char *resident_letters(int descriptor)
{
	static char letters[4];
	static unsigned char resident[PAGES];
	void *map = mmap(NULL, PAGES * page_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
	assert(map != MAP_FAILED && mincore(map, PAGES * page_bytes, resident) == 0);
	munmap(map, PAGES * page_bytes);
	for (size_t i = 0; i < 3; i++) {
		size_t cached = 0;
		for (size_t page = i * PAGES / 3; page < (i + 1) * PAGES / 3; page++)
			cached += resident[page] & 1;
		letters[i] = cached == 0 ? '-' : cached == PAGES / 3 ? 'k' : '?';
	}
	return letters;
}

int main(void)
{
	struct statfs about;
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	int descriptor = make_file();
	assert(fstatfs(descriptor, &about) == 0);
	if (about.f_type == TMPFS_MAGIC) {
		printf("skipped: a tmpfs keeps its pages\n");
		return 0;
	}
	assert(strcmp(resident_letters(descriptor), "kkk") == 0);
	uint64_t middle = PAGES / 3 * page_bytes;
	assert(hwio_file_send(descriptor, middle + 1, middle + page_bytes) == 0);
	assert(strcmp(resident_letters(descriptor), "k-k") == 0);
	hwio_file_forget(descriptor);
	assert(strcmp(resident_letters(descriptor), "---") == 0);
	close(descriptor);
	return 0;
}
