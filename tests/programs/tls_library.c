/* A library with BYTES of thread-local storage, partly initialised, aligned to ALIGN. */
#include <string.h>

#ifndef ALIGN
#define ALIGN 1
#endif

static __thread char buffer[BYTES] __attribute__((aligned(ALIGN))) = "start";
static __thread int calls;

int sum(void);
int sum(void)
{
	int total = 0;
	calls++;
	memset(buffer + 8, calls, sizeof buffer - 8);
	for (unsigned i = 0; i < sizeof buffer; i++)
		total += buffer[i];
	return total;
}
