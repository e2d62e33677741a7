/* Two rings of ranges, whose fields are accessed one by one without a lock: a torn entry is at worst counted under a
 * wrong reason. */
#include "base/left.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/parsed.h"
#include "real.h"

#define REMEMBERED 32
/* So many words of a range, at even distances, show later whether it still has what was read: memory that was freed may
 * have another use, as that of a stream. */
#define SAMPLES 8

struct ring {
	struct {
		uintptr_t low, high;
		enum hwio_left why;
		bool has_samples;
		uint64_t samples[SAMPLES];
	} ranges[REMEMBERED];
	unsigned int next;
};

static struct ring reads, gathers;
static struct {
	uint64_t operations, bytes, gain_ns;
} sums[HWIO_PATTERNS][HWIO_LEFTS];
/* Of what was read and left: all of it, and what hasn't been sent. */
static uint64_t read_bytes, unsent_bytes;
static double (*gain_of)(enum hwio_pattern pattern, size_t bytes);

struct hwio_left_bounds hwio_left_reads = {.low = UINTPTR_MAX}, hwio_left_gathers = {.low = UINTPTR_MAX};

static uintptr_t sample_at(uintptr_t low, uintptr_t high, size_t number)
{
	return low + (high - low - sizeof(uint64_t)) / (SAMPLES - 1) * number;
}

static void remember(struct ring *ring, struct hwio_left_bounds *bounds, uintptr_t low, size_t bytes,
	enum hwio_left why, bool is_sampled)
{
	unsigned int at = __atomic_fetch_add(&ring->next, 1, __ATOMIC_RELAXED) % REMEMBERED;
	ring->ranges[at].low = low;
	ring->ranges[at].high = low + bytes;
	ring->ranges[at].why = why;
	ring->ranges[at].has_samples = false;
	if (low < bounds->low)
		bounds->low = low;
	if (low + bytes > bounds->high)
		bounds->high = low + bytes;
	for (size_t i = 0; is_sampled && i < SAMPLES; i++)
		memcpy(&ring->ranges[at].samples[i], (void *)sample_at(low, low + bytes, i), sizeof(uint64_t));
	ring->ranges[at].has_samples = is_sampled;
}

/* Returns true if the part of the range in [low, high), which MPI may read, has what was read, as far as samples show. */
static bool is_unchanged(const struct ring *ring, unsigned int at, uintptr_t low, uintptr_t high)
{
	uintptr_t range_low = ring->ranges[at].low, range_high = ring->ranges[at].high;
	for (size_t i = 0; ring->ranges[at].has_samples && range_high - range_low >= 4096 && i < SAMPLES; i++) {
		uint64_t word;
		uintptr_t sample = sample_at(range_low, range_high, i);
		struct iovec here = {&word, sizeof(word)}, there = {(void *)sample, sizeof(word)};
		/* A system call, for calls with wrong arguments. */
		if (sample >= low && sample + sizeof(word) <= high &&
			hwio_libc.process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof(word) &&
			word != ring->ranges[at].samples[i])
			return false;
	}
	return true;
}

/* Returns why the newest range at `low` was left; with `is_last`, removes it. A range that has changed is removed. */
static enum hwio_left find_reason(struct ring *ring, uintptr_t low, size_t bytes, bool is_last)
{
	for (unsigned int i = 1; i <= REMEMBERED; i++) {
		unsigned int at = (ring->next - i) % REMEMBERED;
		if (ring->ranges[at].low > low || low >= ring->ranges[at].high)
			continue;
		enum hwio_left why = is_unchanged(ring, at, low, low + bytes) ? ring->ranges[at].why : HWIO_NOT_LEFT;
		if (is_last || why == HWIO_NOT_LEFT)
			ring->ranges[at].high = ring->ranges[at].low;
		return why;
	}
	return HWIO_NOT_LEFT;
}

static bool is_regular(int descriptor)
{
	struct stat status;
	return hwio_status_untimed(descriptor, NULL, &status) && S_ISREG(status.st_mode);
}

static void note_read(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why, bool is_sampled)
{
	int saved = errno;
	if (why != HWIO_NOT_LEFT && bytes >= (ssize_t)HWIO_LEFT_BYTES_MIN && hwio_mode != HWIO_OFF && hwio_depth == 0 &&
		is_regular(descriptor)) {
		remember(&reads, &hwio_left_reads, (uintptr_t)memory, (size_t)bytes, why, is_sampled);
		hwio_left_accessed((size_t)bytes);
	}
	errno = saved;
}

void hwio_left_read(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why)
{
	note_read(descriptor, memory, bytes, why, true);
}

void hwio_left_mapped(int descriptor, const void *memory, ssize_t bytes, enum hwio_left why)
{
	note_read(descriptor, memory, bytes, why, false);
}

void hwio_left_accessed(size_t bytes)
{
	__atomic_fetch_add(&read_bytes, bytes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&unsent_bytes, bytes, __ATOMIC_RELAXED);
}

void hwio_left_set_gain(double (*gain)(enum hwio_pattern pattern, size_t bytes))
{
	gain_of = gain;
}

void hwio_left_count(enum hwio_pattern pattern, size_t bytes, enum hwio_left why)
{
	if (why == HWIO_NOT_LEFT)
		return;
	double gain_s = gain_of ? gain_of(pattern, bytes) : 0;
	__atomic_fetch_add(&sums[pattern][why].operations, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums[pattern][why].bytes, bytes, __ATOMIC_RELAXED);
	if (gain_s > 0)
		__atomic_fetch_add(&sums[pattern][why].gain_ns, (uint64_t)(gain_s * 1e9), __ATOMIC_RELAXED);
}

void hwio_left_packed(const void *memory, size_t bytes)
{
	if (bytes >= HWIO_LEFT_BYTES_MIN)
		remember(&reads, &hwio_left_reads, (uintptr_t)memory, bytes, HWIO_LEFT_PACKED, false);
}

bool hwio_left_is_read(const void *memory)
{
	uintptr_t low = (uintptr_t)memory;
	for (unsigned int i = 0; i < REMEMBERED && hwio_left_is_near(&hwio_left_reads, memory); i++)
		if (reads.ranges[i].low <= low && low < reads.ranges[i].high)
			return true;
	return false;
}

bool hwio_left_any_unsent(void)
{
	uint64_t parsed = hwio_parsed_take();
	if (parsed >= HWIO_LEFT_BYTES_MIN)
		hwio_left_accessed(parsed);
	return __atomic_load_n(&unsent_bytes, __ATOMIC_RELAXED) > 0;
}

/* Returns true if so much of what was read hasn't been sent, and counts it as sent. */
static bool take_unsent(size_t bytes)
{
	uint64_t before = __atomic_load_n(&unsent_bytes, __ATOMIC_RELAXED);
	if (before < bytes)
		return false;
	__atomic_fetch_sub(&unsent_bytes, bytes, __ATOMIC_RELAXED);
	return true;
}

void hwio_left_forwarded_so(enum hwio_pattern pattern, const void *memory, size_t bytes, enum hwio_left instead)
{
	enum hwio_left why = HWIO_NOT_LEFT;
	bool is_near = hwio_left_is_near(&hwio_left_reads, memory);
	if (hwio_mode == HWIO_OFF || bytes < HWIO_LEFT_BYTES_MIN || !(is_near || hwio_left_any_unsent()))
		return;
	if (is_near)
		why = find_reason(&reads, (uintptr_t)memory, bytes, pattern == HWIO_READ_SCATTER);
	if (why == HWIO_LEFT_OFF)
		why = instead;
	bool is_unsent = take_unsent(bytes);
	hwio_left_count(pattern, bytes, why == HWIO_NOT_LEFT && is_unsent ? HWIO_LEFT_CHANGED : why);
}

void hwio_left_forwarded(enum hwio_pattern pattern, const void *memory, size_t bytes)
{
	hwio_left_forwarded_so(pattern, memory, bytes, HWIO_LEFT_OFF);
}

void hwio_left_gathered(const void *memory, size_t bytes, enum hwio_left why)
{
	if (why != HWIO_NOT_LEFT && bytes >= HWIO_LEFT_BYTES_MIN)
		remember(&gathers, &hwio_left_gathers, (uintptr_t)memory, bytes, why, false);
}

void hwio_left_written(const void *memory, size_t bytes)
{
	if (hwio_mode != HWIO_OFF && hwio_depth == 0 && bytes >= HWIO_LEFT_BYTES_MIN &&
		hwio_left_is_near(&hwio_left_gathers, memory))
		hwio_left_count(HWIO_GATHER_WRITE, bytes, find_reason(&gathers, (uintptr_t)memory, bytes, true));
}

bool hwio_left_sum(enum hwio_pattern pattern, enum hwio_left why, struct hwio_left_sum *sum)
{
	sum->operations = __atomic_load_n(&sums[pattern][why].operations, __ATOMIC_RELAXED);
	sum->bytes = __atomic_load_n(&sums[pattern][why].bytes, __ATOMIC_RELAXED);
	sum->seconds = (double)__atomic_load_n(&sums[pattern][why].gain_ns, __ATOMIC_RELAXED) * 1e-9;
	return sum->operations > 0;
}

uint64_t hwio_left_read_bytes(void)
{
	return __atomic_load_n(&read_bytes, __ATOMIC_RELAXED);
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
		[HWIO_LEFT_OFF] = "what was read there before was accessed at once",
		[HWIO_LEFT_PACKED] = "MPI_Pack copies the data: send it by a datatype instead",
		[HWIO_LEFT_PERSISTENT] = "a persistent request sends the data: use MPI_Isend for what is read once",
		[HWIO_LEFT_AT_ONCE] = "MPI_Ibcast sends the data: MPI_Bcast has the ranks read it",
		[HWIO_LEFT_CHANGED] = "the program seems to have changed or copied the data before",
	};
	return reasons[why];
}
