/*
 * Ranks that wait in a send until their message is received: meanwhile they write for the rank that will receive it. It
 * is asked for help only by that rank, and waits for nothing but its plan, which comes at once.
 */
#ifndef HW_HELP_H
#define HW_HELP_H

#include "exchange.h"

/* This rank waits until `root` receives a message; until hw_help_end it looks at hw_help_poll. */
void hw_help_offer(int root);
void hw_help_end(void);
/* Writes for somebody, if it is asked to. True: it did. */
bool hw_help_poll(void);

/* The side of the rank that wanted to write: adds those who are there to the plan, which has only ranks with data. */
void hw_help_ask(const struct hw_target *target, struct hw_plan *plan);
/* Everybody who was asked gets the plan, or learns that there is none. */
void hw_help_tell(const struct hw_plan *plan);
/* Whether those of the plan have written. */
bool hw_help_is_done(const struct hw_plan *plan);

#endif
