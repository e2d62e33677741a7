/* start MECHANISM STATE PROGRAM ARGUMENT...: enters an odd state, starts the program, and prints how it ended. The
 * mechanism is one of pspawn.h's by its name, "main" for a zygote that stops before main(), or "plain" for
 * posix_spawn. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pspawn.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void many_descriptors(void)
{
	/* At numbers that don't depend on what the library has open. */
	for (int i = 60; i < 160; i++)
		if (dup3(1, i, i % 7 ? 0 : O_CLOEXEC) < 0)
			exit(90);
}

static void pipe_as_input(void)
{
	int ends[2];
	if (pipe(ends) || dup2(ends[0], 0))
		exit(90);
	close(ends[0]);
	close(ends[1]);
}

static void lower_limits(void)
{
	struct rlimit core = {0, 0}, files = {300, 400}, data = {1ul << 30, 1ul << 31};
	setrlimit(RLIMIT_CORE, &core);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_DATA, &data);
}

static void enter_state(const char *state)
{
	sigset_t set;
	cpu_set_t mask;

	if (strstr(state, "descriptors"))
		many_descriptors();
	if (strstr(state, "directory") && chdir("/usr"))
		exit(90);
	if (strstr(state, "umask"))
		umask(0);
	if (strstr(state, "ignored")) {
		signal(SIGPIPE, SIG_IGN);
		signal(SIGUSR1, SIG_IGN);
	}
	if (strstr(state, "blocked")) {
		sigemptyset(&set);
		sigaddset(&set, SIGUSR2);
		sigaddset(&set, SIGRTMIN + 3);
		sigprocmask(SIG_BLOCK, &set, NULL);
	}
	if (strstr(state, "limits"))
		lower_limits();
	if (strstr(state, "nice") && nice(5) == -1)
		exit(90);
	if (strstr(state, "core")) {
		sched_getaffinity(0, sizeof mask, &mask);
		int last = CPU_SETSIZE - 1;
		while (!CPU_ISSET(last, &mask))
			last--;
		CPU_ZERO(&mask);
		CPU_SET(last, &mask);
		sched_setaffinity(0, sizeof mask, &mask);
	}
	if (strstr(state, "group"))
		setpgid(0, 0);
	if (strstr(state, "pipe"))
		pipe_as_input();
	if (strstr(state, "closed")) {
		close(0);
		close(2);
	}
	if (strstr(state, "childless"))
		signal(SIGCHLD, SIG_IGN);
}

static void handle(int number)
{
	(void)number;
}

static pid_t plain(char **argv)
{
	pid_t pid;
	int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (error) {
		printf("not started: %s\n", strerror(error));
		exit(1);
	}
	return pid;
}

static pid_t by_context(const char *mechanism, const char *state, char **argv)
{
	struct pspawn_context_options options = {.size = sizeof options, .mechanism = PSPAWN_AUTO};
	pspawn_context_t context;
	const char *reason;

	for (int i = PSPAWN_AUTO; i <= PSPAWN_PFORK; i++)
		if (!strcmp(mechanism, pspawn_mechanism_name((enum pspawn_mechanism)i)))
			options.mechanism = (enum pspawn_mechanism)i;
	if (!strcmp(mechanism, "main")) {
		options.mechanism = PSPAWN_ZYGOTE;
		options.stop = PSPAWN_STOP_MAIN;
	}
	/* A zygote that was there before the caller's state. */
	if (strstr(state, "late"))
		enter_state("");
	else
		enter_state(state);
	if (pspawn_context_create_with(&context, argv[0], &options)) {
		printf("not started: %s\n", strerror(errno));
		exit(1);
	}
	if (strstr(state, "late"))
		enter_state(state);
	pid_t pid = pspawn(&context, argv);
	if (pid < 0) {
		printf("not started: %s\n", strerror(errno));
		exit(1);
	}
	enum pspawn_mechanism used = pspawn_context_mechanism(&context, &reason);
	if (options.mechanism != used && !strstr(state, "any")) {
		printf("made by %s: %s\n", pspawn_mechanism_name(used), reason ? reason : "no reason");
		exit(1);
	}
	pspawn_context_destroy(&context);
	return pid;
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t pid;

	if (argc < 4)
		return 2;
	signal(SIGTERM, handle);
	if (!strcmp(argv[1], "plain")) {
		enter_state(argv[2]);
		pid = plain(argv + 3);
	} else {
		pid = by_context(argv[1], argv[2], argv + 3);
	}
	pid_t ended = waitpid(pid, &status, 0);
	printf("waited %d, ended %d status %x\n", ended == pid, WIFEXITED(status), (unsigned)status);
	printf("others: %d\n", wait(NULL) == -1 && errno == ECHILD);
	return 0;
}
