/* A tool with a daemon on this node: `session HOW OPTIONS PROGRAM…` begins a session, serves it by a child, runs the
 * program in it, and ends it. HOW is `end`; or `kill`: the daemon is killed while the program runs; or `twice`: another
 * daemon tries to serve the node. */
#include <headwater-launch.h>

static void is_ready(void *context)
{
	if (write(*(int *)context, "", 1) != 1)
		abort();
}

static pid_t start_daemon(const char *job, int *ready)
{
	int pipes[2];
	pid_t daemon;
	char byte;

	if (pipe(pipes) != 0 || (daemon = fork()) < 0)
		abort();
	if (daemon == 0) {
		struct headwater_node node;
		int failure = headwater_run_node(&node, getenv("HEADWATER"), job, 0, 1, is_ready, &pipes[1]);

		fprintf(stderr, "%s", node.why);
		_exit(failure ? 9 : 7);
	}
	close(pipes[1]);
	*ready = read(pipes[0], &byte, 1) == 1;
	close(pipes[0]);
	return daemon;
}

int main(int count, char *arguments[])
{
	struct headwater_session session;
	char **changed;
	pid_t daemon, program;
	int ready, status;

	if (count < 4)
		return 2;
	if (headwater_session_begin(&session, getenv("HEADWATER"), arguments[2], arguments + 3) != 0) {
		printf("none: %s\n", session.why);
		return 3;
	}
	changed = headwater_session_arguments(&session, arguments + 3);
	daemon = start_daemon(session.job, &ready);
	if (strcmp(arguments[1], "twice") == 0) {
		pid_t second = start_daemon(session.job, &status);

		printf("second: ready %d, daemon %d\n", status, headwater_wait_(second));
		fflush(stdout);
	}
	if ((program = fork()) == 0) {
		execvp(changed[0], changed);
		_exit(127);
	}
	if (strcmp(arguments[1], "kill") == 0)
		kill(daemon, SIGKILL);
	status = headwater_wait_(program);
	printf("ready %d, program %d", ready, status);
	free(changed);
	fflush(stdout);
	status = headwater_session_end(&session);
	printf(", session %d, daemon %d\n", status, headwater_wait_(daemon));
	return 0;
}
