/* Records whether any code has queried, before the zygote stopped, on which processors it may run. A library that
 * makes one thread for each processor (OpenMP, OpenBLAS) does so as it is loaded. Then a process that may run on
 * fewer or more processors needs another zygote. Queries that bypass the C library are not noticed. */
#include "zygote.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool counted;

bool hwsp_cores_counted(void)
{
	return counted;
}

/* Works as the C library's function, which a library may call before it can be found. Returns 0 or an errno value. */
static int ask_kernel(pid_t thread, size_t bytes, cpu_set_t *set)
{
	int before = errno;
	long got = syscall(SYS_sched_getaffinity, thread, bytes < INT_MAX ? bytes : INT_MAX, set);
	int error = got < 0 ? errno : 0;

	counted = true;
	errno = before;
	if (!error)
		memset((char *)set + got, 0, bytes - (size_t)got);
	return error;
}

EXPORT int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	int error = ask_kernel(pid, bytes, set);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *set)
{
	__typeof__(&pthread_getaffinity_np) original;

	if (pthread_equal(thread, pthread_self()))
		return ask_kernel(0, bytes, set);
	counted = true;
	original = (__typeof__(original))dlsym(RTLD_NEXT, "pthread_getaffinity_np");
	return original ? original(thread, bytes, set) : ENOSYS;
}
