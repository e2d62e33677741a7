/* Contexts: a program, its zygote, and what is done when there is none. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* A zygote that died this often is not started again. */
#define STARTS_MAX 8
/* Where descriptors end if there is no zygote that needs some of its own. */
#define NO_BOUNDARY INT32_MAX

extern char **environ;

struct pspawn_state {
	struct hw_program program;
	struct pspawn_context_options options;
	struct hw_zygote zygote;
	unsigned starts; /* that failed, or whose zygote died */
	char reason[HW_REASON_BYTES];
};

struct pspawn_batch {
	uint32_t count, tried;
	int error;
	bool answered;
	struct hw_asked asked;
	struct hw_result *results; /* of what was spawned by exec */
	int ready;                 /* a descriptor: that of `asked`, or its own once that was answered */
	pspawn_context_t context;  /* that ends with the batch, or none */
};

static const char *const names[] = {"auto", "zygote", "vfork", "clone3", "posix_spawn", "fork", "pfork"};

EXPORT const char *pspawn_mechanism_name(enum pspawn_mechanism mechanism)
{
	return (size_t)mechanism < sizeof names / sizeof names[0] ? names[mechanism] : "unknown";
}

static void give_reason(struct pspawn_state *state, const char *reason)
{
	snprintf(state->reason, sizeof state->reason, "%s", reason);
}

static void forget_words(char *const *words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free((void *)words);
}

/* The arguments that a zygote gets, and the variables that an interpreter reads, as the context's own. */
static bool keep_words(struct pspawn_context_options *kept)
{
	char *const *given = kept->argv;
	size_t count = 0;

	while (given && given[count])
		count++;
	char **words = given ? calloc(count + 1, sizeof *words) : NULL;
	kept->argv = words;
	for (size_t i = 0; words && i < count; i++)
		if (!(words[i] = strdup(given[i])))
			return false;
	if (kept->stop == PSPAWN_STOP_PYTHON) {
		const char *more = kept->key_variables;
		char *all;
		if (asprintf(&all, HW_PYTHON_VARIABLES "%s%s", more ? "," : "", more ? more : "") < 0)
			return false;
		free((void *)more);
		kept->key_variables = all;
	}
	return words || !given;
}

/* A copy of what the caller's options point to. */
static int keep_options(struct pspawn_context_options *kept, const struct pspawn_context_options *given)
{
	size_t size = given->size < sizeof *kept ? given->size : sizeof *kept;

	memset(kept, 0, sizeof *kept);
	memcpy(kept, given, size);
	if (kept->mechanism > PSPAWN_PFORK || kept->stop > PSPAWN_STOP_PYTHON) {
		memset(kept, 0, sizeof *kept);
		return EINVAL;
	}
	const char **strings[] = {&kept->imports, &kept->key_variables, &kept->zygote_library};
	for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
		if (!*strings[i])
			continue;
		*strings[i] = strdup(*strings[i]);
		if (!*strings[i]) {
			kept->argv = NULL;
			return ENOMEM;
		}
	}
	/* A zygote may have to be started again later. */
	return keep_words(kept) ? 0 : ENOMEM;
}

static void forget_options(struct pspawn_context_options *options)
{
	forget_words(options->argv);
	free((void *)options->imports);
	free((void *)options->key_variables);
	free((void *)options->zygote_library);
}

static bool wants_zygote(const struct pspawn_state *state)
{
	return state->options.mechanism == PSPAWN_ZYGOTE || state->options.mechanism == PSPAWN_AUTO;
}

/* Starts a zygote, or says why there is none. */
static int start(struct pspawn_state *state, const struct hw_inherited *inherited, uint64_t key, char *const *envp)
{
	const struct hw_start how = {&state->program, &state->options, envp, inherited, key};
	int error;

	if (state->starts >= STARTS_MAX)
		return ECHILD;
	error = hw_zygote_start(&state->zygote, &how, state->reason);
	if (error)
		state->starts = STARTS_MAX;
	else
		state->reason[0] = 0;
	return error;
}

static int open_context(struct pspawn_state *state, const char *path, const struct pspawn_context_options *options)
{
	struct hw_inherited inherited;
	cpu_set_t allowed;
	int error = keep_options(&state->options, options);

	if (!error && state->options.on_core &&
	    (sched_getaffinity(0, sizeof allowed, &allowed) || state->options.core < 0 ||
	     state->options.core >= CPU_SETSIZE || !CPU_ISSET(state->options.core, &allowed)))
		error = EINVAL;
	if (!error)
		error = hw_program(path, &state->program);
	if (error || !wants_zygote(state))
		return error;
	if (state->program.refusal) {
		give_reason(state, state->program.refusal);
		state->starts = STARTS_MAX;
		return 0;
	}
	char *const *envp = state->options.envp ? state->options.envp : environ;
	error = hw_inherit(&inherited, NO_BOUNDARY);
	if (!error)
		error = start(state, &inherited, hw_key(envp, state->options.key_variables, &inherited), envp);
	/* They are the caller's, who may not keep them. */
	state->options.envp = NULL;
	if (error && !state->reason[0])
		give_reason(state, strerror(error));
	return 0;
}

EXPORT int pspawn_context_create_with(pspawn_context_t *ctx, const char *path,
                                      const struct pspawn_context_options *options)
{
	struct pspawn_state *state = calloc(1, sizeof *state);
	if (!state)
		return -1;
	state->zygote = HW_NO_ZYGOTE;
	int error = open_context(state, path, options);
	if (error) {
		hw_program_free(&state->program);
		forget_options(&state->options);
		free(state);
		errno = error;
		return -1;
	}
	ctx->state = state;
	return 0;
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
	hw_zygote_end(&state->zygote);
	hw_program_free(&state->program);
	forget_options(&state->options);
	free(state);
	ctx->state = NULL;
}

EXPORT enum pspawn_mechanism pspawn_context_mechanism(pspawn_context_t *ctx, const char **reason)
{
	struct pspawn_state *state = ctx->state;
	bool zygote = hw_zygote_lives(&state->zygote);

	if (reason)
		*reason = !zygote && state->reason[0] ? state->reason : NULL;
	if (wants_zygote(state))
		return zygote ? PSPAWN_ZYGOTE : PSPAWN_VFORK;
	return state->options.mechanism;
}

EXPORT pid_t pspawn_context_zygote(pspawn_context_t *ctx)
{
	return hw_zygote_lives(&ctx->state->zygote) ? ctx->state->zygote.pid : 0;
}

/* True if all processes have the same early variables as the first: then one zygote serves all. */
static bool alike(const struct pspawn_process *processes, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (processes[i].envp != processes[0].envp)
			return false;
	return true;
}

/* The program may be another file by now, of which no zygote can be made. */
static int renew_program(struct pspawn_state *state)
{
	struct hw_program program;
	const char *name = state->program.script ? state->program.script : state->program.path;
	int error = hw_program(name, &program);

	if (error)
		return error;
	hw_program_free(&state->program);
	state->program = program;
	if (program.refusal)
		give_reason(state, program.refusal);
	return program.refusal ? ENOTSUP : 0;
}

/* The zygote that can make these processes, or why there is none. */
static int zygote_for(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
                      struct hw_inherited *inherited)
{
	struct hw_zygote *zygote = &state->zygote;
	uint64_t key;
	int error = hw_inherit(inherited, zygote->boundary ? zygote->boundary : NO_BOUNDARY);

	if (error)
		return error;
	key = hw_key(processes[0].envp, state->options.key_variables, inherited);
	for (uint32_t i = 1; i < count && !alike(processes, count); i++)
		if (processes[i].envp != processes[i - 1].envp &&
		    hw_key(processes[i].envp, state->options.key_variables, inherited) != key)
			return ENOTSUP;
	bool lives = hw_zygote_lives(zygote);
	if (lives && zygote->key == key && hw_watch_unchanged(&zygote->watch))
		return 0;
	if (zygote->pid && !lives)
		state->starts++;
	hw_zygote_end(zygote);
	error = renew_program(state);
	return error ? error : start(state, inherited, key, processes[0].envp);
}

/* Arguments as exec would make them of a script, and the environment that is meant. Gives a list to free(). */
static struct pspawn_process *complete(const struct pspawn_state *state, const struct pspawn_process *processes,
                                       uint32_t count, cpu_set_t *core)
{
	struct pspawn_process *whole = calloc(count, sizeof *whole);
	if (!whole)
		return NULL;
	if (state->options.on_core) {
		CPU_ZERO(core);
		CPU_SET(state->options.core, core);
	}
	for (uint32_t i = 0; i < count; i++) {
		whole[i] = processes[i];
		whole[i].envp = processes[i].envp ? processes[i].envp : environ;
		if (state->options.on_core && !whole[i].mask) {
			whole[i].mask = core;
			whole[i].mask_size = sizeof *core;
		}
	}
	return whole;
}

static const char *path_of(const struct pspawn_state *state)
{
	return state->program.script ? state->program.script : state->program.path;
}

/* The arguments of a script's interpreter for each process, or those given. To free(), with `words`. */
static int script_arguments(const struct pspawn_state *state, struct pspawn_process *processes, uint32_t count,
                            char ***words)
{
	const struct hw_program *program = &state->program;
	size_t total = 0, kept = 0;

	*words = NULL;
	if (!program->script)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		for (size_t word = 0; processes[i].argv[word]; word++)
			total++;
	char **all = *words = calloc(total + 4 * (size_t)count, sizeof **words);
	if (!all)
		return ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		char *const *given = processes[i].argv;
		size_t first = kept;
		all[kept++] = program->path;
		if (program->argument)
			all[kept++] = program->argument;
		all[kept++] = program->script;
		for (size_t word = 1; given[0] && given[word]; word++)
			all[kept++] = given[word];
		all[kept++] = NULL;
		processes[i].argv = all + first;
	}
	return 0;
}

/* Spawns by exec what no zygote makes. */
static uint32_t spawn_directly(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
                               const struct pspawn_options *options, struct hw_result *results, int *error)
{
	enum pspawn_mechanism mechanism = state->options.mechanism;
	if (wants_zygote(state))
		mechanism = options->flags & PSPAWN_SETCGROUP ? PSPAWN_CLONE3 : PSPAWN_VFORK;
	return hw_direct(mechanism, path_of(state), processes, count, options, results, error);
}

/* True if the zygote is an interpreter with the options of all these processes, or no interpreter. */
static bool are_alike(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count)
{
	for (uint32_t i = 0; state->options.stop == PSPAWN_STOP_PYTHON && i < count; i++) {
		if (i && processes[i].argv == processes[i - 1].argv)
			continue;
		if (!hw_python_alike(state->zygote.words, processes[i].argv, processes[i].envp))
			return false;
	}
	return true;
}

/* Begins a batch; with `apart` a zygote's answer is not waited for. */
static int begin(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
                 const struct pspawn_options *options, bool apart, struct pspawn_batch *batch)
{
	struct hw_inherited inherited;
	struct pspawn_process *whole;
	char **words = NULL;
	cpu_set_t core;
	int error = ENOTSUP;

	whole = complete(state, processes, count, &core);
	if (!whole)
		return ENOMEM;
	if (wants_zygote(state) && state->starts < STARTS_MAX)
		error = zygote_for(state, whole, count, &inherited);
	if (!error)
		error = script_arguments(state, whole, count, &words);
	if (!error && !are_alike(state, whole, count))
		error = ENOTSUP;
	if (!error)
		error = hw_zygote_ask(&state->zygote, &inherited, whole, count, options, apart, &batch->asked);
	batch->count = count;
	if (error) {
		batch->results = calloc(count, sizeof *batch->results);
		for (uint32_t i = 0; i < count; i++)
			whole[i].argv = processes[i].argv;
		if (batch->results)
			batch->tried = spawn_directly(state, whole, count, options, batch->results, &batch->error);
		batch->answered = true;
		error = batch->results ? 0 : ENOMEM;
	}
	free(words);
	free(whole);
	return error;
}

/* What became of each process. Gives how many were started, and sets errno if one was not. */
static int outcome(struct pspawn_batch *batch, pid_t *pids, int *errors)
{
	int started = 0, first_error = 0;
	const struct hw_result *results = batch->results;

	if (!batch->answered) {
		batch->tried = hw_zygote_answer(&batch->asked, &batch->error);
		results = batch->asked.results;
	}
	for (uint32_t i = 0; i < batch->count; i++) {
		struct hw_result result = {-1, batch->error ? batch->error : ECHILD};
		if (i < batch->tried)
			result = results[i];
		if (result.error && result.pid > 0) {
			/* It came to be, and ended before its program began. */
			hw_reap(result.pid);
			result.pid = -1;
		}
		if (pids)
			pids[i] = result.pid > 0 ? result.pid : -1;
		if (errors)
			errors[i] = result.pid > 0 ? 0 : result.error;
		started += result.pid > 0;
		if (result.pid <= 0 && !first_error)
			first_error = result.error;
	}
	if (first_error)
		errno = first_error;
	return started;
}

static void fill_options(struct pspawn_options *own, const struct pspawn_options *given)
{
	memset(own, 0, sizeof *own);
	if (given)
		memcpy(own, given, given->size < sizeof *own ? given->size : sizeof *own);
	own->size = sizeof *own;
}

static void end_batch(struct pspawn_batch *batch)
{
	hw_asked_free(&batch->asked);
	free(batch->results);
}

EXPORT int pspawn_many(pspawn_context_t *ctx, const struct pspawn_process *processes, unsigned count,
                       const struct pspawn_options *options, pid_t *pids, int *errors)
{
	struct pspawn_batch batch = {.ready = -1};
	struct pspawn_options own;

	if (!count)
		return 0;
	fill_options(&own, options);
	int error = begin(ctx->state, processes, count, &own, false, &batch);
	if (error) {
		errno = error;
		return -1;
	}
	int started = outcome(&batch, pids, errors);
	error = errno;
	end_batch(&batch);
	errno = error;
	return started;
}

EXPORT int pspawn_many_begin(pspawn_context_t *ctx, const struct pspawn_process *processes, unsigned count,
                             const struct pspawn_options *options, pspawn_batch_t **batch)
{
	struct pspawn_batch *made = calloc(1, sizeof *made);
	struct pspawn_options own;
	int error;

	if (!made)
		return -1;
	fill_options(&own, options);
	made->answered = true;
	error = 0;
	if (count) {
		made->answered = false;
		error = begin(ctx->state, processes, count, &own, true, made);
	}
	/* What was done by exec is done. */
	made->ready = error ? -1 : made->answered ? eventfd(1, EFD_CLOEXEC) : made->asked.socket;
	if (error || made->ready < 0) {
		error = error ? error : errno;
		end_batch(made);
		free(made);
		errno = error;
		return -1;
	}
	*batch = made;
	return made->ready;
}

EXPORT int pspawn_many_end(pspawn_batch_t *batch, pid_t *pids, int *errors)
{
	int started = outcome(batch, pids, errors);
	int error = errno;

	if (batch->answered && batch->ready >= 0)
		close(batch->ready);
	end_batch(batch);
	if (batch->context.state)
		pspawn_context_destroy(&batch->context);
	free(batch);
	errno = error;
	return started;
}

void hw_batch_own(pspawn_batch_t *batch, const pspawn_context_t *context)
{
	batch->context = *context;
}
