/* A place that lost is tried again at random intervals: what the program does there, or how busy the machine is, may have
 * changed. Source: Natvig, Elster and Meyer, §VI ("At random intervals, the non-optimal method is tested").
 *
 * A trial costs as long at most as it lasts, from its call to what shows that it lost. The next one waits so much longer
 * that all of them cost HWIO_TRIAL_PART of the run. */
#ifndef HWIO_TRIAL_H
#define HWIO_TRIAL_H

#include <stdbool.h>

/* The part of a run that all trials together may cost. */
#define HWIO_TRIAL_PART 0.01
/* What the first one is expected to cost: a sender waits half as long for its receiver's verdict. */
#define HWIO_TRIAL_S 0.020
/* With this probability a run begins with one, so that short runs have some. HWIO_TRIAL_S times this is HWIO_TRIAL_PART
 * of a tenth of a second. */
#define HWIO_TRIAL_PROBABILITY 0.05

/* Prepares the first one. With HEADWATER_TEST_TRIALS, a number that decides what is random, time is counted: each
 * question whether one is due takes HWIO_TRIAL_S. */
void hwio_trial_start(void);
/* Returns true if a trial is due, which begins then. */
bool hwio_trial_begin(void);
/* Records that the trial that is under way has shown what it should. */
void hwio_trial_end(void);

#endif
