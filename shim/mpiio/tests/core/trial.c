/* Which route collective operations take: the faster one, trials, and an early end where nothing is gained. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mpi/trial.h"

/* Runs operations of so many bytes, which take so long by each route. Returns how many one rank did; `asked`: on how
 * many all ranks agreed. */
static int run(struct hwio_trial *trial, int operations, int64_t all_ns, int64_t one_ns, int64_t bytes, int *asked)
{
	struct hwio_pair pair = {0};
	int64_t all_took = 0, one_took = 0;
	const char *why = NULL;
	int by_one = 0;
	*asked = 0;
	for (int i = 0; i < operations && trial->step != HWIO_COURSE_OVER; i++) {
		if (!hwio_trial_asks(trial)) {
			hwio_trial_passes(trial);
			all_took = all_ns;
			continue;
		}
		++*asked;
		hwio_trial_learns(trial, &pair, all_took, all_took ? bytes : 0, one_took);
		all_took = one_took = 0;
		if (hwio_trial_takes(trial, &pair, bytes > 0, bytes, &why)) {
			hwio_trial_has_taken(trial, one_ns > 0, &why);
			by_one++;
			one_took = one_ns;
		}
	}
	assert((trial->step == HWIO_COURSE_OVER) == (why != NULL));
	return by_one;
}

static void is_kept_where_it_is_quicker(void)
{
	struct hwio_trial trial = {0};
	int asked, by_one = run(&trial, 1000, 100000, 50000, 4096, &asked);
	/* Two operations of each trial take the other route. */
	assert(trial.step != HWIO_COURSE_OVER && by_one == 996 && asked == 996 && trial.trials == 1);
	by_one = run(&trial, 100000, 100000, 50000, 4096, &asked);
	assert(by_one >= 99996 && trial.trials == 2);
	/* A change is noticed as long as trials go on. */
	trial = (struct hwio_trial){0};
	run(&trial, 400, 100000, 50000, 4096, &asked);
	run(&trial, 200, 100000, 200000, 4096, &asked);
	assert(trial.step == HWIO_COURSE_OVER);
}

static void ends_where_nothing_is_gained(void)
{
	static const struct {
		int64_t all_ns, one_ns, bytes;
	} cases[] = {/* It is slower, or hardly quicker; can't be done; fails. */
		{100000, 200000, 4096}, {100000, 90000, 4096}, {100000, 1000, 0}, {100000, 0, 4096}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hwio_trial trial = {0};
		int asked;
		run(&trial, 1000, cases[i].all_ns, cases[i].one_ns, cases[i].bytes, &asked);
		assert(trial.step == HWIO_COURSE_OVER && asked == 3);
	}
}

static void what_differs_is_not_compared(void)
{
	struct hwio_trial trial = {0};
	struct hwio_pair pair = {0};
	const char *why = NULL;
	hwio_trial_passes(&trial);
	hwio_trial_learns(&trial, &pair, 1000000, 65536, 0);
	assert(hwio_trial_takes(&trial, &pair, true, 100, &why) && !pair.is_comparable);
	hwio_trial_learns(&trial, &pair, 0, 0, 1000);
	assert(trial.one_ns == 0 && trial.all_ns == 0);
}

static void goes_on_with_the_next_file(void)
{
	struct hwio_trial trial = {0};
	int asked, by_one = 0;
	/* With three operations a file, the last begins a pair, which begins again. */
	for (int file = 0; file < 10; file++) {
		int64_t step = trial.step;
		by_one += run(&trial, 3, 100000, 50000, 4096, &asked);
		hwio_trial_pauses(&trial, step);
		assert(trial.step == HWIO_COURSE_OVER || trial.step != 3);
	}
	/* The time of one operation through one rank was never reported. */
	assert(by_one > 0);
	/* Files of one operation each make no progress. */
	trial = (struct hwio_trial){0};
	for (int file = 0; file < 3; file++) {
		assert(trial.step == 0 && run(&trial, 1, 100000, 50000, 4096, &asked) == 0);
		hwio_trial_pauses(&trial, 0);
	}
	assert(trial.step == HWIO_COURSE_OVER);
}

static void all_go_where_it_is_forced(void)
{
	struct hwio_trial trial = {.step = HWIO_COURSE_FORCED};
	int asked;
	assert(run(&trial, 100, 1, 100, 4096, &asked) == 100 && asked == 100);
	assert(run(&trial, 100, 1, 100, 0, &asked) == 0 && trial.step == HWIO_COURSE_FORCED);
}

int main(void)
{
	is_kept_where_it_is_quicker();
	ends_where_nothing_is_gained();
	what_differs_is_not_compared();
	goes_on_with_the_next_file();
	all_go_where_it_is_forced();
	puts("ok");
	return 0;
}
