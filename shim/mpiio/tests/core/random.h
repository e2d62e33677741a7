/* Shared by the core's tests under the sanitizers: checks, and random numbers whose seed is printed and can be
 * repeated. */
#ifndef HWIO_TEST_RANDOM_H
#define HWIO_TEST_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static uint64_t random_state;
static const char *random_seed = "";
/* Number of the test's current operation. */
static unsigned int round_number;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s; round %u; repeat: HEADWATER_SEED=%s\n", __FILE__, __LINE__, \
				#condition, round_number, random_seed); \
			abort(); \
		} \
	} while (0)

static inline void random_start(void)
{
	static char text[24];
	const char *wanted = getenv("HEADWATER_SEED");
	if (getrandom(&random_state, sizeof(random_state), 0) != sizeof(random_state))
		random_state = 1;
	random_state = wanted ? strtoull(wanted, NULL, 0) : random_state | 1;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)random_state);
	random_seed = text;
	printf("HEADWATER_SEED=%s\n", text);
	fflush(stdout);
}

static inline uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Returns a random number from 0 up to, but not including, the bound. */
static inline size_t random_below(size_t bound)
{
	return (size_t)((random_word() >> 11) % bound);
}

#endif
