/* At steps 0 and 2 all ranks operate, at 1 and 3 one rank, and step 4 decides. */
#include "trial.h"

#define STEP_DECIDES 4
/* Number of operations through one rank before the next trial, and maximum of trials. */
#define STEP_AGAIN 512
#define TRIALS_MAX 3

static const char *const not_one_piece = "its ranks' parts are large, or don't make up one piece";

static void end_trial(struct hwio_trial *trial, const char **why, const char *reason)
{
	trial->step = HWIO_COURSE_OVER;
	*why = reason;
}

bool hwio_trial_asks(const struct hwio_trial *trial)
{
	return trial->step == HWIO_COURSE_FORCED || trial->step >= STEP_DECIDES || trial->step % 2 == 1;
}

void hwio_trial_passes(struct hwio_trial *trial)
{
	trial->step++;
}

static void keep_least(int64_t *least, int64_t value)
{
	if (*least == 0 || value < *least)
		*least = value;
}

void hwio_trial_learns(struct hwio_trial *trial, struct hwio_pair *pair, int64_t all_ns, int64_t all_bytes,
	int64_t one_ns)
{
	if (pair->is_comparable && one_ns > 0) {
		keep_least(&trial->all_ns, pair->all_ns);
		keep_least(&trial->one_ns, one_ns);
	}
	*pair = (struct hwio_pair){all_ns, all_bytes, false};
}

/* Requires a gain of a fifth: `one_ns` may be that of a rank that left early, and a tiny gain isn't worth the
 * change. */
static bool is_quicker(const struct hwio_trial *trial)
{
	return trial->one_ns > 0 && trial->one_ns < trial->all_ns / 5 * 4;
}

static void count_fruitless(struct hwio_trial *trial, const char **why, const char *reason)
{
	if (++trial->fruitless >= HWIO_FRUITLESS_MAX && trial->step != HWIO_COURSE_FORCED)
		end_trial(trial, why, reason);
}

bool hwio_trial_takes(struct hwio_trial *trial, struct hwio_pair *pair, bool can, int64_t bytes, const char **why)
{
	if (trial->step == HWIO_COURSE_FORCED)
		return can;
	if (trial->step == STEP_DECIDES && !is_quicker(trial)) {
		end_trial(trial, why, trial->fruitless > 0 ? not_one_piece : "one rank is not quicker");
		return false;
	}
	trial->step++;
	if (!can) {
		count_fruitless(trial, why, not_one_piece);
		return false;
	}
	pair->is_comparable = trial->step <= STEP_DECIDES && pair->all_ns > 0 && bytes <= 2 * pair->all_bytes &&
		pair->all_bytes <= 2 * bytes;
	if (trial->step > STEP_AGAIN && trial->trials + 1 < TRIALS_MAX) {
		*trial = (struct hwio_trial){.trials = trial->trials + 1};
		pair->is_comparable = false;
	}
	return true;
}

void hwio_trial_has_taken(struct hwio_trial *trial, bool was_done, const char **why)
{
	if (was_done)
		trial->fruitless = 0;
	else
		count_fruitless(trial, why, "one rank can't do it");
}

void hwio_trial_pauses(struct hwio_trial *trial, int64_t step)
{
	const char *why;
	/* Both operations of a pair must be of one file. */
	if (trial->step == 1 || trial->step == 3)
		trial->step--;
	if (trial->step == step && step < STEP_DECIDES)
		count_fruitless(trial, &why, "its files have too few of these operations");
}
