/* Transfers runs between file and memory in as few system calls as their pieces allow. */
#include "mpi/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "memory/deferred.h"
#include "real.h"

/* Beyond this, comparing costs as much as sending. */
#define COMPARED_BYTES_MAX (8UL << 20)
#define VECTOR_MAX 512
/* Limits of requests ahead for strided pieces. FUSE drops requests ahead when more are under way; each piece would then
 * be requested again, one after another. */
#define AHEAD_BYTES (16UL << 20)
#define AHEAD_PIECES 32
/* Pieces of at most so many bytes, with smaller gaps than this, are read together, about so many bytes at once. */
#define SIEVED_BYTES_MAX (64UL << 10)
#define SIEVED_GAP_BYTES_MAX (8UL << 10)
#define SIEVE_BYTES (4UL << 20)

static bool is_apart(const struct hwio_run *run, const struct hwio_run *earlier, uint64_t apart)
{
	return run->offset == earlier->offset + apart && run->bytes == earlier->bytes && run->count == earlier->count &&
		run->stride == earlier->stride;
}

/* Returns how many of the listed runs repeat the `pattern` ones from `head` on, and the distance. */
static uint32_t repeated_runs(const struct hwio_runs *runs, uint32_t head, uint32_t pattern, uint64_t *apart)
{
	uint32_t at = head + pattern;
	*apart = runs->run[at].offset - runs->run[head].offset;
	if (runs->run[at].offset <= runs->run[head].offset)
		return 0;
	while (at < runs->count && is_apart(&runs->run[at], &runs->run[at - pattern], *apart))
		at++;
	return (at - head) / pattern * pattern;
}

/* Finds the first repetition in a full list, and shortens it. */
static void find_repetition(struct hwio_runs *runs)
{
	for (uint32_t head = 0; head <= HWIO_RUNS_MAX / 2; head++)
		for (uint32_t pattern = 1; head + 3 * pattern <= HWIO_RUNS_MAX; pattern++) {
			uint64_t apart;
			uint32_t repeated = repeated_runs(runs, head, pattern, &apart);
			if (repeated < 3 * pattern)
				continue;
			uint32_t left = runs->count - head - repeated;
			memmove(&runs->run[head + pattern], &runs->run[head + repeated], left * sizeof(runs->run[0]));
			runs->head = head;
			runs->pattern = pattern;
			runs->repetitions = repeated / pattern;
			runs->apart = apart;
			runs->count = head + pattern + left;
			return;
		}
}

/* Counts the runs at the end as one more repetition, if they are. */
static void repeat(struct hwio_runs *runs)
{
	const struct hwio_run *pattern = &runs->run[runs->head], *behind = pattern + runs->pattern;
	if (runs->count != runs->head + 2 * runs->pattern || runs->repetitions == HWIO_RUNS_REPEATED_MAX)
		return;
	for (uint32_t i = 0; i < runs->pattern; i++)
		if (!is_apart(&behind[i], &pattern[i], runs->repetitions * runs->apart))
			return;
	runs->repetitions++;
	runs->count -= runs->pattern;
}

bool hwio_runs_append(struct hwio_runs *runs, uint64_t offset, uint64_t bytes)
{
	if (bytes == 0)
		return true;
	bool is_open = runs->count > runs->head + runs->pattern || (runs->pattern == 0 && runs->count > 0);
	struct hwio_run *last = is_open ? &runs->run[runs->count - 1] : NULL;
	if (last && last->count == 1 && last->offset + last->bytes == offset) {
		last->bytes += bytes;
		last->stride = last->bytes;
		return true;
	}
	if (last && last->bytes == bytes && offset > last->offset) {
		if (last->count == 1 && offset - last->offset >= bytes) {
			last->stride = offset - last->offset;
			last->count = 2;
			return true;
		}
		if (last->count > 1 && last->offset + last->count * last->stride == offset) {
			last->count++;
			return true;
		}
	}
	if (runs->pattern > 0)
		repeat(runs);
	else if (runs->count == HWIO_RUNS_MAX)
		find_repetition(runs);
	if (runs->count == HWIO_RUNS_MAX)
		return false;
	runs->run[runs->count++] = (struct hwio_run){.offset = offset, .bytes = bytes, .stride = bytes, .count = 1};
	return true;
}

uint64_t hwio_runs_bytes(const struct hwio_runs *runs)
{
	uint64_t bytes = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		bytes += run.bytes * run.count;
	}
	return bytes;
}

uint64_t hwio_runs_pieces(const struct hwio_runs *runs)
{
	uint64_t pieces = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++)
		pieces += hwio_runs_at(runs, i).count;
	return pieces;
}

bool hwio_runs_are_bounded(const struct hwio_runs *runs)
{
	return runs->count <= HWIO_RUNS_MAX && runs->head <= runs->count && runs->pattern <= runs->count - runs->head &&
		runs->repetitions <= HWIO_RUNS_REPEATED_MAX && (runs->pattern > 0) == (runs->repetitions > 0) &&
		runs->apart <= INT64_MAX / HWIO_RUNS_REPEATED_MAX;
}

bool hwio_runs_are_sound(const struct hwio_runs *runs, uint64_t bytes)
{
	uint64_t all = 0;
	if (!hwio_runs_are_bounded(runs))
		return false;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		uint64_t part, last, end;
		if (run.bytes == 0 || run.count == 0 || (run.count > 1 && run.stride < run.bytes) ||
			__builtin_mul_overflow(run.bytes, run.count, &part) ||
			__builtin_add_overflow(all, part, &all) || all > bytes ||
			__builtin_mul_overflow(run.stride, run.count - 1, &last) ||
			__builtin_add_overflow(run.offset, last, &last) ||
			__builtin_add_overflow(last, run.bytes, &end) || end > INT64_MAX)
			return false;
	}
	return all == bytes;
}

static bool is_same(const struct hwio_file *file, off_t offset, const char *memory, size_t bytes, size_t *compared)
{
	char piece[16384];
	*compared += bytes;
	if (*compared > COMPARED_BYTES_MAX)
		return false;
	while (bytes > 0) {
		size_t part = bytes < sizeof(piece) ? bytes : sizeof(piece);
		if (!hwio_read_whole(file->descriptor, piece, part, offset) || memcmp(piece, memory, part) != 0)
			return false;
		memory += part;
		offset += (off_t)part;
		bytes -= part;
	}
	return true;
}

bool hwio_runs_of(const struct hwio_layout *layout, struct hwio_runs *runs, struct hwio_file **file,
	struct hwio_context **context, bool is_observing)
{
	size_t compared = 0;
	/* New bytes extend the last piece; a strided piece becomes part of a run when it is whole. */
	uint64_t piece_offset = 0, piece_bytes = 0;
	hwio_runs_clear(runs);
	*file = NULL;
	for (size_t i = 0; i < layout->count; i++) {
		uintptr_t at = (uintptr_t)(layout->buffer + layout->blocks[i].at), end = at + layout->blocks[i].bytes;
		for (size_t index = hwio_record_find(at); at < end; index++) {
			const struct hwio_record *record = hwio_record_at(index);
			if (!record || record->low > at || (*file && *file != record->file))
				return false;
			uintptr_t stop = record->high < end ? record->high : end;
			off_t offset = record->offset + (off_t)(at - record->low);
			if (record->state == HWIO_PEEKED &&
				!is_same(record->file, offset, (char *)at, stop - at, &compared))
				return false;
			if (record->state != HWIO_MAPPED && (record->state == HWIO_OBSERVED) != is_observing)
				return false;
			*file = record->file;
			/* Data from a stream's buffer has no context. */
			*context = record->context ? record->context : *context;
			if (piece_bytes > 0 && piece_offset + piece_bytes == (uint64_t)offset) {
				piece_bytes += stop - at;
			} else {
				if (!hwio_runs_append(runs, piece_offset, piece_bytes))
					return false;
				piece_offset = (uint64_t)offset;
				piece_bytes = stop - at;
			}
			at = stop;
		}
	}
	return *file && hwio_runs_append(runs, piece_offset, piece_bytes);
}

/* Walks a layout's blocks as a stream. */
struct walk {
	const struct hwio_layout *layout;
	size_t block, done;
};

static size_t gather_vector(struct walk *walk, size_t bytes, struct iovec *vector, size_t *filled)
{
	size_t count = 0;
	*filled = 0;
	while (bytes > 0 && count < VECTOR_MAX && walk->block < walk->layout->count) {
		const struct hwio_block *block = &walk->layout->blocks[walk->block];
		size_t part = block->bytes - walk->done < bytes ? block->bytes - walk->done : bytes;
		vector[count++] = (struct iovec){walk->layout->buffer + block->at + walk->done, part};
		*filled += part;
		bytes -= part;
		walk->done += part;
		if (walk->done == block->bytes) {
			walk->block++;
			walk->done = 0;
		}
	}
	return count;
}

static bool move_vector(int descriptor, struct iovec *vector, size_t count, off_t offset, bool is_write)
{
	while (count > 0) {
		ssize_t moved = is_write ? hwio_libc.pwritev(descriptor, vector, (int)count, offset)
					 : hwio_libc.preadv(descriptor, vector, (int)count, offset);
		if (moved < 0 && errno == EINTR)
			continue;
		if (moved <= 0)
			return false;
		offset += moved;
		while (count > 0 && (size_t)moved >= vector->iov_len) {
			moved -= (ssize_t)vector->iov_len;
			vector++;
			count--;
		}
		if (count > 0) {
			vector->iov_base = (char *)vector->iov_base + moved;
			vector->iov_len -= (size_t)moved;
		}
	}
	return true;
}

static bool move_piece(int descriptor, struct walk *walk, uint64_t offset, uint64_t bytes, bool is_write)
{
	struct iovec vector[VECTOR_MAX];
	while (bytes > 0) {
		size_t filled, count = gather_vector(walk, bytes, vector, &filled);
		if (count == 0 || !move_vector(descriptor, vector, count, (off_t)offset, is_write))
			return false;
		offset += filled;
		bytes -= filled;
	}
	return true;
}

/* Returns true for small pieces near each other: on a network file system a request costs more than the bytes
 * between. */
static bool is_worth_sieving(const struct hwio_run *run)
{
	return run->count > 2 && run->bytes <= SIEVED_BYTES_MAX && run->stride - run->bytes < SIEVED_GAP_BYTES_MAX;
}

static uint64_t span_of(const struct hwio_run *run)
{
	return (run->count - 1) * run->stride + run->bytes;
}

/* Pieces of a run that are read at once. */
static uint64_t sieved_at_once(const struct hwio_run *run)
{
	return SIEVE_BYTES / run->stride + 1;
}

uint64_t hwio_runs_reads(const struct hwio_runs *runs, bool is_shared)
{
	uint64_t reads = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		uint64_t at_once = is_shared && is_worth_sieving(&run) ? sieved_at_once(&run) : 1;
		reads += (run.count + at_once - 1) / at_once;
	}
	return reads;
}

uint64_t hwio_runs_read_bytes(const struct hwio_runs *runs)
{
	uint64_t bytes = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		if (is_worth_sieving(&run))
			bytes += span_of(&run);
		else
			for (uint64_t piece = 0; piece < run.count; piece++) {
				uint64_t at = run.offset + piece * run.stride;
				bytes += hwio_page_up(at + run.bytes) - hwio_page_down(at);
			}
	}
	return bytes;
}

/* Copies a stream of bytes into the layout. */
static void copy_stream(struct walk *walk, const char *from, uint64_t bytes)
{
	struct iovec vector[VECTOR_MAX];
	while (bytes > 0) {
		size_t filled, count = gather_vector(walk, bytes, vector, &filled);
		for (size_t i = 0; i < count; i++) {
			memcpy(vector[i].iov_base, from, vector[i].iov_len);
			from += vector[i].iov_len;
		}
		if (count == 0)
			return;
		bytes -= filled;
	}
}

/* Reads a run with the gaps between its pieces: data sieving, after Thakur, Gropp and Lusk. */
static bool read_sieved(int descriptor, struct walk *walk, const struct hwio_run *run)
{
	uint64_t at_once = sieved_at_once(run);
	char *sieve = hwio_libc.mmap(NULL, at_once * run->stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	if (sieve == MAP_FAILED)
		return false;
	bool is_good = true;
	for (uint64_t piece = 0; piece < run->count && is_good; piece += at_once) {
		uint64_t count = run->count - piece < at_once ? run->count - piece : at_once;
		uint64_t offset = run->offset + piece * run->stride;
		is_good = hwio_read_whole(descriptor, sieve, (count - 1) * run->stride + run->bytes, (off_t)offset);
		for (uint64_t i = 0; i < count && is_good; i++)
			copy_stream(walk, sieve + i * run->stride, run->bytes);
	}
	hwio_libc.munmap(sieve, at_once * run->stride);
	return is_good;
}

/* Requests small runs from one on that is about to be read, so that their requests overlap. `next`: the first that hasn't
 * been requested. */
static void request_ahead(int descriptor, const struct hwio_runs *runs, uint64_t index, uint64_t *next)
{
	for (*next = *next > index ? *next : index; *next < hwio_runs_count(runs); ++*next) {
		struct hwio_run run = hwio_runs_at(runs, *next);
		if (!is_worth_sieving(&run) || (*next - index + 1) * span_of(&run) > SIEVE_BYTES)
			return;
		posix_fadvise(descriptor, (off_t)run.offset, (off_t)span_of(&run), POSIX_FADV_WILLNEED);
	}
}

static bool transfer_from(struct walk walk, int descriptor, const struct hwio_runs *runs, bool is_write)
{
	hwio_step_in();
	bool is_good = true;
	uint64_t next = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs) && is_good; i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		uint64_t ahead = 0;
		if (!is_write && is_worth_sieving(&run) && hwio_file_system_is_shared(descriptor)) {
			request_ahead(descriptor, runs, i, &next);
			is_good = read_sieved(descriptor, &walk, &run);
			continue;
		}
		for (uint64_t piece = 0; piece < run.count && is_good; piece++) {
			/* Scattered pieces defeat the kernel's own readahead, so the requests are made explicitly, and
			 * overlap. */
			if (!is_write && run.count > 1)
				for (; ahead < run.count && ahead < piece + AHEAD_PIECES &&
					(ahead - piece) * run.bytes < AHEAD_BYTES;
					ahead++)
					posix_fadvise(descriptor, (off_t)(run.offset + ahead * run.stride),
						(off_t)run.bytes, POSIX_FADV_WILLNEED);
			is_good = move_piece(descriptor, &walk, run.offset + piece * run.stride, run.bytes, is_write);
		}
	}
	hwio_step_out();
	return is_good;
}

bool hwio_runs_transfer(int descriptor, const struct hwio_runs *runs, const struct hwio_layout *layout, bool is_write)
{
	return transfer_from((struct walk){layout, 0, 0}, descriptor, runs, is_write);
}

bool hwio_runs_write(int descriptor, const struct hwio_runs *runs, const struct hwio_layout *layout, uint64_t skip)
{
	struct walk walk = {layout, 0, 0};
	while (walk.block < layout->count && layout->blocks[walk.block].bytes <= skip)
		skip -= layout->blocks[walk.block++].bytes;
	walk.done = skip;
	return transfer_from(walk, descriptor, runs, true);
}
