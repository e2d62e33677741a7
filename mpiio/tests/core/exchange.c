/* The calculations of an exchange, against a map of single bytes; and invalid plans. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "transfer/exchange/exchange.h"
#include "random.h"

#define BYTES 4096
#define ROUNDS 2000

/* Ascending runs in a range, and which bytes are theirs. */
static void make_runs(struct hwio_runs *runs, bool map[BYTES])
{
	uint64_t at = random_below(64);
	memset(runs, 0, sizeof(*runs));
	memset(map, 0, BYTES);
	while (runs->count < HWIO_RUNS_MAX) {
		struct hwio_run run = {.offset = at, .bytes = 1 + random_below(40), .count = 1 + random_below(8)};
		run.stride = run.bytes + random_below(30);
		uint64_t end = run.offset + (run.count - 1) * run.stride + run.bytes;
		if (end > BYTES)
			break;
		for (uint64_t piece = 0; piece < run.count; piece++)
			memset(map + run.offset + piece * run.stride, true, run.bytes);
		runs->run[runs->count++] = run;
		at = end + random_below(50);
	}
}

static void bytes_are_counted(void)
{
	struct hwio_runs runs;
	bool map[BYTES];
	uint64_t below = 0;
	make_runs(&runs, map);
	CHECK(hwio_runs_are_ascending(&runs));
	for (uint64_t end = 0; end <= BYTES; end++) {
		CHECK(hwio_runs_below(&runs, end) == below);
		below += end < BYTES && map[end];
	}
	CHECK(hwio_runs_bytes(&runs) == below);
}

static void bad_plans_are_refused(void)
{
	struct hwio_plan plan = {.low = 0, .high = BYTES, .count = 1};
	bool map[BYTES];
	uint32_t own = 7;
	struct hwio_runs *runs = &plan.shares[0].runs;
	plan.shares[0].world_rank = hwio_rank;
	make_runs(runs, map);
	uint64_t bytes = hwio_runs_bytes(runs);
	CHECK(hwio_plan_is_good(&plan, bytes, &own) && own == 0);
	CHECK(bytes == 0 || !hwio_plan_is_good(&plan, bytes - 1, &own));
	plan.shares[0].skip = 1;
	CHECK(!hwio_plan_is_good(&plan, bytes, &own) && hwio_plan_is_good(&plan, bytes + 1, &own));
	plan.shares[0].skip = 0;
	if (runs->count == 0)
		return;
	struct hwio_plan bad = plan;
	struct hwio_run *run = &bad.shares[0].runs.run[random_below(runs->count)];
	switch (random_below(8)) {
	case 0:
		bad.count = HWIO_SHARES_MAX + 1 + (uint32_t)random_below(1000);
		break;
	case 1:
		bad.shares[0].world_rank = hwio_ranks + (int)random_below(5);
		break;
	case 2:
		bad.shares[0].world_rank = -1 - (int)random_below(5);
		break;
	case 3:
		bad.shares[0].runs.count = HWIO_RUNS_MAX + 1 + (uint32_t)random_below(1000);
		break;
	case 4:
		run->bytes = 0;
		break;
	case 5:
		run->stride = run->bytes - 1;
		break;
	case 6:
		run->count = UINT64_MAX - random_below(100);
		break;
	default:
		run->offset = BYTES + random_below(100);
		break;
	}
	CHECK(!hwio_plan_is_good(&bad, bytes, &own));
}

/* A rank alone writes its own data and nothing else. */
static void a_rank_alone_writes(void)
{
	char name[] = "/tmp/headwater-exchange-XXXXXX", content[BYTES], found[BYTES];
	struct hwio_plan plan = {.low = random_below(100), .count = 1};
	int file = mkstemp(name);
	CHECK(file >= 0);
	unlink(name);
	plan.high = plan.low + 1 + random_below(BYTES - 1);
	size_t bytes = plan.high - plan.low;
	plan.shares[0].world_rank = hwio_rank;
	plan.shares[0].runs = (struct hwio_runs){.count = 1};
	plan.shares[0].runs.run[0] = (struct hwio_run){plan.low, bytes, bytes, 1};
	for (size_t i = 0; i < BYTES; i++)
		content[i] = (char)random_word();
	struct hwio_layout layout = {.buffer = content, .bytes = bytes, .count = 1, .single = {0, bytes}};
	layout.blocks = &layout.single;
	char *space = hwio_exchange_space();
	CHECK(space && hwio_exchange(&plan, 0, &layout, file, space) == 0);
	CHECK(pread(file, found, BYTES, (off_t)plan.low) == (ssize_t)bytes);
	CHECK(memcmp(found, content, bytes) == 0);
	hwio_exchange_free(space);
	close(file);
}

/* Bytes that a plan doesn't cover stay as they were. */
static void holes_are_left_alone(void)
{
	char name[] = "/tmp/headwater-exchange-XXXXXX", before[BYTES], data[BYTES], found[BYTES];
	bool map[BYTES];
	struct hwio_plan plan = {.high = BYTES, .count = 1};
	int file = mkstemp(name);
	CHECK(file >= 0);
	unlink(name);
	make_runs(&plan.shares[0].runs, map);
	plan.shares[0].world_rank = hwio_rank;
	plan.low = random_below(64);
	while (plan.low > 0 && hwio_runs_below(&plan.shares[0].runs, plan.low) > 0)
		plan.low--;
	size_t bytes = hwio_runs_bytes(&plan.shares[0].runs), taken = 0;
	for (size_t i = 0; i < BYTES; i++) {
		before[i] = (char)random_word();
		data[i] = (char)random_word();
	}
	CHECK(pwrite(file, before, BYTES, 0) == BYTES);
	struct hwio_layout layout = {.buffer = data, .bytes = bytes, .count = 1, .single = {0, bytes}};
	layout.blocks = &layout.single;
	char *space = hwio_exchange_space();
	CHECK(space && hwio_exchange(&plan, 0, &layout, file, space) == 0);
	CHECK(pread(file, found, BYTES, 0) == BYTES);
	for (size_t i = 0; i < BYTES; i++)
		CHECK(found[i] == (map[i] ? data[taken++] : before[i]));
	hwio_exchange_free(space);
	close(file);
}

int main(void)
{
	random_start();
	hwio_rank = 1;
	hwio_ranks = 3;
	for (round_number = 0; round_number < ROUNDS; round_number++) {
		bytes_are_counted();
		bad_plans_are_refused();
	}
	for (round_number = 0; round_number < 20; round_number++)
		a_rank_alone_writes();
	for (round_number = 0; round_number < 200; round_number++)
		holes_are_left_alone();
	return 0;
}
