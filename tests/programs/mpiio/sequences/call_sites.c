/* Call sites of the program: a chain of return addresses for each number. */
#include "sequences.h"

#define HOPS 16
#define DEPTH 3

typedef void hop(unsigned path, int depth, operation *what);

static hop *const hops[HOPS];

/* The statement behind the call prevents a tail call, which would hide the call site. */
#define HOP(n) \
	static __attribute__((noipa)) void hop_##n(unsigned path, int depth, operation *what) \
	{ \
		if (depth == 0) \
			what(); \
		else \
			hops[path % HOPS](path / HOPS, depth - 1, what); \
		__asm__ volatile("" : : : "memory"); \
	}

/* clang-format off */
HOP(0) HOP(1) HOP(2) HOP(3) HOP(4) HOP(5) HOP(6) HOP(7)
HOP(8) HOP(9) HOP(10) HOP(11) HOP(12) HOP(13) HOP(14) HOP(15)
	/* clang-format on */

	static hop *const hops[HOPS] = {hop_0, hop_1, hop_2, hop_3, hop_4, hop_5, hop_6, hop_7, hop_8, hop_9, hop_10,
		hop_11, hop_12, hop_13, hop_14, hop_15};

void call_from(unsigned site, operation *what)
{
	hops[site % HOPS](site / HOPS, DEPTH - 1, what);
}
