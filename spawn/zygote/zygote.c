/* Makes a program a zygote: it stops, and each process that it makes continues from there with arguments of its own.
 * Loaded by LD_PRELOAD into processes that pspawn.h's library starts; in any other it does nothing. */
#include "zygote.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The first place in the heap, beyond most of its free pieces, and the distance of places. All are nearer than what the
 * C library maps apart. */
#define HEAP_START 48000
#define HEAP_STEP 16

struct zygote hwsp_zygote = {.socket = -1};

/* The entry's value, if the entry is of this variable. */
static char *value_of(char *entry, const char *name)
{
	size_t length = strlen(name);
	return !strncmp(entry, name, length) && entry[length] == '=' ? entry + length + 1 : NULL;
}

/* Removes this library, which is the first, from a list of libraries. */
static bool take_first(char *list)
{
	char *rest = strpbrk(list, ": ");
	if (rest)
		memmove(list, rest + 1, strlen(rest + 1) + 1);
	return rest;
}

/* The first of all constructors (the linker's -z initfirst): all later ones read the environment as the caller
 * provided it. The C library isn't ready yet. */
__attribute__((constructor)) static void begin(int argc, char **argv, char **envp)
{
	char **rest = envp;
	int stop = 0, name = 0;

	char **entry = envp;
	hwsp_bind(envp);
	for (; *entry; entry++) {
		char *value = value_of(*entry, HWSP_ZYGOTE_VARIABLE);
		if (!value || sscanf(value, "%d %d%n", &hwsp_zygote.socket, &stop, &name) != 2)
			continue;
		hwsp_zygote.stop = (enum pspawn_stop)stop;
		/* That of the script for which an interpreter was started. */
		prctl(PR_SET_NAME, value + name + 1);
	}
	if (hwsp_zygote.socket < 0)
		return;
	fcntl(hwsp_zygote.socket, F_SETFD, FD_CLOEXEC);
	/* It follows the environment. */
	const ElfW(auxv_t) *end = hwsp_zygote.vector = entry + 1;
	while (end++->a_type != AT_NULL)
		;
	hwsp_zygote.vector_bytes = (size_t)((const char *)end - (const char *)hwsp_zygote.vector);
	hwsp_signals_begin();
	for (entry = envp; *entry; entry++) {
		char *preload = value_of(*entry, "LD_PRELOAD");
		bool gone = value_of(*entry, HWSP_ZYGOTE_VARIABLE) || (preload && !take_first(preload));
		if (!gone)
			*rest++ = *entry;
	}
	*rest = NULL;
	if (hwsp_zygote.stop == PSPAWN_STOP_LOAD)
		hwsp_load_stop(argc, argv, envp);
	hwsp_fork_safety_remember(envp);
	errno = 0;
}

/* Continues with the program, whose stack and heap go on at a place of its own. */
static int main_elsewhere(void)
{
	static void *volatile room; /* reachable, so that no checker takes it for lost */
	void *volatile above = alloca(hwsp_stack_shift() + 1);

	(void)above, (void)room;
	room = malloc(HEAP_START + hwsp_heap_shift() * HEAP_STEP);
	return hwsp_zygote.main(hwsp_zygote.argc, hwsp_zygote.argv, environ);
}

static int stopped_main(int argc, char **argv, char **envp)
{
	if (hwsp_zygote.stop == PSPAWN_STOP_MAIN) {
		hwsp_zygote_serve();
		return main_elsewhere();
	}
	if (hwsp_zygote.stop == PSPAWN_STOP_PYTHON)
		return hwsp_python_main(argc, argv);
	return hwsp_zygote.main(argc, argv, envp);
}

/* The C library's, which calls all constructors and then main(). */
typedef int start_function(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void),
	void *);

EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
	void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	start_function *original = (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");
	if (!original)
		_exit(127);
	if (hwsp_zygote.socket >= 0) {
		hwsp_zygote.main = main;
		main = stopped_main;
	}
	return original(main, argc, argv, init, fini, loader_fini, stack_end);
}

EXPORT int pspawn_stop(int *argc, char ***argv)
{
	if (hwsp_zygote.socket < 0 || hwsp_zygote.stop != PSPAWN_STOP_CALL)
		return 0;
	hwsp_zygote_serve();
	*argc = hwsp_zygote.argc;
	*argv = hwsp_zygote.argv;
	return 1;
}
