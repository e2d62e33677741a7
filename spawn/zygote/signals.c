/* Which signals a process ignores: what its caller ignored, where nothing before main() has decided otherwise. */
#include "zygote.h"

#include <signal.h>

/* The signals that this process ignored when it was started. */
static uint64_t ignored_from_start;

static bool is_ignored(int number, bool *by_default)
{
	struct sigaction action;
	if (sigaction(number, NULL, &action))
		return false;
	*by_default = action.sa_handler == SIG_DFL;
	return action.sa_handler == SIG_IGN;
}

void hwsp_signals_begin(void)
{
	bool by_default;
	for (int number = 1; number <= HWSP_SIGNALS; number++)
		ignored_from_start |= (uint64_t)is_ignored(number, &by_default) << (number - 1);
}

void hwsp_signals_as_caller(uint64_t ignored)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN}, plain = {.sa_handler = SIG_DFL};
	uint64_t differing = ignored ^ ignored_from_start;

	for (int number = 1; differing && number <= HWSP_SIGNALS; number++) {
		bool by_default = false;
		if (!(differing >> (number - 1) & 1))
			continue;
		bool now = is_ignored(number, &by_default);
		if (ignored >> (number - 1) & 1 ? by_default : now)
			sigaction(number, by_default ? &ignore : &plain, NULL);
	}
}
