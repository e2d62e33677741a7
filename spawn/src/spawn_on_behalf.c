/* Spawns processes on behalf of another process of the same program, which describes itself and sends its
 * descriptors. They are children of the caller. Only a zygote makes them: an exec would inherit the caller's
 * attributes. */
#include "spawn_on_behalf.h"
#include "context.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t bit(int signal)
{
	return 1ul << (signal - 1);
}

int hwsp_describe(char *const argv[], char *const envp[], bool python, uint64_t ignored, uint64_t blocked,
	struct hwsp_description *description)
{
	const uint64_t changed = bit(SIGPIPE) | bit(SIGCHLD) | bit(SIGXFSZ);
	const struct pspawn_process process = {.argv = argv, .envp = envp};
	const struct pspawn_options options = {.size = sizeof options};
	struct hwsp_inherited inherited;
	struct hwsp_bytes bytes = {0};
	int error = hwsp_inherit(&inherited, NO_BOUNDARY);

	if (error)
		return error;
	if (inherited.fd_count && inherited.fds[inherited.fd_count - 1] >= hwsp_boundary(&inherited))
		return ENOTSUP;
	inherited.ignored = (inherited.ignored & ~changed) | (ignored & changed);
	inherited.blocked = blocked;
	hwsp_encode(&bytes, &inherited, &process, 1, &options);
	if (bytes.failed) {
		free(bytes.data);
		return ENOMEM;
	}
	description->data = bytes.data;
	description->bytes = bytes.length;
	description->attributes = hwsp_key_elsewhere(&inherited);
	description->variables = hwsp_key_variables(envp, python ? HWSP_PYTHON_VARIABLES : NULL);
	description->fd_count = inherited.fd_count;
	memcpy(description->fds, inherited.fds, sizeof description->fds);
	return 0;
}

static int refuse_request(char *why, int error, const char *reason)
{
	snprintf(why, HWSP_REASON_BYTES, "%s", reason);
	return error;
}

/* Decodes and checks the description. If it returns 0, hwsp_request_free() frees the request. */
static int read_request(const struct hwsp_arrived *arrived, struct hwsp_request *request, char *why)
{
	int error = hwsp_decode(arrived->data, arrived->bytes, 1, request);
	if (error)
		return refuse_request(why, error, "its description can't be read");
	const struct hwsp_inherited *inherited = &request->inherited;
	const struct pspawn_process *process = request->processes;
	bool good = inherited->fd_count == arrived->fd_count && process->argv && process->argv[0] && process->envp &&
		!process->mask && !process->cwd && !process->file_action_count && !request->options.limit_count;
	for (uint32_t i = 0; good && i < inherited->fd_count; i++)
		good = inherited->fds[i] >= (i ? inherited->fds[i - 1] + 1 : 0) && !inherited->fd_ends[i];
	if (good)
		return 0;
	hwsp_request_free(request);
	return refuse_request(why, EINVAL, "its description can't be read");
}

/* Where a zygote stops to begin as the process would. */
static int start_in(struct pspawn_state *state, const struct hwsp_arrived *arrived, const struct hwsp_request *request,
	const struct hwsp_inherited *own)
{
	const struct hwsp_demand demand = {request->processes, 1, &request->options, &request->inherited};
	uint64_t key = hwsp_zygote_key(state, request->processes, arrived->attributes);

	if (fchdir(arrived->cwd))
		return errno;
	int error = hwsp_zygote_ensure(state, key, &demand, own);
	if (chdir("/"))
		return errno;
	return error;
}

/* Ensures that there is a zygote, and decodes the request for it. */
static int prepare_zygote(struct pspawn_state *state, const struct hwsp_arrived *arrived, struct hwsp_request *request,
	char *why)
{
	struct hwsp_inherited own;
	int error = hwsp_inherit(&own, NO_BOUNDARY);

	if (!error && hwsp_key_elsewhere(&own) != arrived->attributes)
		return refuse_request(why, ENOTSUP,
			"it has other credentials, namespaces, scheduling or limits of its stack than the "
			"process for which the zygote was started");
	if (!error)
		error = start_in(state, arrived, request, &own);
	if (error == ENOTSUP && !state->reason[0])
		return refuse_request(why, error,
			"the zygote's libraries have counted other processors than it may run on");
	if (error)
		return refuse_request(why, error, state->reason[0] ? state->reason : strerror(error));
	if (state->zygote.boundary > hwsp_boundary(&request->inherited))
		return refuse_request(why, ENOTSUP,
			"fewer files may be open in it than in the process for which the zygote was started");
	/* The zygote joins the group for a moment, and can join those of its session alone. */
	request->inherited.group = getpgrp();
	return 0;
}

int hwsp_on_behalf_prepare(pspawn_context_t *ctx, const struct hwsp_arrived *arrived, char *why)
{
	struct hwsp_request request;
	int error = read_request(arrived, &request, why);

	if (error)
		return error;
	error = prepare_zygote(ctx->state, arrived, &request, why);
	hwsp_request_free(&request);
	return error;
}

const char *hwsp_on_behalf_left_out(const pspawn_context_t *ctx)
{
	return ctx->state->left_out ? ctx->state->left_out : "";
}

static const char *reason_of(int error)
{
	switch (error) {
	case ENOTSUP:
		return "the zygote can't take on its limits, priority, processors or memory policy";
	case EACCES:
	case EPERM:
		return "it is in another control group, which the zygote's processes may not enter";
	default:
		return strerror(error);
	}
}

/* Has the zygote spawn the process. */
static int spawn_by_zygote(struct pspawn_state *state, const struct hwsp_arrived *arrived,
	const struct hwsp_request *request, pid_t *pid)
{
	struct pspawn_options options = {
		.size = sizeof options, .flags = PSPAWN_SETPGROUP | PSPAWN_ENDS_WITH_CALLER, .cgroup = arrived->cgroup};
	const struct hwsp_origin origin = {arrived->fds, arrived->cwd};
	struct hwsp_pending_request pending;

	if (arrived->cgroup >= 0)
		options.flags |= PSPAWN_SETCGROUP;
	int error = hwsp_zygote_send_request(&state->zygote, &request->inherited, &origin, request->processes, 1,
		&options, false, &pending);
	if (error)
		return error;
	uint32_t tried = hwsp_zygote_receive_reply(&pending, &error);
	struct hwsp_result result = tried ? pending.results[0] : (struct hwsp_result){0, error ? error : ECHILD};
	hwsp_pending_request_free(&pending);
	if (result.error && result.pid > 0) {
		hwsp_reap(result.pid);
		return result.error;
	}
	*pid = result.pid;
	return result.pid > 0 ? 0 : result.error ? result.error : ECHILD;
}

/* The path of an open directory, in `path`, which has PATH_MAX bytes; NULL if it has none. */
static const char *path_of(int directory, char *path)
{
	char link[32];

	snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
	ssize_t length = hwsp_read_link(link, path, PATH_MAX);
	return length > 0 && length < PATH_MAX - 1 ? path : NULL;
}

int hwsp_on_behalf_spawn(pspawn_context_t *ctx, const struct hwsp_arrived *arrived, pid_t *pid, char *why)
{
	struct pspawn_state *state = ctx->state;
	struct hwsp_request request;
	char **arguments = NULL, cwd[PATH_MAX];
	int error = read_request(arrived, &request, why);

	if (error)
		return error;
	error = prepare_zygote(state, arrived, &request, why);
	if (!error && hwsp_script_arguments(state, request.processes, 1, &arguments))
		error = refuse_request(why, ENOMEM, strerror(ENOMEM));
	if (!error && !hwsp_has_their_options(state, request.processes, 1, path_of(arrived->cwd, cwd)))
		error = refuse_request(why, ENOTSUP,
			"its options are not the zygote's, or only the interpreter itself can read them");
	if (!error) {
		error = spawn_by_zygote(state, arrived, &request, pid);
		if (error)
			refuse_request(why, error, reason_of(error));
		else
			state->starts = 0;
	}
	free(arguments);
	hwsp_request_free(&request);
	return error;
}
