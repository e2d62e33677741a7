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
/* What is shorter than this is noted at first, and then each 251st time, which stands for all 251: an operation of 4 KB
 * takes a microsecond, and noting it takes four. 251 is prime, so that it does not alias with cycles of calls. */
#define ALWAYS_BYTES_MIN (4UL << 20)
#define ALWAYS_FIRST 100
#define ONE_OF 251

struct ring {
	struct {
		uintptr_t low, high;
		/* How many ranges it stands for, and how often it was found. */
		unsigned int stands_for, found;
		enum hwio_left why;
		bool has_samples;
		uint64_t samples[SAMPLES];
	} ranges[REMEMBERED];
	unsigned int next, short_ones;
	struct hwio_left_bounds *bounds;
};

struct hwio_left_bounds hwio_left_reads, hwio_left_gathers;
static struct ring reads = {.bounds = &hwio_left_reads}, gathers = {.bounds = &hwio_left_gathers};
static struct {
	uint64_t operations, bytes, gain_ns;
} sums[HWIO_PATTERNS][HWIO_LEFTS];
/* Of what was read and left: all of it, and what hasn't been sent. */
static uint64_t read_bytes, unsent_bytes;
static double (*gain_of)(enum hwio_pattern pattern, size_t bytes);

static uintptr_t sample_at(uintptr_t low, uintptr_t high, size_t number)
{
	return low + (high - low - sizeof(uint64_t)) / (SAMPLES - 1) * number;
}

/* Returns for how many a range that is to be noted stands, or 0. */
static unsigned int stands_for(struct ring *ring, size_t bytes)
{
	if (bytes >= ALWAYS_BYTES_MIN)
		return 1;
	unsigned int number = __atomic_fetch_add(&ring->short_ones, 1, __ATOMIC_RELAXED);
	return number < ALWAYS_FIRST ? 1 : number % ONE_OF == 0 ? ONE_OF : 0;
}

static void set_bounds(struct ring *ring)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	for (unsigned int i = 0; i < REMEMBERED; i++) {
		if (ring->ranges[i].low == ring->ranges[i].high)
			continue;
		low = hwio_least(low, ring->ranges[i].low);
		high = hwio_most(high, ring->ranges[i].high);
	}
	ring->bounds->low = low;
	ring->bounds->high = high;
}

static void remove_range(struct ring *ring, unsigned int at)
{
	ring->ranges[at].high = ring->ranges[at].low;
	set_bounds(ring);
}

/* Removes ranges whose memory has other content now. */
static void forget(struct ring *ring, uintptr_t low, size_t bytes)
{
	if (low >= ring->bounds->high || low + bytes <= ring->bounds->low)
		return;
	for (unsigned int i = 0; i < REMEMBERED; i++)
		if (ring->ranges[i].low < low + bytes && ring->ranges[i].high > low)
			remove_range(ring, i);
}

static void remember(struct ring *ring, uintptr_t low, size_t bytes, enum hwio_left why, unsigned int count,
	bool is_sampled)
{
	unsigned int at = __atomic_fetch_add(&ring->next, 1, __ATOMIC_RELAXED) % REMEMBERED;
	ring->ranges[at].low = low;
	ring->ranges[at].high = low + bytes;
	ring->ranges[at].stands_for = count;
	ring->ranges[at].found = 0;
	ring->ranges[at].why = why;
	ring->ranges[at].has_samples = false;
	set_bounds(ring);
	for (size_t i = 0; is_sampled && i < SAMPLES; i++)
		memcpy(&ring->ranges[at].samples[i], (void *)sample_at(low, low + bytes, i), sizeof(uint64_t));
	ring->ranges[at].has_samples = is_sampled;
}

/* Returns true if the part of the range in [low, high), which MPI may read, has what was read, as far as samples show. */
static bool is_unchanged(const struct ring *ring, unsigned int at, uintptr_t low, uintptr_t high)
{
	uintptr_t range_low = ring->ranges[at].low, range_high = ring->ranges[at].high;
	uint64_t words[SAMPLES], expected[SAMPLES];
	struct iovec here = {words, 0}, there[SAMPLES];
	size_t count = 0;
	for (size_t i = 0; ring->ranges[at].has_samples && range_high - range_low >= 4096 && i < SAMPLES; i++) {
		uintptr_t sample = sample_at(range_low, range_high, i);
		if (sample < low || sample + sizeof(uint64_t) > high)
			continue;
		there[count] = (struct iovec){(void *)sample, sizeof(uint64_t)};
		expected[count++] = ring->ranges[at].samples[i];
	}
	here.iov_len = count * sizeof(uint64_t);
	/* A system call, for calls with wrong arguments. */
	ssize_t got = count > 0 ? hwio_libc.process_vm_readv(getpid(), &here, 1, there, count, 0) : 0;
	return got <= 0 || memcmp(words, expected, (size_t)got & -sizeof(uint64_t)) == 0;
}

/* Returns why the newest range at `low` was left, and how many it stands for; with `is_last`, removes it. A range that
 * has changed is removed; that is examined the first 251 times and then each 251st time. */
static enum hwio_left find_reason(struct ring *ring, uintptr_t low, size_t bytes, bool is_last, unsigned int *count)
{
	*count = 1;
	for (unsigned int i = 1; i <= REMEMBERED; i++) {
		unsigned int at = (ring->next - i) % REMEMBERED;
		if (ring->ranges[at].low > low || low >= ring->ranges[at].high)
			continue;
		unsigned int found = ring->ranges[at].found++;
		bool is_examined = found < ONE_OF || found % ONE_OF == 0;
		bool is_same = !is_examined || is_unchanged(ring, at, low, low + bytes);
		enum hwio_left why = is_same ? ring->ranges[at].why : HWIO_NOT_LEFT;
		*count = ring->ranges[at].stands_for;
		if (is_last || why == HWIO_NOT_LEFT)
			remove_range(ring, at);
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
	if (why == HWIO_NOT_LEFT || bytes < (ssize_t)HWIO_LEFT_BYTES_MIN || hwio_mode == HWIO_OFF || hwio_depth > 0)
		return;
	int saved = errno;
	unsigned int count = stands_for(&reads, (size_t)bytes);
	forget(&reads, (uintptr_t)memory, (size_t)bytes);
	if (count > 0 && is_regular(descriptor)) {
		remember(&reads, (uintptr_t)memory, (size_t)bytes, why, count, is_sampled);
		hwio_left_accessed(count * (size_t)bytes);
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

static void count_left(enum hwio_pattern pattern, size_t bytes, enum hwio_left why, unsigned int count)
{
	if (why == HWIO_NOT_LEFT)
		return;
	double gain_s = gain_of ? gain_of(pattern, bytes) : 0;
	__atomic_fetch_add(&sums[pattern][why].operations, count, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums[pattern][why].bytes, count * bytes, __ATOMIC_RELAXED);
	if (gain_s > 0)
		__atomic_fetch_add(&sums[pattern][why].gain_ns, (uint64_t)(count * gain_s * 1e9), __ATOMIC_RELAXED);
}

void hwio_left_count(enum hwio_pattern pattern, size_t bytes, enum hwio_left why)
{
	count_left(pattern, bytes, why, 1);
}

void hwio_left_packed(const void *memory, size_t bytes)
{
	if (bytes >= HWIO_LEFT_BYTES_MIN)
		remember(&reads, (uintptr_t)memory, bytes, HWIO_LEFT_PACKED, 1, false);
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
	unsigned int count = 1;
	bool is_near = hwio_left_is_near(&hwio_left_reads, memory);
	if (hwio_mode == HWIO_OFF || bytes < HWIO_LEFT_BYTES_MIN || !(is_near || hwio_left_any_unsent()))
		return;
	if (is_near)
		why = find_reason(&reads, (uintptr_t)memory, bytes, pattern == HWIO_READ_SCATTER, &count);
	if (why == HWIO_LEFT_OFF)
		why = instead;
	bool is_unsent = take_unsent(count * bytes);
	count_left(pattern, bytes, why == HWIO_NOT_LEFT && is_unsent ? HWIO_LEFT_CHANGED : why, count);
}

void hwio_left_forwarded(enum hwio_pattern pattern, const void *memory, size_t bytes)
{
	hwio_left_forwarded_so(pattern, memory, bytes, HWIO_LEFT_OFF);
}

void hwio_left_gathered(const void *memory, size_t bytes, enum hwio_left why)
{
	if (why == HWIO_NOT_LEFT || bytes < HWIO_LEFT_BYTES_MIN)
		return;
	unsigned int count = stands_for(&gathers, bytes);
	forget(&gathers, (uintptr_t)memory, bytes);
	if (count > 0)
		remember(&gathers, (uintptr_t)memory, bytes, why, count, false);
}

void hwio_left_written(const void *memory, size_t bytes)
{
	unsigned int count;
	if (hwio_mode == HWIO_OFF || hwio_depth > 0 || bytes < HWIO_LEFT_BYTES_MIN ||
		!hwio_left_is_near(&hwio_left_gathers, memory))
		return;
	enum hwio_left why = find_reason(&gathers, (uintptr_t)memory, bytes, true, &count);
	count_left(HWIO_GATHER_WRITE, bytes, why, count);
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
