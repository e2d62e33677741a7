/* Shared by the core's tests under the sanitizers: checks, random numbers whose seed is printed and can be repeated, and
 * memory of whole pages. */
#ifndef HWIO_TEST_RANDOM_H
#define HWIO_TEST_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/engine.h"

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

/* Maps memory at an address for a page of the size that the core knows. */
static inline char *map_pages(size_t count)
{
	char *memory = mmap(NULL, (count + 1) * hwio_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	CHECK(memory != MAP_FAILED);
	return (char *)hwio_page_up((uintptr_t)memory);
}

#endif
