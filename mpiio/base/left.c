/* Two rings of ranges, whose fields are accessed one by one without a lock: a torn entry is at worst counted under a
 * wrong reason. */
#include "base/left.h"

#include <errno.h>
#include <sys/stat.h>

#include "real.h"

#define REMEMBERED 32

struct ring {
	struct {
		uintptr_t low, high;
		enum hwio_left why;
	} ranges[REMEMBERED];
	unsigned int next;
};

static struct ring reads, gathers;
static struct {
	uint64_t operations, bytes;
} sums[HWIO_PATTERNS][HWIO_LEFTS];

struct hwio_left_bounds hwio_left_reads = {.low = UINTPTR_MAX}, hwio_left_gathers = {.low = UINTPTR_MAX};

static void remember(struct ring *ring, struct hwio_left_bounds *bounds, uintptr_t low, size_t bytes,
	enum hwio_left why)
{
	unsigned int at = __atomic_fetch_add(&ring->next, 1, __ATOMIC_RELAXED) % REMEMBERED;
	ring->ranges[at].low = low;
	ring->ranges[at].high = low + bytes;
	ring->ranges[at].why = why;
	if (low < bounds->low)
		bounds->low = low;
	if (low + bytes > bounds->high)
		bounds->high = low + bytes;
}

/* Returns why the newest range at `low` was left; with `is_last`, removes it. */
static enum hwio_left find_reason(struct ring *ring, uintptr_t low, bool is_last)
{
	for (unsigned int i = 1; i <= REMEMBERED; i++) {
		unsigned int at = (ring->next - i) % REMEMBERED;
		if (ring->ranges[at].low > low || low >= ring->ranges[at].high)
			continue;
		if (is_last)
			ring->ranges[at].high = ring->ranges[at].low;
		return ring->ranges[at].why;
	}
	return HWIO_NOT_LEFT;
}

void hwio_left_read(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why)
{
	struct stat status;
	int saved = errno;
	if (why != HWIO_NOT_LEFT && bytes >= (ssize_t)HWIO_LEFT_BYTES_MIN && hwio_mode != HWIO_OFF && hwio_depth == 0 &&
		fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
		remember(&reads, &hwio_left_reads, (uintptr_t)memory, (size_t)bytes, why);
	errno = saved;
}

void hwio_left_count(enum hwio_pattern pattern, size_t bytes, enum hwio_left why)
{
	if (why == HWIO_NOT_LEFT)
		return;
	__atomic_fetch_add(&sums[pattern][why].operations, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums[pattern][why].bytes, bytes, __ATOMIC_RELAXED);
}

void hwio_left_forwarded(enum hwio_pattern pattern, const void *memory, size_t bytes)
{
	if (hwio_left_is_near(&hwio_left_reads, memory))
		hwio_left_count(pattern, bytes, find_reason(&reads, (uintptr_t)memory, pattern == HWIO_READ_SCATTER));
}

void hwio_left_gathered(const void *memory, size_t bytes, enum hwio_left why)
{
	if (why != HWIO_NOT_LEFT && bytes >= HWIO_LEFT_BYTES_MIN)
		remember(&gathers, &hwio_left_gathers, (uintptr_t)memory, bytes, why);
}

void hwio_left_written(const void *memory, size_t bytes)
{
	if (hwio_mode != HWIO_OFF && hwio_depth == 0 && bytes >= HWIO_LEFT_BYTES_MIN &&
		hwio_left_is_near(&hwio_left_gathers, memory))
		hwio_left_count(HWIO_GATHER_WRITE, bytes, find_reason(&gathers, (uintptr_t)memory, true));
}

bool hwio_left_sum(enum hwio_pattern pattern, enum hwio_left why, uint64_t *operations, uint64_t *bytes)
{
	*operations = __atomic_load_n(&sums[pattern][why].operations, __ATOMIC_RELAXED);
	*bytes = __atomic_load_n(&sums[pattern][why].bytes, __ATOMIC_RELAXED);
	return *operations > 0;
}

const char *hwio_left_why(enum hwio_left why)
{
	static const char *const reasons[] = {
		[HWIO_NOT_LEFT] = "",
		[HWIO_LEFT_SMALL] = "too few bytes at once (the least is HEADWATER_IO_BYTES_MIN)",
		[HWIO_LEFT_SMALL_FILE] = "for a file of this size messages are not slower",
		[HWIO_LEFT_NO_GAIN] = "messages are not slower",
		[HWIO_LEFT_ONE_NODE] = "on one node one rank writes as quickly",
		[HWIO_LEFT_NOT_SHARED] = "other ranks don't see the file",
		[HWIO_LEFT_CHANGING] = "another process may be changing the file, or has changed it",
		[HWIO_LEFT_OPENED] = "the file is open, or mapped, in a way that forbids it",
		[HWIO_LEFT_MEMORY] = "the memory can't be protected",
		[HWIO_LEFT_LAYOUT] = "the datatype or the order of the parts is not understood",
		[HWIO_LEFT_THREADS] = "the program has threads",
		[HWIO_LEFT_BUSY] = "earlier data was still pending",
	};
	return reasons[why];
}
