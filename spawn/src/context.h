/* A context, as context.c and batch.c share it. */
#ifndef HEADWATER_SPAWN_CONTEXT_H
#define HEADWATER_SPAWN_CONTEXT_H

#include "../core/internal.h"

/* A zygote that died this often, with nothing made in between, is not started again. */
#define HWSP_STARTS_MAX 8
/* From so many processes on a zygote pays: it takes longer to start than a process, and then saves half of one or
 * more each time. */
#define HWSP_ZYGOTE_PAYS 4
/* The end of descriptors if no zygote needs some of its own. */
#define NO_BOUNDARY INT32_MAX

extern char **environ;

struct pspawn_state {
	struct hwsp_program program;
	struct pspawn_context_options options;
	struct hwsp_zygote zygote;
	unsigned starts;       /* that failed, or whose zygote has died */
	unsigned cores_missed; /* on so many the processes of the last call may run for which there was no zygote */
	char reason[HWSP_REASON_BYTES];
	char *left_out; /* lines "?NAME: WHY" or "-NAME: WHY", see enum hwsp_refusal; NULL: none */
};

/* True if processes are to be made by a zygote where there can be one. */
bool hwsp_wants_zygote(const struct pspawn_state *state);
/* Ensures that there is a zygote for these processes, and collects what they inherit. Returns 0, or an errno value. */
int hwsp_zygote_for(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
	const struct pspawn_options *options, struct hwsp_inherited *inherited);
/* pspawn_context_create_with(), but no zygote is started before it is needed, and options have no environment. */
int hwsp_context_create_idle(pspawn_context_t *ctx, const char *path, const struct pspawn_context_options *options);
/* Returns the key of a zygote for this process, whose attributes have this digest. */
uint64_t hwsp_zygote_key(const struct pspawn_state *state, const struct pspawn_process *process, uint64_t attributes);
/* Processes that are to be made alike, and what they inherit. */
struct hwsp_demand {
	const struct pspawn_process *processes;
	uint32_t count;
	const struct pspawn_options *options;
	const struct hwsp_inherited *inherited;
};
/* Ensures that there is a zygote with this key. The caller, whose attributes are `starter`, starts it if there is none.
 * Returns 0, or an errno value. */
int hwsp_zygote_ensure(struct pspawn_state *state, uint64_t key, const struct hwsp_demand *wanted,
	const struct hwsp_inherited *starter);

/* imports.c: takes out of the imports what the reason names. 0, or an errno value. */
int hwsp_leave_out(struct pspawn_state *state);

/* batch.c */

/* Prepends the arguments of a script's interpreter, if the program is a script. `*arguments` is to be freed after the
 * processes. */
int hwsp_script_arguments(const struct pspawn_state *state, struct pspawn_process *processes, uint32_t count,
	char ***arguments);
/* True if the zygote is no interpreter, or one with the options of all these processes, which begin in the directory
 * `cwd` if it is known. */
bool hwsp_has_their_options(const struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
	const char *cwd);

#endif
