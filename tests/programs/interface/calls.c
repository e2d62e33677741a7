/* Makes calls of <headwater.h>, and prints their results: each argument is a call, `NAME` or `NAME=PATH`, up to `end`.
 * `thread`, `fork` and `library=FILE` make those up to their `end` in a new thread, a child, or another copy of this
 * program's code, which is built as a library. */
#include <headwater.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#ifdef __cplusplus
extern "C"
#endif
	char **
	run(char **calls);

static void report(const char *call, long result)
{
	printf("%s: %ld %s\n", call, result, result < 0 ? strerror(errno) : "");
}

static void show(const char *call, FILE *file)
{
	char text[64];

	if (!file) {
		report(call, -1);
		return;
	}
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	printf("%s: %s\n", call, text);
}

static FILE *stream(int fd)
{
	return fd < 0 ? NULL : fdopen(fd, "r");
}

/* Writes what a file begins with, over itself. */
static int rewritten(int fd)
{
	char first;

	if (pread(fd, &first, 1, 0) == 1 && pwrite(fd, &first, 1, 0) != 1)
		abort();
	return fd;
}

static void show_size(const char *call, int result, const struct stat *found)
{
	report(call, result < 0 ? result : (long)found->st_size);
}

static void call_path(const char *call, const char *path)
{
	struct stat found;
	char target[64];

	errno = 0;
	if (strncmp(call, "open=", 5) == 0)
		show(call, stream(headwater_open(path, O_RDONLY | O_CLOEXEC)));
	else if (strncmp(call, "write=", 6) == 0)
		show(call, stream(rewritten(headwater_open(path, O_RDWR | O_CREAT, 0600))));
	else if (strncmp(call, "fopen=", 6) == 0)
		show(call, headwater_fopen(path, "re"));
	else if (strncmp(call, "plain=", 6) == 0)
		show(call, stream(open(path, O_RDONLY | O_CLOEXEC)));
	else if (strncmp(call, "stat=", 5) == 0)
		show_size(call, headwater_stat(path, &found), &found);
	else if (strncmp(call, "lstat=", 6) == 0)
		show_size(call, headwater_lstat(path, &found), &found);
	else if (strncmp(call, "readlink=", 9) == 0)
		report(call, headwater_readlink(path, target, sizeof(target)));
	else if (strncmp(call, "served=", 7) == 0)
		report(call, headwater_is_served(path));
	else
		abort();
}

static void *run_thread(void *calls)
{
	return run((char **)calls);
}

static char **run_in_thread(char **calls)
{
	pthread_t thread;
	void *rest = NULL;

	if (pthread_create(&thread, NULL, run_thread, calls) != 0 || pthread_join(thread, &rest) != 0)
		abort();
	return (char **)rest;
}

static char **run_in_child(char **calls)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		run(calls);
		exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		abort();
	while (*calls && strcmp(*calls, "end") != 0)
		calls++;
	return calls;
}

static char **run_in_library(const char *file, char **calls)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	char **(*runs)(char **);

	if (!library)
		abort();
	*(void **)&runs = dlsym(library, "run");
	return runs(calls);
}

char **run(char **calls)
{
	for (; *calls && strcmp(*calls, "end") != 0; calls++) {
		const char *path = strchr(*calls, '=');

		errno = 0;
		if (strncmp(*calls, "library=", 8) == 0)
			calls = run_in_library(path + 1, calls + 1);
		else if (path)
			call_path(*calls, path + 1);
		else if (strcmp(*calls, "session") == 0)
			report(*calls, headwater_is_served(NULL));
		else if (strcmp(*calls, "disable") == 0)
			report(*calls, headwater_disable());
		else if (strcmp(*calls, "enable") == 0)
			report(*calls, headwater_enable());
		else if (strcmp(*calls, "thread") == 0)
			calls = run_in_thread(calls + 1);
		else if (strcmp(*calls, "fork") == 0)
			calls = run_in_child(calls + 1);
		else
			abort();
	}
	return calls;
}

#ifndef LIBRARY
int main(int count, char *arguments[])
{
	(void)count;
	run(arguments + 1);
	return 0;
}
#endif
