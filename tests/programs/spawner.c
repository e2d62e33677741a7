/* Spawns a Python program by libheadwater-spawn.so and ends as its last process does:
 * `spawner zygote|exec INTERPRETER IMPORTS COUNT [ZYGOTE'S WORDS] -- WORDS`. With "zygote" it fails if there is none.
 * With $DEFAULT_SIGNALS all signals get their default action in the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <pspawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct pspawn_context_options options = {
		.size = sizeof options, .stop = PSPAWN_STOP_PYTHON, .start_ms_max = 60000};
	pspawn_context_t context;
	const char *reason;
	int separator = 5, status = 0;

	while (separator < argc && strcmp(argv[separator], "--"))
		separator++;
	if (separator >= argc)
		return 90;
	int count = atoi(argv[4]);
	bool zygote = !strcmp(argv[1], "zygote");
	argv[separator] = NULL;
	options.mechanism = zygote ? PSPAWN_ZYGOTE : PSPAWN_VFORK;
	options.imports = strcmp(argv[3], "none") ? argv[3] : NULL;
	options.argv = separator > 5 ? argv + 5 : NULL;
	if (pspawn_context_create_with(&context, argv[2], &options)) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
		return 91;
	}
	if (zygote && pspawn_context_mechanism(&context, &reason) != PSPAWN_ZYGOTE) {
		fprintf(stderr, "no zygote: %s\n", reason);
		return 92;
	}
	const struct pspawn_process process = {.argv = argv + separator + 1};
	struct pspawn_options how = {.size = sizeof how};
	sigfillset(&how.signal_default);
	how.flags = getenv("DEFAULT_SIGNALS") ? PSPAWN_SETSIGDEF : 0;
	for (int i = 0; i < count; i++) {
		pid_t pid;
		if (pspawn_many(&context, &process, 1, &how, &pid, NULL) != 1 || waitpid(pid, &status, 0) != pid) {
			fprintf(stderr, "no process: %s\n", strerror(errno));
			return 93;
		}
	}
	pspawn_context_destroy(&context);
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		kill(getpid(), WTERMSIG(status));
	}
	return WEXITSTATUS(status);
}
