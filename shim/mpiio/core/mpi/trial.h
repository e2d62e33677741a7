/*
 * Finds out which way is quicker for the collective operations of a place: by all ranks, as the program wants it, or by
 * one of them. Operations go both ways in turn at first; the quicker way is kept, and tried against the other now and
 * then. Source: Natvig, Elster and Meyer, §VI. All ranks feed it the same numbers, so that they come to the same end.
 */
#ifndef HWIO_TRIAL_H
#define HWIO_TRIAL_H

#include "../context.h"

/* Steps that aren't counted: all operations are left alone, or all go through one rank. */
#define HWIO_COURSE_OVER (-1)
#define HWIO_COURSE_FORCED (-2)

/* What one operation took, and how much it moved, of the ways in turn. */
struct hwio_pair {
	int64_t all_ns, all_bytes;
	bool is_comparable;
};

/* Whether the ranks agree on the next operation; the others go as the program wants them, and are measured. */
bool hwio_trial_asks(const struct hwio_trial *trial);
/* One has gone so. */
void hwio_trial_passes(struct hwio_trial *trial);
/* How long the last operations took; 0: that isn't known. */
void hwio_trial_learns(struct hwio_trial *trial, struct hwio_pair *pair, int64_t all_ns, int64_t all_bytes,
	int64_t one_ns);
/* Whether an operation of so many bytes goes through one rank, if it can. If not, `why` is set to the reason that
 * ended the trial. */
bool hwio_trial_takes(struct hwio_trial *trial, struct hwio_pair *pair, bool can, int64_t bytes, const char **why);
/* It has done so, or that rank could not do it. */
void hwio_trial_has_taken(struct hwio_trial *trial, bool was_done, const char **why);
/* The file is closed. A step that has begun, and can't be completed with another file, begins again. `step`: the
 * trial's step when the file was opened. Several files in a row without progress end the trial. */
void hwio_trial_pauses(struct hwio_trial *trial, int64_t step);

#endif
