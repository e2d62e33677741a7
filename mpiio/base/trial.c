/* When a place that lost is tried again. */
#include "base/trial.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/engine.h"

static uint64_t state;
static bool is_counted, is_under_way;
static double counted_s, begun_s, next_s;

static double now(void)
{
	return is_counted ? counted_s : hwio_seconds();
}

/* Returns a number from 0 to below 1: xorshift64. */
static double random_part(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) / (double)(1ULL << 53);
}

/* Between once and twice the time that bounds what trials cost. */
static void set_next(double cost_s)
{
	next_s = now() + cost_s / HWIO_TRIAL_PART * (1 + random_part());
}

void hwio_trial_start(void)
{
	const char *number = getenv("HEADWATER_TEST_TRIALS");
	is_counted = number != NULL;
	state = number ? strtoull(number, NULL, 10) : (uint64_t)(hwio_seconds() * 1e9) ^ (uint64_t)getpid() << 32;
	state = state * 0x9e3779b97f4a7c15 | 1;
	is_under_way = false;
	counted_s = 0;
	random_part();
	if (random_part() < HWIO_TRIAL_PROBABILITY)
		next_s = now();
	else
		set_next(HWIO_TRIAL_S);
}

bool hwio_trial_begin(void)
{
	counted_s += HWIO_TRIAL_S;
	if (now() < next_s)
		return false;
	is_under_way = true;
	begun_s = now();
	/* If nothing ever shows what it was good for. */
	set_next(HWIO_TRIAL_S);
	return true;
}

void hwio_trial_end(void)
{
	double cost_s = now() - begun_s;
	if (!is_under_way)
		return;
	is_under_way = false;
	set_next(cost_s > HWIO_TRIAL_S ? cost_s : HWIO_TRIAL_S);
}
