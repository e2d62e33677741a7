/* Stubs: each exported function jumps through its slot. All arguments are integers or pointers, so every stub forwards
 * longs. The compiler turns the calls into jumps, so the target has the caller's return address. */
#ifndef HWIO_STUB_H
#define HWIO_STUB_H

#include "front.h"

#define HWIO_STUB(SLOT, NAME, KINDS, PARAMETERS, ARGUMENTS) \
	__attribute__((cold, noinline)) static long hwio_first_##SLOT PARAMETERS \
	{ \
		return ((long(*) KINDS)hwio_bind(SLOT))ARGUMENTS; \
	} \
	HWIO_EXPORT long hwio_stub_##SLOT KINDS __asm__(NAME); \
	long hwio_stub_##SLOT PARAMETERS \
	{ \
		void *function = __atomic_load_n(&hwio_slots[SLOT], __ATOMIC_ACQUIRE); \
		if (__builtin_expect(function == NULL, 0)) \
			return hwio_first_##SLOT ARGUMENTS; \
		return ((long(*) KINDS)function)ARGUMENTS; \
	}

#endif
