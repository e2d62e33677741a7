/*
 * Idle zygotes are children of the caller that it has not started: a program that waits for any child until there is
 * none would wait for ever. These functions interpose on the C library's in a program that is linked with this library.
 * A program without zygotes gets the C library's answers directly.
 *
 * They are called in handlers of SIGCHLD, so they use system calls and the caller's stack alone.
 */
#include "../core/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIDDEN_MAX 256
static _Atomic pid_t hidden[HIDDEN_MAX];
static atomic_int hidden_count;
/* Their parent: a fork of that process has none of them. */
static _Atomic pid_t owner;
/* Threads that wait for any child. */
static atomic_int waiting;

/* The C library's own, found before a handler could need them. */
static __typeof__(&wait4) original_wait4;
static __typeof__(&waitpid) original_waitpid;
static __typeof__(&waitid) original_waitid;

__attribute__((constructor)) static void find_libc(void)
{
	original_wait4 = (__typeof__(&wait4))dlsym(RTLD_NEXT, "wait4");
	original_waitpid = (__typeof__(&waitpid))dlsym(RTLD_NEXT, "waitpid");
	original_waitid = (__typeof__(&waitid))dlsym(RTLD_NEXT, "waitid");
}

bool hwsp_children_hide(pid_t pid)
{
	pid_t self = getpid();

	if (atomic_exchange(&owner, self) != self) {
		for (int i = 0; i < HIDDEN_MAX; i++)
			atomic_store(&hidden[i], 0);
		atomic_store(&hidden_count, 0);
		atomic_store(&waiting, 0);
	}
	for (int i = 0; i < HIDDEN_MAX; i++) {
		pid_t none = 0;
		if (atomic_compare_exchange_strong(&hidden[i], &none, pid)) {
			atomic_fetch_add(&hidden_count, 1);
			return true;
		}
	}
	return false;
}

void hwsp_children_show(pid_t pid)
{
	for (int i = 0; i < HIDDEN_MAX; i++) {
		pid_t found = pid;
		if (atomic_compare_exchange_strong(&hidden[i], &found, 0)) {
			atomic_fetch_sub(&hidden_count, 1);
			return;
		}
	}
}

static bool any_hidden(void)
{
	return atomic_load(&hidden_count) && atomic_load(&owner) == getpid();
}

static bool is_hidden(pid_t pid)
{
	for (int i = 0; i < HIDDEN_MAX; i++)
		if (atomic_load(&hidden[i]) == pid)
			return true;
	return false;
}

/* True if one thread of this process, whose directory in /proc is open, has a child that isn't hidden. */
static bool thread_has_child(int threads, const char *thread, void *unused)
{
	char path[64], text[1024];
	pid_t pid = 0;
	bool found = false;
	ssize_t got;

	(void)unused;
	if (strlen(thread) > 20)
		return true;
	memcpy(path, thread, strlen(thread));
	memcpy(path + strlen(thread), "/children", sizeof "/children");
	int fd = openat(threads, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT && errno != ESRCH; /* unknown is as if there were; an ended thread has none */
	while (!found && (got = read(fd, text, sizeof text)) > 0) {
		for (ssize_t i = 0; !found && i < got; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = 10 * pid + (text[i] - '0');
				continue;
			}
			found = pid && !is_hidden(pid);
			pid = 0;
		}
	}
	close(fd);
	return found || (pid && !is_hidden(pid));
}

static bool has_child(void)
{
	return hwsp_find_entry("/proc/self/task", thread_has_child, NULL) != 0;
}

/* A thread may wait for a child that another thread has reaped since. A zygote's death wakes all waiting threads;
 * the next process is spawned from a new zygote. */
static void wake_others(void)
{
	if (!atomic_load(&waiting) || has_child())
		return;
	for (int i = 0; i < HIDDEN_MAX; i++) {
		pid_t pid = atomic_load(&hidden[i]);
		if (pid) {
			hwsp_kill_child(pid);
			return;
		}
	}
}

/* Waits for any child by `once`, which returns a child's PID, 0 for none yet, or -1. */
struct any {
	long (*once)(struct any *any, int more_options);
	int *status;
	siginfo_t *information;
	struct rusage *usage;
	int options;
};

static void no_longer_waiting(void *unused)
{
	(void)unused;
	atomic_fetch_sub(&waiting, 1);
}

/* Waits until there is a status to return; 0 if there is no child. It is a cancellation point. */
static long wait_long(struct any *any)
{
	long pid;

	atomic_fetch_add(&waiting, 1);
	pthread_cleanup_push(no_longer_waiting, NULL);
	/* The last child may have ended before this thread was counted. */
	pid = has_child() ? any->once(any, 0) : 0;
	pthread_cleanup_pop(1);
	return pid;
}

static long wait_any(struct any *any)
{
	int before = errno;

	for (;;) {
		long pid = any->once(any, WNOHANG);
		if (pid == 0 && !has_child()) {
			errno = ECHILD;
			return -1;
		}
		if (pid == 0 && !(any->options & WNOHANG)) {
			pid = wait_long(any);
			if (pid == 0)
				continue;
		}
		if (pid <= 0 || !is_hidden((pid_t)pid)) {
			if (pid > 0 && !(any->options & WNOWAIT))
				wake_others();
			if (pid >= 0)
				errno = before;
			return pid;
		}
		if (any->options & WNOWAIT)
			syscall(SYS_wait4, pid, NULL, __WALL | WNOHANG, NULL);
		hwsp_children_show((pid_t)pid);
	}
}

static long once_wait4(struct any *any, int more_options)
{
	return original_wait4(-1, any->status, any->options | more_options, any->usage);
}

static long once_waitid(struct any *any, int more_options)
{
	any->information->si_pid = 0;
	return original_waitid(P_ALL, 0, any->information, any->options | more_options) ? -1 : any->information->si_pid;
}

static pid_t reaped(pid_t pid)
{
	int error = errno;
	if (pid > 0 && any_hidden())
		wake_others();
	errno = error;
	return pid;
}

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	struct any any = {.once = once_wait4, .status = status, .usage = usage, .options = options};
	if (!original_wait4)
		find_libc();
	if (pid == -1 && any_hidden())
		return (pid_t)wait_any(&any);
	return reaped(original_wait4(pid, status, options, usage));
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	struct any any = {.once = once_wait4, .status = status, .options = options};
	if (!original_waitpid)
		find_libc();
	if (pid == -1 && any_hidden())
		return (pid_t)wait_any(&any);
	return reaped(original_waitpid(pid, status, options));
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

	if (!original_waitid)
		find_libc();
	if (kind == P_ALL && any_hidden()) {
		long pid = wait_any(&any);
		if (pid == 0)
			any.information->si_signo = 0;
		return pid < 0 ? -1 : 0;
	}
	int result = original_waitid(kind, id, information, options);
	if (result == 0 && !(options & WNOWAIT))
		reaped((pid_t)(information ? information->si_pid : 0));
	return result;
}
