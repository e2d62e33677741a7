/* Idle zygotes are children of the caller, but none that it knows of: a program that waits for any child until there
 * is none would wait for ever. These functions stand before the C library's in a program that is linked with this
 * library. A program without zygotes gets the C library's answers, with nothing done before. */
#include "internal.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIDDEN_MAX 64
#define EXPORT __attribute__((visibility("default")))

static _Atomic pid_t hidden[HIDDEN_MAX];
static atomic_int hidden_count;
/* Threads that wait for any child. */
static atomic_int waiting;

void hw_children_hide(pid_t pid)
{
	for (int i = 0; i < HIDDEN_MAX; i++) {
		pid_t none = 0;
		if (atomic_compare_exchange_strong(&hidden[i], &none, pid)) {
			atomic_fetch_add(&hidden_count, 1);
			return;
		}
	}
}

void hw_children_show(pid_t pid)
{
	for (int i = 0; i < HIDDEN_MAX; i++) {
		pid_t found = pid;
		if (atomic_compare_exchange_strong(&hidden[i], &found, 0)) {
			atomic_fetch_sub(&hidden_count, 1);
			return;
		}
	}
}

static bool is_hidden(pid_t pid)
{
	for (int i = 0; i < HIDDEN_MAX; i++)
		if (atomic_load(&hidden[i]) == pid)
			return true;
	return false;
}

/* True if one thread of this process has a child that isn't hidden. */
static bool thread_has_child(const char *thread)
{
	char path[64];
	int pid;
	bool found = false;

	snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
	FILE *children = fopen(path, "re");
	if (!children)
		return true; /* unknown; then it is as if there were */
	while (!found && fscanf(children, "%d", &pid) == 1)
		found = !is_hidden(pid);
	fclose(children);
	return found;
}

static bool has_child(void)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *thread;
	bool found = !threads;

	while (!found && (thread = readdir(threads)))
		if (thread->d_name[0] != '.')
			found = thread_has_child(thread->d_name);
	if (threads)
		closedir(threads);
	return found;
}

/* Somebody may wait who saw a child that another thread has reaped since. A zygote's death wakes all who wait; the
 * next process is spawned from a new one. */
static void wake_others(void)
{
	if (!atomic_load(&waiting) || has_child())
		return;
	for (int i = 0; i < HIDDEN_MAX; i++) {
		pid_t pid = atomic_load(&hidden[i]);
		if (pid) {
			kill(pid, SIGKILL);
			return;
		}
	}
}

/* Waits for any child, by `once`, which gives the number of a child, 0 for none yet, or -1. */
struct any {
	long (*once)(struct any *any, int more_options);
	int *status;
	siginfo_t *information;
	struct rusage *usage;
	int options;
};

static long wait_any(struct any *any)
{
	for (;;) {
		long pid = any->once(any, WNOHANG);
		if (pid == 0 && !has_child()) {
			errno = ECHILD;
			return -1;
		}
		if (pid == 0 && !(any->options & WNOHANG)) {
			atomic_fetch_add(&waiting, 1);
			/* The last may have gone before this thread was counted. */
			pid = has_child() ? any->once(any, 0) : 0;
			atomic_fetch_sub(&waiting, 1);
			if (pid == 0)
				continue;
		}
		if (pid <= 0 || !is_hidden((pid_t)pid)) {
			if (pid > 0 && !(any->options & WNOWAIT))
				wake_others();
			return pid;
		}
		if (any->options & WNOWAIT)
			syscall(SYS_wait4, pid, NULL, __WALL | WNOHANG, NULL);
		hw_children_show((pid_t)pid);
	}
}

static long once_wait4(struct any *any, int more_options)
{
	return syscall(SYS_wait4, -1, any->status, any->options | more_options, any->usage);
}

static long once_waitid(struct any *any, int more_options)
{
	any->information->si_pid = 0;
	long result = syscall(SYS_waitid, P_ALL, 0, any->information, any->options | more_options, any->usage);
	return result ? -1 : any->information->si_pid;
}

/* The C library's own. */
#define ORIGINAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pid_t reaped(pid_t pid)
{
	if (pid > 0 && atomic_load(&hidden_count))
		wake_others();
	return pid;
}

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	struct any any = {.once = once_wait4, .status = status, .usage = usage, .options = options};
	if (pid == -1 && atomic_load(&hidden_count))
		return (pid_t)wait_any(&any);
	return reaped(ORIGINAL(wait4)(pid, status, options, usage));
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	struct any any = {.once = once_wait4, .status = status, .options = options};
	if (pid == -1 && atomic_load(&hidden_count))
		return (pid_t)wait_any(&any);
	return reaped(ORIGINAL(waitpid)(pid, status, options));
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

EXPORT pid_t wait(int *status)
{
	return waitpid(-1, status, 0);
}

EXPORT int waitid(idtype_t kind, id_t id, siginfo_t *information, int options)
{
	siginfo_t own = {0};
	struct any any = {.once = once_waitid, .information = information ? information : &own, .options = options};

	if (kind == P_ALL && atomic_load(&hidden_count)) {
		long pid = wait_any(&any);
		if (pid == 0 && information)
			information->si_signo = 0;
		return pid < 0 ? -1 : 0;
	}
	int result = ORIGINAL(waitid)(kind, id, information, options);
	if (result == 0 && !(options & WNOWAIT))
		reaped((pid_t)(information ? information->si_pid : 0));
	return result;
}
