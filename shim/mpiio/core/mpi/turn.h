/* When a collective is asked about: always at first, and ever more seldom where it was of no use. */
#ifndef HW_TURN_H
#define HW_TURN_H

#include "../context.h"
#include "../mpi/control.h"

#define HW_TURN_SKIP_MAX 65536

enum hw_turn_kind { HW_TURN_SCATTER, HW_TURN_GATHER };

/* All ranks count alike. */
static inline bool hw_turn_comes(struct hw_turn *turn)
{
	if (turn->skip == 0)
		return true;
	turn->skip--;
	return false;
}

/* At the root: how many are to pass unasked after this one. */
static inline uint32_t hw_turn_skip(struct hw_turn *turn, bool was_of_use)
{
	turn->fruitless = was_of_use ? 0 : turn->fruitless + 1;
	if (turn->fruitless < HW_FRUITLESS_MAX)
		return 0;
	uint32_t doublings = turn->fruitless - HW_FRUITLESS_MAX;
	return doublings < 16 ? 1U << doublings : HW_TURN_SKIP_MAX;
}

#endif
