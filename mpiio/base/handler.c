/* Whether a signal handler is running. Tests check it before allocations, and this library before calls of MPI. */
#include "base/handler.h"

#ifdef HWIO_CHECK_HANDLERS

#include <dlfcn.h>
#include <stdlib.h>

#include "base/engine.h"
#include "real.h"

static __thread int is_in_handler __attribute__((tls_model("initial-exec")));
/* Returns the flag that the checks of allocation read, each thread's. */
static int *(*allocation_checks)(void);

void hwio_handlers_start(void)
{
	*(void **)&allocation_checks = dlsym(RTLD_DEFAULT, "headwater_handlers");
}

static int set(int value)
{
	int before = is_in_handler;
	is_in_handler = value;
	if (allocation_checks)
		*allocation_checks() = value;
	return before;
}

int hwio_handler_begins(void)
{
	return set(1);
}

int hwio_handler_is_the_programs(void)
{
	return set(0);
}

void hwio_handler_ends(int before)
{
	set(before);
}

#undef hwio_real

struct hwio_real *hwio_real_checked(void)
{
	if (is_in_handler) {
		hwio_log("MPI is called by a signal's handler");
		abort();
	}
	return &hwio_real;
}

#endif
