/* Calls that spawn: by a zygote, by exec, and by exec what a zygote has left undone. */
#include "context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct pspawn_batch {
	uint32_t count, tried;
	int error;
	bool by_exec;
	struct hwsp_pending_request pending;
	struct hwsp_result *results; /* of the processes spawned by exec */
	char *path;                  /* of the program, for what the zygote leaves undone; to free() */
	int ready;                   /* a descriptor: the request's, or its own if no request was sent */
	pspawn_context_t context;    /* that ends with the batch, or none */
};

/* Fills in the caller's environment and processors where the options have none. Returns a list to free(). */
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

int hwsp_script_arguments(const struct pspawn_state *state, struct pspawn_process *processes, uint32_t count,
	char ***arguments)
{
	const struct hwsp_program *program = &state->program;
	size_t total = 0, filled = 0;

	*arguments = NULL;
	if (!program->script)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		for (size_t word = 0; processes[i].argv[word]; word++)
			total++;
	char **all = *arguments = calloc(total + 4 * (size_t)count, sizeof **arguments);
	if (!all)
		return ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		char *const *given = processes[i].argv;
		size_t first = filled;
		all[filled++] = program->path;
		if (program->argument)
			all[filled++] = program->argument;
		all[filled++] = program->script;
		for (size_t word = 1; given[0] && given[word]; word++)
			all[filled++] = given[word];
		all[filled++] = NULL;
		processes[i].argv = all + first;
	}
	return 0;
}

static enum pspawn_mechanism by_exec(const struct pspawn_options *options)
{
	return options->flags & PSPAWN_SETCGROUP ? PSPAWN_CLONE3 : PSPAWN_VFORK;
}

/* Spawns by exec what no zygote makes. */
static int spawn_directly(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
	const struct pspawn_options *options, struct pspawn_batch *batch)
{
	enum pspawn_mechanism mechanism = hwsp_wants_zygote(state) ? by_exec(options) : state->options.mechanism;

	batch->by_exec = true;
	batch->results = calloc(count, sizeof *batch->results);
	if (!batch->results)
		return ENOMEM;
	batch->tried = hwsp_direct(mechanism, hwsp_program_name(&state->program), processes, count, options,
		batch->results, &batch->error);
	return 0;
}

bool hwsp_has_their_options(const struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
	const char *cwd)
{
	for (uint32_t i = 0; state->options.stop == PSPAWN_STOP_PYTHON && i < count; i++) {
		if (i && processes[i].argv == processes[i - 1].argv)
			continue;
		if (!hwsp_python_alike(state->zygote.arguments, processes[i].argv, processes[i].envp, cwd))
			return false;
	}
	return true;
}

/* Sends the request to the zygote. Returns 0, or why it can't be sent. */
static int ask_zygote(struct pspawn_state *state, struct pspawn_process *whole, uint32_t count,
	const struct pspawn_options *options, bool apart, struct pspawn_batch *batch)
{
	struct hwsp_inherited inherited;
	char **arguments = NULL;
	int error;

	if (!hwsp_wants_zygote(state) || state->starts >= HWSP_STARTS_MAX)
		return ENOTSUP;
	error = hwsp_zygote_for(state, whole, count, options, &inherited);
	if (!error)
		error = hwsp_script_arguments(state, whole, count, &arguments);
	if (!error && !hwsp_has_their_options(state, whole, count, NULL))
		error = ENOTSUP;
	if (!error)
		error = (batch->path = strdup(state->program.path)) ? 0 : ENOMEM;
	if (!error)
		error = hwsp_zygote_send_request(&state->zygote, &inherited, NULL, whole, count, options, apart,
			&batch->pending);
	free(arguments);
	return error;
}

/* Begins a batch; with `apart` a zygote's answer is not waited for. */
static int begin(struct pspawn_state *state, const struct pspawn_process *processes, uint32_t count,
	const struct pspawn_options *options, bool apart, struct pspawn_batch *batch)
{
	cpu_set_t core;
	struct pspawn_process *whole = complete(state, processes, count, &core);

	batch->count = count;
	if (!whole)
		return ENOMEM;
	int error = ask_zygote(state, whole, count, options, apart, batch);
	if (error) {
		for (uint32_t i = 0; i < count; i++)
			whole[i].argv = processes[i].argv;
		error = spawn_directly(state, whole, count, options, batch);
	}
	free(whole);
	return error;
}

/* Makes by exec what the zygote, which has died or could not, has not tried. */
static void make_up(struct pspawn_batch *batch)
{
	struct hwsp_pending_request *pending = &batch->pending;
	struct hwsp_request request;
	uint32_t first = batch->tried;

	if (hwsp_decode(pending->body, pending->body_bytes, batch->count, &request))
		return;
	for (uint32_t i = 0; i < first && request.options.flags & PSPAWN_ONE_GROUP && !request.options.pgroup; i++)
		if (pending->results[i].pid > 0 && !pending->results[i].error)
			request.options.pgroup = pending->results[i].pid;
	request.options.first += first;
	batch->tried += hwsp_direct(by_exec(&request.options), batch->path, request.processes + first,
		batch->count - first, &request.options, pending->results + first, &batch->error);
	hwsp_request_free(&request);
}

/* The results of the processes that were requested from the zygote. */
static const struct hwsp_result *receive_results(struct pspawn_batch *batch)
{
	const struct hwsp_result *results = batch->pending.results;

	batch->tried = hwsp_zygote_receive_reply(&batch->pending, &batch->error);
	bool shortage = batch->tried && batch->error && results[batch->tried - 1].error == batch->error;
	if (batch->tried < batch->count && !shortage)
		make_up(batch);
	return results;
}

/* Collects the results. Returns how many were started, and sets errno if one was not. */
static int outcome(struct pspawn_batch *batch, pid_t *pids, int *errors)
{
	int started = 0, first_error = 0;
	const struct hwsp_result *results = batch->by_exec ? batch->results
		: batch->count                             ? receive_results(batch)
							   : NULL;

	for (uint32_t i = 0; i < batch->count; i++) {
		struct hwsp_result result = {-1, batch->error ? batch->error : ECHILD};
		if (i < batch->tried && (results[i].pid || results[i].error))
			result = results[i];
		if (result.error && result.pid > 0) {
			/* It was made, and ended before its program began. */
			hwsp_reap(result.pid);
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
	hwsp_pending_request_free(&batch->pending);
	free(batch->results);
	free(batch->path);
}

EXPORT int pspawn_many(pspawn_context_t *ctx, const struct pspawn_process *processes, unsigned count,
	const struct pspawn_options *options, pid_t *pids, int *errors)
{
	struct pspawn_batch batch = {.ready = -1};
	struct pspawn_options own;
	int started = -1, cancel;

	if (!count)
		return 0;
	fill_options(&own, options);
	/* Cancelling the thread here would leave unknown processes. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = begin(ctx->state, processes, count, &own, false, &batch);
	if (!error) {
		errno = 0;
		started = outcome(&batch, pids, errors);
		error = errno;
		if (!batch.by_exec && ctx->state->starts && hwsp_zygote_lives(&ctx->state->zygote))
			ctx->state->starts = 0;
	}
	end_batch(&batch);
	pthread_setcancelstate(cancel, NULL);
	if (error)
		errno = error;
	return started;
}

EXPORT int pspawn_many_begin(pspawn_context_t *ctx, const struct pspawn_process *processes, unsigned count,
	const struct pspawn_options *options, pspawn_batch_t **batch)
{
	struct pspawn_batch *made = calloc(1, sizeof *made);
	/* Returns before anything is made if memory is missing: what exec has made stays. */
	int done = made ? eventfd(1, EFD_CLOEXEC) : -1;
	struct pspawn_options own;
	int error = 0, cancel;

	if (done < 0) {
		free(made);
		return -1;
	}
	fill_options(&own, options);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (count)
		error = begin(ctx->state, processes, count, &own, true, made);
	pthread_setcancelstate(cancel, NULL);
	made->ready = done;
	if (error || (count && !made->by_exec)) {
		close(done);
		made->ready = made->pending.socket;
	}
	if (error) {
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
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	errno = 0;
	int started = outcome(batch, pids, errors);
	int error = errno;
	if (batch->by_exec || !batch->count)
		close(batch->ready);
	end_batch(batch);
	if (batch->context.state)
		pspawn_context_destroy(&batch->context);
	free(batch);
	pthread_setcancelstate(cancel, NULL);
	if (error)
		errno = error;
	return started;
}

void hwsp_batch_own(pspawn_batch_t *batch, const pspawn_context_t *context)
{
	batch->context = *context;
}
