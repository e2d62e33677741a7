/* A few streams, whose fields are accessed one by one without a lock: at worst, bytes are counted twice or not at
 * all. A position may have been set without reading, so the kernel's count of the process's reads bounds the sum. A
 * stream may be closed unseen, so only its descriptor is used, if that still has the same file. */
#include "base/parsed.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/engine.h"
#include "real.h"

#define STREAMS 8
/* So many calls at most pass between two examinations. */
#define SKIPPED_MAX 256

static struct {
	FILE *stream;
	int descriptor;
	dev_t device;
	ino_t inode;
	int64_t counted;
} streams[STREAMS];
static int watched;
static uint64_t closed_bytes, kernel_counted;
static unsigned int skipped, skipped_max;

/* Returns how many bytes the process has read by system calls; 0 if the kernel doesn't report it. */
static uint64_t kernel_bytes(void)
{
	char text[64] = "";
	int descriptor = hwio_libc.open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	ssize_t bytes = descriptor < 0 ? -1 : hwio_libc.read(descriptor, text, sizeof(text) - 1);
	if (descriptor >= 0)
		hwio_libc.close(descriptor);
	return bytes > 0 && strncmp(text, "rchar: ", 7) == 0 ? strtoull(text + 7, NULL, 10) : 0;
}

void hwio_parsed_opened(FILE *stream)
{
	struct stat status;
	int descriptor = fileno(stream);
	if (descriptor < 0 || !hwio_status_untimed(descriptor, NULL, &status) || !S_ISREG(status.st_mode))
		return;
	if (__atomic_load_n(&watched, __ATOMIC_RELAXED) == 0)
		kernel_counted = kernel_bytes();
	for (size_t i = 0; i < STREAMS; i++) {
		FILE *none = NULL;
		if (!__atomic_compare_exchange_n(&streams[i].stream, &none, stream, false, __ATOMIC_RELAXED,
			    __ATOMIC_RELAXED))
			continue;
		streams[i].descriptor = descriptor;
		streams[i].device = status.st_dev;
		streams[i].inode = status.st_ino;
		streams[i].counted = 0;
		__atomic_fetch_add(&watched, 1, __ATOMIC_RELAXED);
		skipped_max = 0;
		return;
	}
}

/* Returns how far the stream's descriptor has come since it was counted, and counts it. */
static uint64_t advance(size_t i)
{
	struct stat status;
	bool is_same = hwio_status_untimed(streams[i].descriptor, NULL, &status) &&
		status.st_dev == streams[i].device && status.st_ino == streams[i].inode;
	off_t position = is_same ? lseek(streams[i].descriptor, 0, SEEK_CUR) : -1;
	int64_t before = streams[i].counted;
	if (position > before)
		streams[i].counted = position;
	return position > before ? (uint64_t)(position - before) : 0;
}

static void forget(FILE *stream, bool is_counted)
{
	for (size_t i = 0; i < STREAMS; i++) {
		FILE *it = stream;
		if (__atomic_load_n(&streams[i].stream, __ATOMIC_RELAXED) != stream)
			continue;
		if (is_counted)
			__atomic_fetch_add(&closed_bytes, advance(i), __ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(&streams[i].stream, &it, NULL, false, __ATOMIC_RELAXED,
			    __ATOMIC_RELAXED))
			__atomic_fetch_sub(&watched, 1, __ATOMIC_RELAXED);
	}
}

void hwio_parsed_forget(FILE *stream)
{
	if (__atomic_load_n(&watched, __ATOMIC_RELAXED) > 0)
		forget(stream, false);
}

void hwio_parsed_closing(FILE *stream)
{
	if (__atomic_load_n(&watched, __ATOMIC_RELAXED) > 0)
		forget(stream, true);
}

uint64_t hwio_parsed_take(void)
{
	bool is_any_closed = __atomic_load_n(&closed_bytes, __ATOMIC_RELAXED) > 0;
	if (!is_any_closed && (__atomic_load_n(&watched, __ATOMIC_RELAXED) == 0 || skipped++ < skipped_max))
		return 0;
	uint64_t bytes = __atomic_exchange_n(&closed_bytes, 0, __ATOMIC_RELAXED);
	for (size_t i = 0; i < STREAMS; i++) {
		if (__atomic_load_n(&streams[i].stream, __ATOMIC_RELAXED))
			bytes += advance(i);
	}
	skipped = 0;
	skipped_max = bytes > 0 ? 0 : skipped_max * 2 + 1 < SKIPPED_MAX ? skipped_max * 2 + 1 : SKIPPED_MAX;
	if (bytes == 0)
		return 0;
	uint64_t all = kernel_bytes(), read = all - kernel_counted;
	kernel_counted = all;
	return bytes < read ? bytes : read;
}
