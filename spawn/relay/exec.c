/* The C library's functions that end in an exec. In a child that launcher.c has made, each first tries to spawn by the
 * zygote, and then calls the C library's function. */
#include "relay.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#define ARGUMENTS_MAX 4096

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	hwsp_relay_exec(path, argv, envp);
	return ORIGINAL(execve)(path, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
	hwsp_relay_exec(path, argv, environ);
	return ORIGINAL(execv)(path, argv);
}

EXPORT int execvpe(const char *name, char *const argv[], char *const envp[])
{
	struct hwsp_program program;
	if (hwsp_relay.child && hwsp_program(name, &program) == 0) {
		hwsp_relay_exec(program.script ? program.script : program.path, argv, envp);
		hwsp_program_free(&program);
	}
	return ORIGINAL(execvpe)(name, argv, envp);
}

EXPORT int execvp(const char *name, char *const argv[])
{
	return execvpe(name, argv, environ);
}

/* Collects the arguments of a variadic call; `last` points behind the NULL at their end. */
static size_t collect(const char *first, va_list list, const char *arguments[ARGUMENTS_MAX])
{
	size_t count = 0;
	arguments[count] = first;
	while (arguments[count] && count + 1 < ARGUMENTS_MAX)
		arguments[++count] = va_arg(list, const char *);
	return count;
}

EXPORT int execl(const char *path, const char *first, ...)
{
	const char *arguments[ARGUMENTS_MAX];
	va_list list;
	va_start(list, first);
	collect(first, list, arguments);
	va_end(list);
	return execv(path, (char *const *)arguments);
}

EXPORT int execlp(const char *name, const char *first, ...)
{
	const char *arguments[ARGUMENTS_MAX];
	va_list list;
	va_start(list, first);
	collect(first, list, arguments);
	va_end(list);
	return execvp(name, (char *const *)arguments);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	const char *arguments[ARGUMENTS_MAX];
	va_list list;
	va_start(list, first);
	collect(first, list, arguments);
	char *const *envp = va_arg(list, char *const *);
	va_end(list);
	return execve(path, (char *const *)arguments, envp);
}
