/* Headwater's interface for tools that start programs: launchers, resource managers, debuggers. C (C99 with POSIX, or
 * later) and C++, with no library to link: each call starts the command `headwater`.
 *
 *     front end of the tool                       the tool's daemon on each node
 *     headwater_session_begin     session.job ──► headwater_run_node
 *     headwater_session_arguments  arguments  ──► execvp
 *     headwater_session_end
 *
 * `session.job` has the session's key. The tool brings it to its daemons so that other users can't read it: not in an
 * argument. If anything fails, the program runs as without Headwater. `command` is the path of `headwater` on the nodes,
 * or a name that is found along PATH; NULL stands for "headwater". Names that end in an underscore are not for tools. */
#ifndef HEADWATER_LAUNCH_H
#define HEADWATER_LAUNCH_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

extern char **environ;

/* Bytes of the name of a session, and of a reason, with their zero bytes. */
#define HEADWATER_NAME_BYTES 17
#define HEADWATER_WHY_BYTES 1024
#define HEADWATER_JOB_BYTES_MAX_ ((size_t)64 << 20)

/* ---- starting the command ---- */

/* A process, and the socket that is its standard input and output. */
struct headwater_process_ {
	pid_t pid;
	int link;
};

/* Starts the command without blocked signals. Returns 0 or an error number. */
static inline int headwater_spawn_(struct headwater_process_ *process, const char *const *arguments,
	char *const *variables)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int ends[2], theirs, error;
	sigset_t none;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return errno;
	/* Above the numbers that it is copied to. */
	theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
	error = theirs < 0 ? errno : 0;
	close(ends[1]);
	if (!error) {
		sigemptyset(&none);
		posix_spawnattr_init(&attributes);
		posix_spawnattr_setsigmask(&attributes, &none);
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
		posix_spawn_file_actions_init(&files);
		posix_spawn_file_actions_adddup2(&files, theirs, 0);
		posix_spawn_file_actions_adddup2(&files, theirs, 1);
		error = posix_spawnp(&process->pid, arguments[0], &files, &attributes, (char *const *)arguments,
			variables);
		posix_spawn_file_actions_destroy(&files);
		posix_spawnattr_destroy(&attributes);
		close(theirs);
	}
	if (error)
		close(ends[0]);
	else
		process->link = ends[0];
	return error;
}

/* Reads a line, without its end; NULL if there is no memory, or the process wrote none. */
static inline char *headwater_read_line_(int link)
{
	size_t used = 0, room = 4096;
	char *text = (char *)malloc(room), *more;

	while (text && used < HEADWATER_JOB_BYTES_MAX_) {
		ssize_t bytes = recv(link, text + used, room - used - 1, 0);
		char *end;

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			break;
		text[used + (size_t)bytes] = '\0';
		end = strchr(text + used, '\n');
		used += (size_t)bytes;
		if (end) {
			*end = '\0';
			return text;
		}
		if (used + 1 == room) {
			more = (char *)realloc(text, room *= 2);
			if (!more)
				break;
			text = more;
		}
	}
	free(text);
	return NULL;
}

static inline int headwater_send_(int link, const char *bytes, size_t count)
{
	while (count > 0) {
		ssize_t sent = send(link, bytes, count, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return errno ? errno : EPIPE;
		bytes += sent;
		count -= (size_t)sent;
	}
	return 0;
}

/* Returns the exit status of a child, 128 + n after signal n, -1 if it can't be waited for. */
static inline int headwater_wait_(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the front end ---- */

/* A session, which ends at the latest with the process that has begun it, and those forked from it. */
struct headwater_session {
	/* What the daemons on the nodes need; NULL if there is no session. It may be copied as text, without an end of
	 * line. */
	char *job;
	/* Why there is no session, for the user. */
	char why[HEADWATER_WHY_BYTES];
	/* The session's name, as `headwater stats` and HEADWATER_SESSION show it. */
	char name[HEADWATER_NAME_BYTES];
	/* The directory of the nodes' stores; NULL for its default. */
	char *store;
	const char *command;
	struct headwater_process_ front;
};

/* Returns a copy of the text between `before` and a quotation mark; NULL without one, or if it has escapes. */
static inline char *headwater_between_(const char *text, const char *before)
{
	const char *at = strstr(text, before);
	size_t bytes;
	char *copy;

	if (!at)
		return NULL;
	at += strlen(before);
	bytes = strcspn(at, "\"\\");
	copy = at[bytes] == '"' ? (char *)malloc(bytes + 1) : NULL;
	if (copy) {
		memcpy(copy, at, bytes);
		copy[bytes] = '\0';
	}
	return copy;
}

static inline int headwater_fail_(struct headwater_session *session, const char *what, const char *why)
{
	snprintf(session->why, sizeof(session->why), "%s%s%s", what, *what && *why ? ": " : "", why);
	free(session->job);
	session->job = NULL;
	return -1;
}

/* Takes from the job what a session knows of it. Returns whether it is a job. */
static inline int headwater_take_job_(struct headwater_session *session)
{
	char *name = *session->job == '{' ? headwater_between_(session->job, "\"session\":\"") : NULL;
	int is_job = name && strlen(name) >= HEADWATER_NAME_BYTES - 1;

	if (is_job) {
		memcpy(session->name, name, HEADWATER_NAME_BYTES - 1);
		session->store = headwater_between_(session->job, "\"store\":\"");
	}
	free(name);
	return is_job;
}

/* Begins a session. `options` are those of `headwater start`, separated by commas and without leading dashes, as
 * "shared=/sw,via=audit"; NULL for none. The directories of `program`, which ends with a NULL, are served, too; it is not
 * run. Returns 0, or -1 and session->why: then there is nothing to serve, or the command failed. */
static inline int headwater_session_begin(struct headwater_session *session, const char *command, const char *options,
	char *const program[])
{
	size_t count = 0, used = 0;
	const char **arguments;
	int error;

	memset(session, 0, sizeof(*session));
	session->command = command ? command : "headwater";
	session->front.link = -1;
	while (program && program[count])
		count++;
	arguments = (const char **)malloc((count + 6) * sizeof(*arguments));
	if (!arguments)
		return headwater_fail_(session, "no memory", "");
	arguments[used++] = session->command;
	arguments[used++] = "front";
	arguments[used++] = "--options";
	arguments[used++] = options ? options : "";
	arguments[used++] = "--";
	for (size_t at = 0; at < count; at++)
		arguments[used++] = program[at];
	arguments[used] = NULL;
	error = headwater_spawn_(&session->front, arguments, environ);
	free(arguments);
	if (error)
		return headwater_fail_(session, session->command, strerror(error));
	session->job = headwater_read_line_(session->front.link);
	if (!session->job || !headwater_take_job_(session)) {
		close(session->front.link);
		session->front.link = -1;
		headwater_wait_(session->front.pid);
		return headwater_fail_(session, "", session->job ? session->job : "`headwater front` has ended");
	}
	return 0;
}

/* Returns the arguments that start `program` in the session on a node whose daemon has called headwater_run_node; the
 * program itself without a session. free() releases them; the strings belong to `session` and `program`. NULL without
 * memory. */
static inline char **headwater_session_arguments(const struct headwater_session *session, char *const program[])
{
	const char *before[] = {session->command, "exec", "--job", session->name, session->store ? "--store" : "--",
		session->store, "--"};
	size_t first = !session->job ? 0 : session->store ? 7 : 5, count = 0;
	char **arguments;

	while (program[count])
		count++;
	arguments = (char **)malloc((first + count + 1) * sizeof(*arguments));
	if (!arguments)
		return NULL;
	memcpy(arguments, before, first * sizeof(*arguments));
	memcpy(arguments + first, program, (count + 1) * sizeof(*arguments));
	return arguments;
}

/* Ends the session on all nodes, and waits for their reports. Programs that still run use the source files. Returns the
 * exit status of the front end; 0 without a session. */
static inline int headwater_session_end(struct headwater_session *session)
{
	int status = 0;

	if (session->job) {
		/* Forked processes may have it, too. */
		shutdown(session->front.link, SHUT_RDWR);
		close(session->front.link);
		status = headwater_wait_(session->front.pid);
	}
	free(session->job);
	free(session->store);
	session->job = session->store = NULL;
	return status;
}

/* ---- a daemon on a node ---- */

/* A node's part of a session. It ends with the session; or, when the process that has begun it ends, with the programs
 * that it serves. */
struct headwater_node {
	int link;
	/* Why it could not begin, for the user. */
	char why[HEADWATER_WHY_BYTES];
};

/* As headwater_node_begin, but if the session has an agent on this node already, that serves this node, too, when `joins`
 * is not 0. */
static inline int headwater_begin_or_join_(struct headwater_node *node, const char *command, const char *job,
	unsigned number, unsigned nodes, int joins)
{
	const char *arguments[] = {command ? command : "headwater", "node", "--has-owner", joins ? "--joins" : "-",
		joins ? "-" : NULL, NULL};
	char number_text[48], nodes_text[48], *line = NULL, **variables;
	struct headwater_process_ agent;
	size_t count = 0;
	int error;

	node->link = -1;
	node->why[0] = '\0';
	snprintf(number_text, sizeof(number_text), "HEADWATER_TOOL_NODE=%u", number);
	snprintf(nodes_text, sizeof(nodes_text), "HEADWATER_TOOL_NODES=%u", nodes);
	while (environ && environ[count])
		count++;
	variables = (char **)malloc((count + 3) * sizeof(*variables));
	error = variables ? 0 : ENOMEM;
	if (!error) {
		variables[0] = number_text;
		variables[1] = nodes_text;
		memcpy(variables + 2, environ, count * sizeof(*variables));
		variables[count + 2] = NULL;
		error = headwater_spawn_(&agent, arguments, variables);
		free(variables);
	}
	if (error) {
		snprintf(node->why, sizeof(node->why), "%s: %s", arguments[0], strerror(error));
		return -1;
	}
	error = headwater_send_(agent.link, job, strlen(job));
	error = error ? error : headwater_send_(agent.link, "\n", 1);
	line = headwater_read_line_(agent.link);
	/* The agent itself is a child of this process. */
	headwater_wait_(agent.pid);
	if (line && *line == '/')
		node->link = agent.link;
	else
		close(agent.link);
	if (!line)
		line = strdup(error ? strerror(error) : "the session has an agent on this node already");
	if (node->link < 0)
		snprintf(node->why, sizeof(node->why), "%s", line ? line : "no memory");
	free(line);
	return node->link < 0 ? -1 : 0;
}

/* Begins this node's part of a session, as node `number` of `nodes`, counted from 0. All nodes of the session begin at
 * about the same time; those that are missing after ten seconds do not take part. Returns 0 when programs can be started:
 * they wait for the other nodes. Returns -1 and node->why if it failed. */
static inline int headwater_node_begin(struct headwater_node *node, const char *command, const char *job,
	unsigned number, unsigned nodes)
{
	return headwater_begin_or_join_(node, command, job, number, nodes, 0);
}

/* Waits until this node's part of the session has ended. */
static inline void headwater_node_wait(const struct headwater_node *node)
{
	struct pollfd end;
	char byte;

	end.fd = node->link;
	end.events = POLLIN;
	if (node->link < 0)
		return;
	while (poll(&end, 1, -1) < 0 ? errno == EINTR : recv(node->link, &byte, 1, MSG_DONTWAIT) > 0)
		;
}

/* Leaves the node: from here on its part ends only with the session, and this process may end before. */
static inline void headwater_node_leave(struct headwater_node *node)
{
	if (node->link >= 0) {
		headwater_send_(node->link, "\n", 1);
		close(node->link);
	}
	node->link = -1;
}

/* Serves this node until the session has ended. `ready`, if it isn't NULL, is called when programs can be started.
 * Returns 0, or -1 and node->why if it could not begin. */
static inline int headwater_run_node(struct headwater_node *node, const char *command, const char *job, unsigned number,
	unsigned nodes, void (*ready)(void *context), void *context)
{
	if (headwater_node_begin(node, command, job, number, nodes) != 0)
		return -1;
	if (ready)
		ready(context);
	headwater_node_wait(node);
	headwater_node_leave(node);
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif
