/* Files in memory are not mapped, and so never unmapped: the shim's system calls do nothing. */
#ifndef HEADWATER_FUZZ_MEMORY_H
#define HEADWATER_FUZZ_MEMORY_H

#include "sys.h"

static inline long no_system_call(long number, ...)
{
	(void)number;
	return 0;
}

#undef hwa_sys
#define hwa_sys no_system_call

#endif
