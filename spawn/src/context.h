/* A context, as context.c and batch.c share it. */
#ifndef HEADWATER_SPAWN_CONTEXT_H
#define HEADWATER_SPAWN_CONTEXT_H

#include "../core/internal.h"

/* A zygote that died this often, with nothing made in between, is not started again. */
#define HW_STARTS_MAX 8

extern char **environ;

struct pspawn_state {
	struct hw_program program;
	struct pspawn_context_options options;
	struct hw_zygote zygote;
	unsigned starts; /* that failed, or whose zygote died */
	char reason[HW_REASON_BYTES];
};

/* True if processes are to be made by a zygote where there can be one. */
bool hw_wants_zygote(const struct pspawn_state *state);
/* Sees to a zygote that can make these processes, and to what they inherit. 0, or why there is none. */
int hw_zygote_for(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
                  struct hw_inherited *inherited);

#endif
