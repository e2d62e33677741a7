/* Contexts: a program, its zygote, and what replaces a zygote that can't be made. */
#include "context.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The limits of exec: of a string, in pages; of all strings with the pointers to them, and a size that is always
 * accepted. The kernel needs a part of it. */
#define STRING_PAGES_MAX 32
#define LISTS_MAX (6u << 20)
#define LISTS_MIN (128u << 10)
#define LISTS_MARGIN 8192

extern char **environ;

static const char *const names[] = {"auto", "zygote", "vfork", "clone3", "posix_spawn", "fork", "pfork"};

EXPORT const char *pspawn_mechanism_name(enum pspawn_mechanism mechanism)
{
	return (size_t)mechanism < sizeof names / sizeof names[0] ? names[mechanism] : "unknown";
}

static void give_reason(struct pspawn_state *state, const char *reason)
{
	snprintf(state->reason, sizeof state->reason, "%s", reason);
}

/* A list and its strings, in one piece to free(). */
static char *const *clone_list(char *const *list)
{
	size_t count = 0, bytes = 0;

	for (; list[count]; count++)
		bytes += strlen(list[count]) + 1;
	char **copy = malloc((count + 1) * sizeof *copy + bytes);
	char *at = copy ? (char *)(copy + count + 1) : NULL;
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = at;
		at = stpcpy(at, list[i]) + 1;
	}
	if (copy)
		copy[count] = NULL;
	return copy;
}

/* Variables that an interpreter reads besides. */
static int add_variables(struct pspawn_context_options *own)
{
	const char *more = own->key_variables;
	char *all;

	if (asprintf(&all, HWSP_PYTHON_VARIABLES "%s%s", more ? "," : "", more ? more : "") < 0)
		return ENOMEM;
	free((void *)more);
	own->key_variables = all;
	return 0;
}

/* A copy of what the caller's options point to. */
static int copy_options(struct pspawn_context_options *own, const struct pspawn_context_options *given)
{
	size_t size = given->size < sizeof *own ? given->size : sizeof *own;

	memset(own, 0, sizeof *own);
	memcpy(own, given, size);
	/* The caller's strings are not to be freed after an error. */
	const char *imports = own->imports, *variables = own->key_variables, *library = own->zygote_library;
	own->argv = NULL;
	own->imports = own->key_variables = own->zygote_library = NULL;
	if (own->mechanism > PSPAWN_PFORK || own->stop > PSPAWN_STOP_PYTHON)
		return EINVAL;
	own->argv = given->argv && size >= offsetof(struct pspawn_context_options, envp) ? clone_list(given->argv)
											 : NULL;
	if (!own->argv && given->argv)
		return ENOMEM;
	const char **strings[] = {&own->imports, &own->key_variables, &own->zygote_library};
	const char *theirs[] = {imports, variables, library};
	for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
		*strings[i] = theirs[i] ? strdup(theirs[i]) : NULL;
		if (theirs[i] && !*strings[i])
			return ENOMEM;
	}
	return own->stop == PSPAWN_STOP_PYTHON ? add_variables(own) : 0;
}

static void forget(struct pspawn_state *state)
{
	hwsp_program_free(&state->program);
	free((void *)state->options.argv);
	free((void *)state->options.imports);
	free((void *)state->options.key_variables);
	free((void *)state->options.zygote_library);
	free(state->left_out);
	free(state);
}

bool hwsp_wants_zygote(const struct pspawn_state *state)
{
	return state->options.mechanism == PSPAWN_ZYGOTE || state->options.mechanism == PSPAWN_AUTO;
}

/* Starts a zygote, or returns why there is none. */
static int start_zygote(struct pspawn_state *state, const struct hwsp_inherited *inherited, uint64_t key,
	char *const *envp, const cpu_set_t *cores)
{
	const struct hwsp_start how = {&state->program, &state->options, envp, inherited, key, cores};
	int error;

	if (state->starts >= HWSP_STARTS_MAX)
		return ECHILD;
	do
		error = hwsp_zygote_start(&state->zygote, &how, state->reason);
	while (error == ENOPKG && (error = hwsp_leave_out(state)) == 0);
	/* A lack of resources may be temporary. */
	if (error)
		state->starts = error == EAGAIN || error == ENOMEM || error == EMFILE ? state->starts + 1
										      : HWSP_STARTS_MAX;
	else
		state->reason[0] = 0;
	return error;
}

static uint64_t key_of(const struct pspawn_state *state, char *const *envp, const struct hwsp_inherited *inherited)
{
	return hwsp_key(envp, state->options.key_variables, inherited);
}

/* The processors that the context's first zygote may use. False: the caller's. */
static bool first_cores(const struct pspawn_state *state, cpu_set_t *cores)
{
	const struct pspawn_context_options *options = &state->options;

	CPU_ZERO(cores);
	if (options->mask)
		memcpy(cores, options->mask, options->mask_size < sizeof *cores ? options->mask_size : sizeof *cores);
	else if (options->on_core)
		CPU_SET(options->core, cores);
	return CPU_COUNT(cores) > 0;
}

static int open_context(struct pspawn_state *state, const char *path, const struct pspawn_context_options *options,
	bool idle)
{
	struct hwsp_inherited inherited;
	cpu_set_t allowed, cores;
	int error = copy_options(&state->options, options);

	if (!error && state->options.on_core &&
		(sched_getaffinity(0, sizeof allowed, &allowed) || state->options.core < 0 ||
			state->options.core >= CPU_SETSIZE || !CPU_ISSET(state->options.core, &allowed)))
		error = EINVAL;
	if (!error)
		error = hwsp_program(path, &state->program);
	if (error || !hwsp_wants_zygote(state))
		return error;
	if (*state->program.refusal) {
		give_reason(state, state->program.refusal);
		state->starts = HWSP_STARTS_MAX;
		return 0;
	}
	if (idle)
		return 0;
	char *const *envp = state->options.envp ? state->options.envp : environ;
	error = hwsp_inherit(&inherited, NO_BOUNDARY);
	bool bound = first_cores(state, &cores);
	if (!error)
		error = start_zygote(state, &inherited, key_of(state, envp, &inherited), envp, bound ? &cores : NULL);
	/* Copied, because the caller may free its arguments. */
	state->options.envp = NULL;
	state->options.mask = NULL;
	if (error && !state->reason[0])
		give_reason(state, strerror(error));
	return 0;
}

static int create(pspawn_context_t *ctx, const char *path, const struct pspawn_context_options *options, bool idle)
{
	struct pspawn_state *state = calloc(1, sizeof *state);
	if (!state)
		return -1;
	state->zygote = HWSP_NO_ZYGOTE;
	int error = open_context(state, path, options, idle);
	if (error) {
		forget(state);
		errno = error;
		return -1;
	}
	ctx->state = state;
	return 0;
}

EXPORT int pspawn_context_create_with(pspawn_context_t *ctx, const char *path,
	const struct pspawn_context_options *options)
{
	return create(ctx, path, options, false);
}

int hwsp_context_create_idle(pspawn_context_t *ctx, const char *path, const struct pspawn_context_options *options)
{
	return create(ctx, path, options, true);
}

EXPORT int pspawn_context_create(pspawn_context_t *ctx, const char *path, int core)
{
	struct pspawn_context_options options = {.size = sizeof options, .on_core = core != -1, .core = core};
	return pspawn_context_create_with(ctx, path, &options);
}

EXPORT void pspawn_context_destroy(pspawn_context_t *ctx)
{
	struct pspawn_state *state = ctx->state;
	if (!state)
		return;
	hwsp_zygote_end(&state->zygote);
	forget(state);
	ctx->state = NULL;
}

EXPORT enum pspawn_mechanism pspawn_context_mechanism(pspawn_context_t *ctx, const char **reason)
{
	struct pspawn_state *state = ctx->state;
	bool zygote = hwsp_zygote_lives(&state->zygote);

	if (reason)
		*reason = !zygote && state->reason[0] ? state->reason : NULL;
	if (hwsp_wants_zygote(state))
		return zygote ? PSPAWN_ZYGOTE : PSPAWN_VFORK;
	return state->options.mechanism;
}

EXPORT const char *pspawn_context_early(pspawn_context_t *ctx)
{
	const struct hwsp_zygote *zygote = &ctx->state->zygote;
	return hwsp_zygote_lives(zygote) && *zygote->early ? zygote->early : NULL;
}

EXPORT pid_t pspawn_context_zygote(pspawn_context_t *ctx)
{
	return hwsp_zygote_lives(&ctx->state->zygote) ? ctx->state->zygote.pid : 0;
}

/* True if constructors would see the same in all processes: then one zygote serves all. */
static bool are_alike(const struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count)
{
	uint64_t first = 0;
	bool known = false;

	for (uint32_t i = 1; i < count; i++) {
		if (processes[i].envp == processes[i - 1].envp)
			continue;
		if (!known)
			first = hwsp_key_variables(processes[0].envp, state->options.key_variables);
		known = true;
		if (hwsp_key_variables(processes[i].envp, state->options.key_variables) != first)
			return false;
	}
	return true;
}

/* True if exec would accept these lists; exec itself refuses the others. */
static bool fits_exec(char *const *argv, char *const *envp, rlim_t stack)
{
	size_t total = 0, string_max = STRING_PAGES_MAX * (size_t)sysconf(_SC_PAGESIZE);
	size_t limit = stack / 4 < LISTS_MAX ? stack / 4 : LISTS_MAX;
	char *const *lists[] = {argv, envp};

	for (size_t number = 0; number < 2; number++)
		for (char *const *string = lists[number]; *string; string++) {
			size_t bytes = strlen(*string) + 1;
			if (bytes > string_max)
				return false;
			total += bytes + sizeof *string;
		}
	return total + LISTS_MARGIN <= (limit > LISTS_MIN ? limit : LISTS_MIN);
}

/* Arguments for which a fork differs from exec are left to exec. */
static int check_lists(const struct pspawn_process *processes, uint32_t count, const struct hwsp_inherited *inherited)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!processes[i].argv || !processes[i].argv[0])
			return ENOTSUP;
		bool again = i && processes[i].argv == processes[i - 1].argv &&
			processes[i].envp == processes[i - 1].envp;
		if (!again &&
			!fits_exec(processes[i].argv, processes[i].envp, inherited->limits[RLIMIT_STACK].rlim_cur))
			return ENOTSUP;
	}
	return 0;
}

/* The program may be another file by now, of which no zygote can be made. */
static int renew_program(struct pspawn_state *state)
{
	struct hwsp_program program;
	int error = hwsp_program(hwsp_program_name(&state->program), &program);

	if (error)
		return error;
	hwsp_program_free(&state->program);
	state->program = program;
	if (*program.refusal)
		give_reason(state, program.refusal);
	return *program.refusal ? ENOTSUP : 0;
}

static bool is_unchanged(struct pspawn_state *state)
{
	struct hwsp_identity now;
	return hwsp_identify(hwsp_program_name(&state->program), &now) && hwsp_is_same(&now, &state->program.file) &&
		hwsp_watch_unchanged(&state->zygote.watch);
}

/* On how many processors a process with this number may run, and on which. */
static unsigned cores_of(const struct hwsp_demand *demand, uint32_t number, cpu_set_t *cores)
{
	struct hwsp_cpu_placement placement;
	bool bound = hwsp_place_process(&demand->processes[number], demand->options, number, &placement) == 0 &&
		placement.bound;

	*cores = bound ? placement.mask : demand->inherited->affinity;
	return (unsigned)CPU_COUNT(cores);
}

/* True if a zygote that has counted so many processors is right for all; 0: it has counted none. */
static bool have_cores(unsigned cores, const struct hwsp_demand *demand)
{
	cpu_set_t set;

	for (uint32_t i = 0; cores && i < demand->count; i++) {
		const struct pspawn_process *process = &demand->processes[i];
		bool again = i && !demand->options->numa && process->mask == process[-1].mask &&
			process->mask_size == process[-1].mask_size;
		if (!again && cores_of(demand, i, &set) != cores)
			return false;
	}
	return true;
}

/* Processors that a zygote has counted must be those of its processes. Returns 0; ENOTSUP: these are better exec'd;
 * EAGAIN: another zygote is needed. */
static int check_cores(struct pspawn_state *state, const struct hwsp_demand *demand)
{
	cpu_set_t set;

	if (have_cores(state->zygote.cores, demand))
		return 0;
	unsigned cores = cores_of(demand, 0, &set);
	if (!have_cores(cores, demand))
		return ENOTSUP;
	/* Calls that are of one kind and another in turn would each begin with a new zygote. */
	bool again = cores == state->cores_missed;
	state->cores_missed = cores;
	return again || demand->count >= HWSP_ZYGOTE_PAYS ? EAGAIN : ENOTSUP;
}

int hwsp_zygote_for(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
	const struct pspawn_options *options, struct hwsp_inherited *inherited)
{
	const struct hwsp_zygote *zygote = &state->zygote;
	const struct hwsp_demand demand = {processes, count, options, inherited};
	int error = hwsp_inherit(inherited, zygote->boundary ? zygote->boundary : NO_BOUNDARY);

	if (error)
		return error;
	if (!are_alike(state, processes, count))
		return ENOTSUP;
	error = hwsp_zygote_ensure(state, key_of(state, processes[0].envp, inherited), &demand, inherited);
	return error ? error : hwsp_inherit_named(inherited, processes, count, zygote->boundary);
}

uint64_t hwsp_zygote_key(const struct pspawn_state *state, const struct pspawn_process *process, uint64_t attributes)
{
	return attributes * 31 + hwsp_key_variables(process->envp, state->options.key_variables);
}

int hwsp_zygote_ensure(struct pspawn_state *state, uint64_t key, const struct hwsp_demand *demand,
	const struct hwsp_inherited *starter)
{
	struct hwsp_zygote *zygote = &state->zygote;
	int error = check_lists(demand->processes, demand->count, starter);
	cpu_set_t cores;

	if (error)
		return error;
	bool lives = hwsp_zygote_lives(zygote);
	if (lives && zygote->key == key && zygote->boundary <= hwsp_boundary(starter) && is_unchanged(state)) {
		error = check_cores(state, demand);
		if (error != EAGAIN)
			return error;
	}
	if (zygote->pid && !lives && ++state->starts >= HWSP_STARTS_MAX)
		give_reason(state, "it died too often");
	hwsp_zygote_end(zygote);
	error = state->starts >= HWSP_STARTS_MAX ? ECHILD : renew_program(state);
	if (!error) {
		cores_of(demand, 0, &cores);
		error = start_zygote(state, starter, key, demand->processes[0].envp, &cores);
	}
	return error || have_cores(zygote->cores, demand) ? error : ENOTSUP;
}

bool hwsp_context_zygote(const pspawn_context_t *ctx, struct hwsp_zygote *zygote)
{
	struct hwsp_zygote *own = &ctx->state->zygote;
	if (!hwsp_zygote_lives(own) || !hwsp_watch_unchanged(&own->watch))
		return false;
	*zygote = *own;
	return true;
}
