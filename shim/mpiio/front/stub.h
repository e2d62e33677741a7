/*
 * Stubs: each exported function jumps through its slot. All arguments are integers or pointers, so every stub passes
 * words on; the compiler makes jumps of the calls, and the caller's return address is what the function behind sees.
 */
#ifndef HW_STUB_H
#define HW_STUB_H

#include "front.h"

#define HW_STUB(SLOT, NAME, KINDS, PARAMETERS, ARGUMENTS)                                                              \
	__attribute__((cold, noinline)) static long hw_first_##SLOT PARAMETERS                                         \
	{                                                                                                              \
		return ((long(*) KINDS)hw_bind(SLOT))ARGUMENTS;                                                        \
	}                                                                                                              \
	HW_EXPORT long hw_stub_##SLOT KINDS __asm__(NAME);                                                             \
	long hw_stub_##SLOT PARAMETERS                                                                                 \
	{                                                                                                              \
		void *function = __atomic_load_n(&hw_slots[SLOT], __ATOMIC_ACQUIRE);                                   \
		if (__builtin_expect(function == NULL, 0))                                                             \
			return hw_first_##SLOT ARGUMENTS;                                                              \
		return ((long(*) KINDS)function)ARGUMENTS;                                                             \
	}

#define HW_STUB0(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (void), (void), ())
#define HW_STUB1(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long), (long a0), (a0))
#define HW_STUB2(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long), (long a0, long a1), (a0, a1))
#define HW_STUB3(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long), (long a0, long a1, long a2), (a0, a1, a2))
#define HW_STUB4(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long), (long a0, long a1, long a2, long a3), (a0, a1, a2, a3))
#define HW_STUB5(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long), (long a0, long a1, long a2, long a3, long a4), (a0, a1, \
	a2, a3, a4))
#define HW_STUB6(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long), (long a0, long a1, long a2, long a3, long a4, long \
	a5), (a0, a1, a2, a3, a4, a5))
#define HW_STUB7(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long), (long a0, long a1, long a2, long a3, long \
	a4, long a5, long a6), (a0, a1, a2, a3, a4, a5, a6))
#define HW_STUB8(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long), (long a0, long a1, long a2, long a3, \
	long a4, long a5, long a6, long a7), (a0, a1, a2, a3, a4, a5, a6, a7))
#define HW_STUB9(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long), (long a0, long a1, long a2, long \
	a3, long a4, long a5, long a6, long a7, long a8), (a0, a1, a2, a3, a4, a5, a6, a7, a8))
#define HW_STUB10(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long), (long a0, long a1, long \
	a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9), (a0, a1, a2, a3, a4, a5, a6, a7, a8, \
	a9))
#define HW_STUB11(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long), (long a0, long a1, \
	long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10), (a0, a1, a2, a3, a4, a5, \
	a6, a7, a8, a9, a10))
#define HW_STUB12(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long), (long a0, long \
	a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, long a11), (a0, a1, \
	a2, a3, a4, a5, a6, a7, a8, a9, a10, a11))
#define HW_STUB13(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long, long), (long \
	a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, long a11, \
	long a12), (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12))
#define HW_STUB14(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long, long, long), \
	(long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, long \
	a11, long a12, long a13), (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13))
#define HW_STUB15(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long, long, long, \
	long), (long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, \
	long a11, long a12, long a13, long a14), (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14))
#define HW_STUB16(SLOT, NAME) \
	HW_STUB(SLOT, NAME, (long, long, long, long, long, long, long, long, long, long, long, long, long, long, \
	long, long), (long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long \
	a10, long a11, long a12, long a13, long a14, long a15), (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, \
	a12, a13, a14, a15))

#endif
