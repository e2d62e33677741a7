/* The smallest launcher that uses <headwater-launch.h>: by ssh it starts a daemon of its own on each node, and that starts
 * one process of the program.
 *
 *     cc -o tiny-launcher tiny-launcher.c
 *     ./tiny-launcher shared=/sw node001,node002 python3 train.py
 *
 * The first argument are options of `headwater start`, separated by commas. The launcher must have the same path on all
 * nodes. SSH names another remote shell, HEADWATER another path of `headwater`. */
#define _GNU_SOURCE
#include <headwater-launch.h>

#include <limits.h>

#define NODES_MAX 1024

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "tiny-launcher: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- on each node: tiny-launcher --daemon NUMBER NODES ARGUMENTS, with the job in a line of standard input ---- */

static int run_program(char **arguments)
{
	pid_t program = fork();

	if (program == 0) {
		execvp(arguments[0], arguments);
		die(arguments[0]);
	}
	return program < 0 ? 1 : headwater_wait_(program);
}

static int run_daemon(char **arguments)
{
	struct headwater_node node = {.link = -1};
	size_t room = 0;
	char *job = NULL;
	ssize_t bytes = getline(&job, &room, stdin);

	if (bytes > 1) {
		job[bytes - 1] = '\0';
		if (headwater_node_begin(&node, getenv("HEADWATER"), job, (unsigned)atoi(arguments[0]),
			    (unsigned)atoi(arguments[1])) != 0)
			fprintf(stderr, "tiny-launcher: node %s is not served: %s\n", arguments[0], node.why);
	}
	int status = run_program(arguments + 2);
	/* The session's other nodes may still fetch files from this one. */
	headwater_node_leave(&node);
	return status;
}

/* ---- where the user starts it ---- */

/* Appends a word to a shell's command line. */
static void add_word(FILE *line, const char *word)
{
	fputc('\'', line);
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, line);
	fputs("' ", line);
}

static pid_t start_daemon(const char *node, unsigned number, unsigned nodes, char **arguments, const char *job)
{
	char self[PATH_MAX] = "", numbers[32], *command = NULL;
	const char *shell = getenv("SSH") ? getenv("SSH") : "ssh", *headwater = getenv("HEADWATER");
	size_t bytes = 0;
	int input[2];
	FILE *line = open_memstream(&command, &bytes);

	if (!line || pipe2(input, O_CLOEXEC) != 0 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("a daemon can't be started");
	snprintf(numbers, sizeof(numbers), "--daemon %u %u ", number, nodes);
	if (headwater) {
		fputs("HEADWATER=", line);
		add_word(line, headwater);
	}
	add_word(line, self);
	fputs(numbers, line);
	for (; *arguments; arguments++)
		add_word(line, *arguments);
	fclose(line);
	pid_t daemon = fork();
	if (daemon == 0) {
		dup2(input[0], 0);
		execlp(shell, shell, node, command, NULL);
		die(shell);
	}
	close(input[0]);
	dprintf(input[1], "%s\n", job ? job : "");
	close(input[1]);
	free(command);
	return daemon;
}

int main(int count, char *arguments[])
{
	struct headwater_session session;
	char *names[NODES_MAX], *rest = NULL;
	unsigned nodes = 0;
	int status = 0;

	if (count > 4 && strcmp(arguments[1], "--daemon") == 0)
		return run_daemon(arguments + 2);
	if (count < 4) {
		fputs("Usage: tiny-launcher OPTIONS NODE[,NODE]... PROGRAM [ARGUMENT]...\n", stderr);
		return 2;
	}
	for (char *name = strtok_r(arguments[2], ",", &rest); name && nodes < NODES_MAX;
		name = strtok_r(NULL, ",", &rest))
		names[nodes++] = name;
	signal(SIGPIPE, SIG_IGN);
	if (headwater_session_begin(&session, getenv("HEADWATER"), arguments[1], arguments + 3) != 0)
		fprintf(stderr, "tiny-launcher: the program runs without Headwater: %s\n", session.why);
	char **changed = headwater_session_arguments(&session, arguments + 3);
	pid_t daemons[NODES_MAX];
	for (unsigned number = 0; number < nodes; number++)
		daemons[number] = start_daemon(names[number], number, nodes, changed, session.job);
	for (unsigned number = 0; number < nodes; number++)
		status |= headwater_wait_(daemons[number]);
	free(changed);
	headwater_session_end(&session);
	return status;
}
