/* A context, as context.c and batch.c share it. */
#ifndef HEADWATER_SPAWN_CONTEXT_H
#define HEADWATER_SPAWN_CONTEXT_H

#include "../core/internal.h"

/* A zygote that died this often, with nothing made in between, is not started again. */
#define HW_STARTS_MAX 8
/* From so many processes on a zygote pays: it takes longer to start than a process, and then saves half of one or
 * more each time. */
#define HW_ZYGOTE_PAYS 4

extern char **environ;

struct pspawn_state {
	struct hw_program program;
	struct pspawn_context_options options;
	struct hw_zygote zygote;
	unsigned starts; /* that failed, or whose zygote died */
	unsigned cores_missed; /* on so many the processes of the last call may run for which there was no zygote */
	char reason[HW_REASON_BYTES];
};

/* True if processes are to be made by a zygote where there can be one. */
bool hw_wants_zygote(const struct pspawn_state *state);
/* Sees to a zygote that can make these processes, and to what they inherit. 0, or why there is none. */
int hw_zygote_for(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
                  const struct pspawn_options *options, struct hw_inherited *inherited);

#endif
