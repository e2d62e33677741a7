/* Pieces of a file as runs, against a list of the pieces. */
#include <string.h>

#include "mpi/runs.h"
#include "random.h"

#define PIECES_MAX 20000
#define ROUNDS 3000

static struct piece {
	uint64_t offset, bytes;
} pieces[PIECES_MAX];
static size_t count;
static uint64_t all_bytes;

/* Adds a piece to the list, to the last one if that ends where this one begins. */
static bool add(struct hwio_runs *runs, uint64_t offset, uint64_t bytes)
{
	CHECK(count < PIECES_MAX);
	if (count > 0 && pieces[count - 1].offset + pieces[count - 1].bytes == offset)
		pieces[count - 1].bytes += bytes;
	else
		pieces[count++] = (struct piece){offset, bytes};
	all_bytes += bytes;
	return hwio_runs_append(runs, offset, bytes);
}

/* The pieces of the runs, those that follow each other as one. */
static void check(const struct hwio_runs *runs)
{
	struct piece now = {0};
	size_t at = 0;
	CHECK(hwio_runs_are_bounded(runs) && hwio_runs_are_sound(runs, all_bytes));
	CHECK(hwio_runs_bytes(runs) == all_bytes);
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		for (uint64_t k = 0; k < run.count; k++) {
			uint64_t offset = run.offset + k * run.stride;
			if (now.bytes > 0 && now.offset + now.bytes == offset) {
				now.bytes += run.bytes;
				continue;
			}
			if (now.bytes > 0)
				CHECK(pieces[at].offset == now.offset && pieces[at].bytes == now.bytes);
			at += now.bytes > 0;
			now = (struct piece){offset, run.bytes};
		}
	}
	CHECK(at + 1 == count && pieces[at].offset == now.offset && pieces[at].bytes == now.bytes);
}

static void start(struct hwio_runs *runs)
{
	memset(runs, 0xa5, sizeof(*runs));
	hwio_runs_clear(runs);
	count = 0;
	all_bytes = 0;
}

/* A block of three dimensions, whose first plane and last one may be cut. It is always one repetition. */
static void a_block_of_three_dimensions(void)
{
	struct hwio_runs runs;
	uint64_t planes = 1 + random_below(100), rows = 1 + random_below(20), bytes = 1 + random_below(50);
	uint64_t row = bytes + random_below(50), plane = row * (rows + random_below(10)), first = random_below(1000);
	uint64_t skipped = random_below(3) ? 0 : random_below(rows),
		 left = random_below(3) ? rows : 1 + random_below(rows);
	if (planes == 1)
		skipped = 0;
	start(&runs);
	for (uint64_t i = 0; i < planes; i++)
		for (uint64_t k = i == 0 ? skipped : 0; k < (i + 1 == planes ? left : rows); k++)
			CHECK(add(&runs, first + i * plane + k * row, bytes));
	check(&runs);
}

/* Anything else is described as it is, or not at all. */
static void random_pieces(void)
{
	struct hwio_runs runs;
	struct piece pattern[4];
	size_t in_pattern = 1 + random_below(4), times = random_below(40);
	uint64_t end = 0, apart;
	bool is_good = true;
	start(&runs);
	for (size_t i = random_below(12); i > 0; i--, end += random_below(100))
		is_good = is_good && add(&runs, end, 1 + random_below(30)) && (end += 30);
	uint64_t first = end, length = 0;
	for (size_t i = 0; i < in_pattern; i++) {
		pattern[i] = (struct piece){length, 1 + random_below(30)};
		length += pattern[i].bytes + random_below(20);
	}
	apart = length + random_below(20);
	for (size_t t = 0; t < times; t++)
		for (size_t i = 0; i < in_pattern; i++)
			is_good = is_good && add(&runs, first + t * apart + pattern[i].offset, pattern[i].bytes);
	for (size_t i = random_below(12); i > 0; i--)
		is_good = is_good && add(&runs, random_below(100000), 1 + random_below(30));
	if (is_good && count > 0)
		check(&runs);
}

static void bad_runs_are_refused(void)
{
	struct hwio_runs runs;
	start(&runs);
	for (uint64_t i = 0; i < 200; i++)
		CHECK(add(&runs, i * 1000 + i % 2, 10 + i % 2));
	check(&runs);
	CHECK(runs.repetitions > 0);
	switch (random_below(6)) {
	case 0:
		runs.count = HWIO_RUNS_MAX + 1 + (uint32_t)random_below(1000);
		break;
	case 1:
		runs.head = runs.count + 1 + (uint32_t)random_below(1000);
		break;
	case 2:
		runs.pattern = runs.count - runs.head + 1 + (uint32_t)random_below(1000);
		break;
	case 3:
		runs.repetitions = random_below(2) ? 0 : HWIO_RUNS_REPEATED_MAX + 1;
		break;
	case 4:
		runs.apart = INT64_MAX / 2;
		break;
	default:
		runs.repetitions++;
		break;
	}
	CHECK(!hwio_runs_are_sound(&runs, all_bytes));
}

int main(void)
{
	random_start();
	for (round_number = 0; round_number < ROUNDS; round_number++) {
		a_block_of_three_dimensions();
		random_pieces();
		bad_runs_are_refused();
	}
	return 0;
}
