/* Writes of other nodes are not read from pages that this node has cached. */
#include <assert.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "files/file.h"

#define PAGES 8UL

/* Makes an unlinked file beside this program. */
static int make_file(void)
{
	char path[HWIO_PATH_BYTES_MAX], data[PAGES * HWIO_PAGE_BYTES];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
	assert(length > 0);
	strcpy(path + length, ".XXXXXX");
	int descriptor = mkstemp(path);
	assert(descriptor >= 0 && unlink(path) == 0);
	memset(data, 'x', sizeof(data));
	assert(pwrite(descriptor, data, sizeof(data), 0) == (ssize_t)sizeof(data));
	/* The kernel drops only clean pages. */
	assert(fsync(descriptor) == 0);
	return descriptor;
}

/* Returns a letter for each page: k if the kernel has cached it. */
static const char *resident_letters(int descriptor)
{
	static char letters[PAGES + 1];
	unsigned char resident[PAGES];
	void *map = mmap(NULL, PAGES * HWIO_PAGE_BYTES, PROT_READ, MAP_SHARED, descriptor, 0);
	assert(map != MAP_FAILED && mincore(map, PAGES * HWIO_PAGE_BYTES, resident) == 0);
	munmap(map, PAGES * HWIO_PAGE_BYTES);
	for (size_t i = 0; i < PAGES; i++)
		letters[i] = resident[i] & 1 ? 'k' : '-';
	return letters;
}

int main(void)
{
	struct statfs about;
	int descriptor = make_file();
	assert(fstatfs(descriptor, &about) == 0);
	if (about.f_type == TMPFS_MAGIC) {
		printf("skipped: a tmpfs keeps its pages\n");
		return 0;
	}
	assert(strcmp(resident_letters(descriptor), "kkkkkkkk") == 0);
	hwio_file_forget(descriptor);
	assert(strcmp(resident_letters(descriptor), "--------") == 0);
	close(descriptor);
	return 0;
}
