/* The C library's actions around a fork, for processes that the kernel's call makes without it. */
#include "zygote.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A handler that pthread_atfork() has registered in this process. */
struct handler {
	void (*prepare)(void), (*parent)(void), (*child)(void);
	void *object;
	struct handler *older, *newer;
};
static struct handler *newest, *oldest;

typedef int register_function(void (*)(void), void (*)(void), void (*)(void), void *);

/* The function that pthread_atfork() calls. The C library registers the handlers too, for the program's own forks. */
EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
	register_function *original = (register_function *)dlsym(RTLD_NEXT, "__register_atfork");
	struct handler *handler = hwsp_zygote.socket >= 0 ? malloc(sizeof *handler) : NULL;

	if (handler) {
		*handler = (struct handler){prepare, parent, child, object, newest, NULL};
		*(newest ? &newest->newer : &oldest) = handler;
		newest = handler;
	}
	return original(prepare, parent, child, object);
}

/* Where the kernel writes when this thread ends. Since glibc 2.43, this isn't the variable for its ID. */
static int *end_of_thread(void)
{
	static int *word;
	if (!word && prctl(PR_GET_TID_ADDRESS, &word))
		word = NULL;
	return word;
}

int *hwsp_thread_number(void)
{
	static int *number;
	/* What the C library publishes for debuggers: the variable's bits, how many there are, and where. */
	const uint32_t *described;

	if (number)
		return number;
	int *word = end_of_thread(), own = (int)syscall(SYS_gettid);
	if (word && *word != own) {
		described = dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
		bool is_known = described && described[0] == 8 * sizeof own && described[1] == 1;
		word = is_known ? (int *)((char *)pthread_self() + described[2]) : NULL;
	}
	if (word && *word == own)
		number = word;
	return number;
}

/* Of this thread's robust locks, which the kernel forgets in a new process. */
static void *robust_list;
static size_t robust_bytes;

void hwsp_fork_prepare(void)
{
	if (syscall(SYS_get_robust_list, 0, &robust_list, &robust_bytes))
		robust_bytes = 0;
	for (struct handler *handler = newest; handler; handler = handler->older)
		if (handler->prepare)
			handler->prepare();
}

void hwsp_fork_parent(void)
{
	for (struct handler *handler = oldest; handler; handler = handler->newer)
		if (handler->parent)
			handler->parent();
}

void hwsp_fork_child(void)
{
	if (robust_bytes)
		syscall(SYS_set_robust_list, robust_list, robust_bytes);
	if (end_of_thread() != hwsp_thread_number())
		syscall(SYS_set_tid_address, end_of_thread());
	for (struct handler *handler = oldest; handler; handler = handler->newer)
		if (handler->child)
			handler->child();
}
