/* Pseudo-random numbers, the same in each run. */
#ifndef HEADWATER_SPAWN_RANDOM_H
#define HEADWATER_SPAWN_RANDOM_H

#include <stdint.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

#endif
