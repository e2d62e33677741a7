/* The imports of a Python zygote: names of modules, separated by commas, and from the next line on a table of how
 * processes reseed those that draw random numbers. */
#include "context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes a name out of a list. False if it isn't there. */
static bool take_out(char *list, const char *name, size_t length)
{
	for (char *at = list;; at++) {
		size_t found = strcspn(at, ",\n");
		if (found == length && !memcmp(at, name, length)) {
			/* With the comma behind it; the last one with that before it. */
			char *rest = at + found + (at[found] == ',');
			if (at[found] != ',' && at > list)
				at--;
			memmove(at, rest, strlen(rest) + 1);
			return true;
		}
		at += found;
		if (*at != ',')
			return false;
	}
}

int hwsp_leave_out(struct pspawn_state *state)
{
	const char *name = state->reason + 1, *why = strchr(state->reason, '\n');
	const char *before = state->left_out ? state->left_out : "";
	char *left_out;

	if (!why || !state->options.imports || !take_out((char *)state->options.imports, name, (size_t)(why - name)))
		return ENOTSUP;
	/* An error's text may have several lines. */
	int length = (int)strcspn(why + 1, "\n");
	if (asprintf(&left_out, "%s%.*s: %.*s\n", before, (int)(why - state->reason), state->reason, length, why + 1) <
		0)
		return ENOMEM;
	free(state->left_out);
	state->left_out = left_out;
	return 0;
}
