/* Steps 0 and 2 go by all ranks, 1 and 3 by one, at 4 it is decided. */
#include "course.h"

#define STEP_DECIDES 4
/* Operations through one rank, until both ways are tried again; and how often that is done. */
#define STEP_AGAIN 512
#define TRIALS_MAX 3

static const char *const not_one_piece = "its ranks' parts are large, or don't make up one piece";

static void end(struct hwio_course *course, const char **why, const char *reason)
{
	course->step = HWIO_COURSE_OVER;
	*why = reason;
}

bool hwio_course_asks(const struct hwio_course *course)
{
	return course->step == HWIO_COURSE_FORCED || course->step >= STEP_DECIDES || course->step % 2 == 1;
}

void hwio_course_passes(struct hwio_course *course)
{
	course->step++;
}

static void keep_least(int64_t *least, int64_t value)
{
	if (*least == 0 || value < *least)
		*least = value;
}

void hwio_course_learns(struct hwio_course *course, struct hwio_pair *pair, int64_t all_ns, int64_t all_bytes,
	int64_t one_ns)
{
	if (pair->is_comparable && one_ns > 0) {
		keep_least(&course->all_ns, pair->all_ns);
		keep_least(&course->one_ns, one_ns);
	}
	*pair = (struct hwio_pair){all_ns, all_bytes, false};
}

/* Who leaves first is not who has done all of it; and a gain that is hardly one isn't worth it. */
static bool is_quicker(const struct hwio_course *course)
{
	return course->one_ns > 0 && course->one_ns < course->all_ns / 5 * 4;
}

static void count_fruitless(struct hwio_course *course, const char **why, const char *reason)
{
	if (++course->fruitless >= HWIO_FRUITLESS_MAX && course->step != HWIO_COURSE_FORCED)
		end(course, why, reason);
}

bool hwio_course_takes(struct hwio_course *course, struct hwio_pair *pair, bool can, int64_t bytes, const char **why)
{
	if (course->step == HWIO_COURSE_FORCED)
		return can;
	if (course->step == STEP_DECIDES && !is_quicker(course)) {
		end(course, why, course->fruitless > 0 ? not_one_piece : "one rank is not quicker");
		return false;
	}
	course->step++;
	if (!can) {
		count_fruitless(course, why, not_one_piece);
		return false;
	}
	pair->is_comparable = course->step <= STEP_DECIDES && pair->all_ns > 0 && bytes <= 2 * pair->all_bytes &&
		pair->all_bytes <= 2 * bytes;
	if (course->step > STEP_AGAIN && course->trials + 1 < TRIALS_MAX) {
		*course = (struct hwio_course){.trials = course->trials + 1};
		pair->is_comparable = false;
	}
	return true;
}

void hwio_course_has_taken(struct hwio_course *course, bool was_done, const char **why)
{
	if (was_done)
		course->fruitless = 0;
	else
		count_fruitless(course, why, "one rank can't do it");
}

void hwio_course_pauses(struct hwio_course *course, int64_t step)
{
	const char *why;
	/* Both operations of a pair are of one file. */
	if (course->step == 1 || course->step == 3)
		course->step--;
	if (course->step == step && step < STEP_DECIDES)
		count_fruitless(course, &why, "its files have too few of these operations");
}
