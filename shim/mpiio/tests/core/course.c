/* Which way collective operations go: what is quicker, what is tried, and how soon it ends where nothing is gained. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mpi/course.h"

/* Operations of so many bytes, all of which take so long each way. How many one rank did; `asked`: on which all agreed. */
static int run(struct hwio_course *course, int operations, int64_t all_ns, int64_t one_ns, int64_t bytes, int *asked)
{
	struct hwio_pair pair = {0};
	int64_t all_took = 0, one_took = 0;
	const char *why = NULL;
	int by_one = 0;
	*asked = 0;
	for (int i = 0; i < operations && course->step != HWIO_COURSE_OVER; i++) {
		if (!hwio_course_asks(course)) {
			hwio_course_passes(course);
			all_took = all_ns;
			continue;
		}
		++*asked;
		hwio_course_learns(course, &pair, all_took, all_took ? bytes : 0, one_took);
		all_took = one_took = 0;
		if (hwio_course_takes(course, &pair, bytes > 0, bytes, &why)) {
			hwio_course_has_taken(course, one_ns > 0, &why);
			by_one++;
			one_took = one_ns;
		}
	}
	assert((course->step == HWIO_COURSE_OVER) == (why != NULL));
	return by_one;
}

static void is_kept_where_it_is_quicker(void)
{
	struct hwio_course course = {0};
	int asked, by_one = run(&course, 1000, 100000, 50000, 4096, &asked);
	/* Two operations of each trial go the other way. */
	assert(course.step != HWIO_COURSE_OVER && by_one == 996 && asked == 996 && course.trials == 1);
	by_one = run(&course, 100000, 100000, 50000, 4096, &asked);
	assert(by_one >= 99996 && course.trials == 2);
	/* A change is noticed as long as trials go on. */
	course = (struct hwio_course){0};
	run(&course, 400, 100000, 50000, 4096, &asked);
	run(&course, 200, 100000, 200000, 4096, &asked);
	assert(course.step == HWIO_COURSE_OVER);
}

static void ends_where_nothing_is_gained(void)
{
	static const struct {
		int64_t all_ns, one_ns, bytes;
	} cases[] = {/* It is slower, or hardly quicker; can't be done; fails. */
		{100000, 200000, 4096}, {100000, 90000, 4096}, {100000, 1000, 0}, {100000, 0, 4096}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hwio_course course = {0};
		int asked;
		run(&course, 1000, cases[i].all_ns, cases[i].one_ns, cases[i].bytes, &asked);
		assert(course.step == HWIO_COURSE_OVER && asked == 3);
	}
}

static void what_differs_is_not_compared(void)
{
	struct hwio_course course = {0};
	struct hwio_pair pair = {0};
	const char *why = NULL;
	hwio_course_passes(&course);
	hwio_course_learns(&course, &pair, 1000000, 65536, 0);
	assert(hwio_course_takes(&course, &pair, true, 100, &why) && !pair.is_comparable);
	hwio_course_learns(&course, &pair, 0, 0, 1000);
	assert(course.one_ns == 0 && course.all_ns == 0);
}

static void goes_on_with_the_next_file(void)
{
	struct hwio_course course = {0};
	int asked, by_one = 0;
	/* Of three operations a file the last begins a pair: it is begun again. */
	for (int file = 0; file < 10; file++) {
		int64_t step = course.step;
		by_one += run(&course, 3, 100000, 50000, 4096, &asked);
		hwio_course_pauses(&course, step);
		assert(course.step == HWIO_COURSE_OVER || course.step != 3);
	}
	/* What one operation through one rank took was never told. */
	assert(by_one > 0);
	/* Files of one operation each bring nothing. */
	course = (struct hwio_course){0};
	for (int file = 0; file < 3; file++) {
		assert(course.step == 0 && run(&course, 1, 100000, 50000, 4096, &asked) == 0);
		hwio_course_pauses(&course, 0);
	}
	assert(course.step == HWIO_COURSE_OVER);
}

static void all_go_where_it_is_forced(void)
{
	struct hwio_course course = {.step = HWIO_COURSE_FORCED};
	int asked;
	assert(run(&course, 100, 1, 100, 4096, &asked) == 100 && asked == 100);
	assert(run(&course, 100, 1, 100, 0, &asked) == 0 && course.step == HWIO_COURSE_FORCED);
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
