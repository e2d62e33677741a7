/* Finds out which route is faster for a call site's collective operations: all ranks, as the program wants it, or one
 * of them. At first, operations alternate. The faster route is then used, and compared again now and then. All ranks
 * pass the same numbers, so that they reach the same decision. Source: Natvig, Elster and Meyer, §VI. */
#ifndef HWIO_TRIAL_H
#define HWIO_TRIAL_H

#include "../context.h"

/* Special steps: no operation is examined, or all go through one rank. */
#define HWIO_COURSE_OVER (-1)
#define HWIO_COURSE_FORCED (-2)

/* Time and bytes of one operation of a pair. */
struct hwio_pair {
	int64_t all_ns, all_bytes;
	bool is_comparable;
};

/* Returns true if the ranks agree on the next operation; others go to the original, and are measured. */
bool hwio_trial_asks(const struct hwio_trial *trial);
/* Counts an operation that went to the original. */
void hwio_trial_passes(struct hwio_trial *trial);
/* Records how long the last operations took; 0: unknown. */
void hwio_trial_learns(struct hwio_trial *trial, struct hwio_pair *pair, int64_t all_ns, int64_t all_bytes,
	int64_t one_ns);
/* Returns true if an operation of so many bytes goes through one rank, if it `can`. Otherwise `why` may be set: the
 * reason that ended the trial. */
bool hwio_trial_takes(struct hwio_trial *trial, struct hwio_pair *pair, bool can, int64_t bytes, const char **why);
/* Records whether that rank could do it. */
void hwio_trial_has_taken(struct hwio_trial *trial, bool was_done, const char **why);
/* Records that the file is closed. A step that can't be completed with another file begins again. `step`: the trial's
 * step when the file was opened. Several files in a row without progress end the trial. */
void hwio_trial_pauses(struct hwio_trial *trial, int64_t step);

#endif
