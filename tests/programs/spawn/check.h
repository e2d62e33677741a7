/* Common functions of the programs that spawn and check. */
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <pspawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s (errno: %m)", __FILE__, __LINE__, #condition); \
			fprintf(stderr, ": " __VA_ARGS__); \
			fputc('\n', stderr); \
			_exit(1); \
		} \
	} while (0)

/* One case; a program gets its name, and more arguments. */
struct trial {
	const char *name;
	void (*run)(char **arguments);
};

static inline int run_trial(const struct trial *trials, size_t count, char **argv)
{
	for (size_t i = 0; argv[1] && i < count; i++)
		if (!strcmp(trials[i].name, argv[1])) {
			alarm(100);
			trials[i].run(argv + 2);
			return 0;
		}
	fprintf(stderr, "no trial is called %s\n", argv[1] ? argv[1] : "nothing");
	return 2;
}

static inline void make_context(pspawn_context_t *context, const char *path, enum pspawn_mechanism mechanism)
{
	struct pspawn_context_options options = {.size = sizeof options, .mechanism = mechanism};
	CHECK(pspawn_context_create_with(context, path, &options) == 0, "%s", path);
}

/* A context with a zygote. */
static inline void make_zygote(pspawn_context_t *context, const char *path)
{
	const char *reason = NULL;
	make_context(context, path, PSPAWN_ZYGOTE);
	if (pspawn_context_mechanism(context, &reason) != PSPAWN_ZYGOTE &&
		strverscmp(gnu_get_libc_version(), "2.34") < 0 && reason && strstr(reason, "begins before")) {
		printf("skipped: before glibc 2.34, libpthread begins before a zygote\n");
		exit(0);
	}
	CHECK(pspawn_context_mechanism(context, &reason) == PSPAWN_ZYGOTE, "%s", reason ? reason : "no reason");
}

/* The status with which a child exits. */
static inline int status_of(pid_t pid)
{
	int status = 0;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status), "%d, status %x", pid, (unsigned)status);
	return WEXITSTATUS(status);
}

/* Spawns a shell that runs this, and returns its exit status. */
static inline int shell_exits(pspawn_context_t *context, const char *script)
{
	char *argv[] = {"sh", "-c", (char *)script, NULL};
	return status_of(pspawn(context, argv));
}

static inline int open_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static inline void no_children(void)
{
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "%s", "a child is left");
}
#endif
