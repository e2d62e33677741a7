/* The C library's actions around a fork, for processes that the kernel's call makes without it. */
#include "zygote.h"

#include <dlfcn.h>
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
	for (struct handler *handler = oldest; handler; handler = handler->newer)
		if (handler->child)
			handler->child();
}

int *hwsp_thread_number(void)
{
	static int *number;
	if (!number && prctl(PR_GET_TID_ADDRESS, &number))
		number = NULL;
	return number;
}
