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

#define HWIO_STUB0(SLOT, NAME) HWIO_STUB(SLOT, NAME, (void), (void), ())
#define HWIO_STUB1(SLOT, NAME) HWIO_STUB(SLOT, NAME, (long), (long a0), (a0))
#define HWIO_STUB2(SLOT, NAME) HWIO_STUB(SLOT, NAME, (long, long), (long a0, long a1), (a0, a1))
#define HWIO_STUB3(SLOT, NAME) HWIO_STUB(SLOT, NAME, (long, long, long), (long a0, long a1, long a2), (a0, a1, a2))
#define HWIO_STUB4(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long), (long a0, long a1, long a2, long a3), (a0, a1, a2, a3))
#define HWIO_STUB5(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long), (long a0, long a1, long a2, long a3, long a4), \
		(a0, a1, a2, a3, a4))
#define HWIO_STUB6(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5), (a0, a1, a2, a3, a4, a5))
#define HWIO_STUB7(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6), (a0, a1, a2, a3, a4, a5, a6))
#define HWIO_STUB8(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7), \
		(a0, a1, a2, a3, a4, a5, a6, a7))
#define HWIO_STUB9(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8))
#define HWIO_STUB10(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9))
#define HWIO_STUB11(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10))
#define HWIO_STUB12(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, \
			long a11), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11))
#define HWIO_STUB13(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, \
			long a11, long a12), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12))
#define HWIO_STUB14(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, \
			long a11, long a12, long a13), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13))
#define HWIO_STUB15(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, \
		(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, \
			long a11, long a12, long a13, long a14), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14))
#define HWIO_STUB16(SLOT, NAME) \
	HWIO_STUB(SLOT, NAME, \
		(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long), \
		(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, \
			long a11, long a12, long a13, long a14, long a15), \
		(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15))

#endif
