/* Processes made by exec, in the ways that the paper compares, and in those that are used where a zygote can't be. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child is made of. */
struct plan {
	const char *path;
	const struct pspawn_process *process;
	const struct pspawn_options *options;
	struct hw_place place;
	sigset_t mask; /* of the caller, which has blocked everything */
};

/* Makes a process that has its maker's memory until it execs or ends; the maker waits. This must not be a function:
 * the child would return from it, over the frame that its maker returns to. 0 in the child, -errno on failure. */
static inline __attribute__((always_inline)) long clone_inline(struct clone_args *arguments)
{
	long result;
#if defined(__x86_64__)
	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"((long)SYS_clone3), "D"(arguments), "S"(sizeof *arguments)
	                 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)arguments;
	register long x1 __asm__("x1") = sizeof *arguments;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	result = x0;
#else
#error "clone3 is not written for this processor"
#endif
	return result;
}

/* The child's part; gives why there is no program. */
static int become(const struct plan *plan, bool handlers)
{
	/* Handlers are the caller's code, in the caller's memory. */
	if (handlers)
		hw_default_handlers();
	int error = hw_apply(plan->process, plan->options, &plan->place);
	if (error)
		return error;
	const sigset_t *mask = plan->options->flags & PSPAWN_SETSIGMASK ? &plan->options->signal_mask : &plan->mask;
	sigprocmask(SIG_SETMASK, mask, NULL);
	execve(plan->path, plan->process->argv, plan->process->envp);
	return errno;
}

/* A process that shares memory with its maker until its program begins. */
static pid_t by_clone(const struct plan *plan, bool clear, uint64_t more_flags, int *error)
{
	struct clone_args arguments = {
		.flags = CLONE_VM | CLONE_VFORK | more_flags,
		.exit_signal = more_flags & CLONE_PARENT ? 0 : SIGCHLD,
	};
	volatile int failed = 0;

	if (clear)
		arguments.flags |= CLONE_CLEAR_SIGHAND;
	if (plan->options->flags & PSPAWN_SETCGROUP) {
		arguments.flags |= CLONE_INTO_CGROUP;
		arguments.cgroup = (uint64_t)plan->options->cgroup;
	}
	long pid = clone_inline(&arguments);
	if (pid == 0) {
		failed = become(plan, !clear);
		_exit(127);
	}
	if (pid < 0) {
		*error = (int)-pid;
		return -1;
	}
	if (failed) {
		*error = failed;
		hw_reap((pid_t)pid);
		return -1;
	}
	return (pid_t)pid;
}

/* A copy of the caller, which then execs; a pipe tells if it couldn't. */
static pid_t by_fork(const struct plan *plan, int *error)
{
	int pipe_ends[2], failed = 0;
	ssize_t got;

	if (plan->options->flags & PSPAWN_SETCGROUP) {
		*error = ENOTSUP;
		return -1;
	}
	if (pipe2(pipe_ends, O_CLOEXEC)) {
		*error = errno;
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		failed = become(plan, true);
		got = write(pipe_ends[1], &failed, sizeof failed);
		_exit(got == sizeof failed ? 127 : 126);
	}
	*error = errno;
	close(pipe_ends[1]);
	if (pid > 0) {
		do
			got = read(pipe_ends[0], &failed, sizeof failed);
		while (got < 0 && errno == EINTR);
		if (got == sizeof failed) {
			*error = failed;
			hw_reap(pid);
			pid = -1;
		}
	}
	close(pipe_ends[0]);
	return pid;
}

/* What posix_spawn can't say is refused. */
static int spawn_actions(const struct plan *plan, posix_spawn_file_actions_t *actions)
{
	int error = 0;
	for (size_t i = 0; !error && i < plan->process->file_action_count; i++) {
		const struct pspawn_file_action *action = &plan->process->file_actions[i];
		switch (action->kind) {
		case PSPAWN_CLOSE:
			error = posix_spawn_file_actions_addclose(actions, action->fd);
			break;
		case PSPAWN_DUP2:
			error = posix_spawn_file_actions_adddup2(actions, action->from, action->fd);
			break;
		case PSPAWN_OPEN:
			error = posix_spawn_file_actions_addopen(actions, action->fd, action->path, action->flags, action->mode);
			break;
		}
	}
	return error;
}

static pid_t by_posix_spawn(const struct plan *plan, int *error)
{
	const struct pspawn_options *options = plan->options;
	const sigset_t *mask = options->flags & PSPAWN_SETSIGMASK ? &options->signal_mask : &plan->mask;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	short flags = POSIX_SPAWN_SETSIGMASK;
	pid_t pid = -1;

	if (options->flags & (PSPAWN_SETUMASK | PSPAWN_SETCGROUP) || options->limit_count || plan->place.bound ||
	    plan->process->cwd) {
		*error = ENOTSUP;
		return -1;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, mask);
	posix_spawnattr_setsigdefault(&attributes, &options->signal_default);
	posix_spawnattr_setpgroup(&attributes, options->pgroup);
	flags |= options->flags & PSPAWN_SETSIGDEF ? POSIX_SPAWN_SETSIGDEF : 0;
	flags |= options->flags & PSPAWN_SETPGROUP ? POSIX_SPAWN_SETPGROUP : 0;
	flags |= options->flags & PSPAWN_SETSID ? POSIX_SPAWN_SETSID : 0;
	posix_spawnattr_setflags(&attributes, flags);
	*error = spawn_actions(plan, &actions);
	if (!*error)
		*error = posix_spawn(&pid, plan->path, &actions, &attributes, plan->process->argv, plan->process->envp);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return *error ? -1 : pid;
}

static pid_t spawn_one(enum pspawn_mechanism mechanism, struct plan *plan, uint64_t more_flags, int *error)
{
	switch (mechanism) {
	case PSPAWN_POSIX_SPAWN:
		return by_posix_spawn(plan, error);
	case PSPAWN_FORK:
		return by_fork(plan, error);
	case PSPAWN_CLONE3:
		return by_clone(plan, true, more_flags, error);
	default:
		return by_clone(plan, false, more_flags, error);
	}
}

/* True for an error after which further attempts are hopeless. */
static bool is_shortage(int error)
{
	return error == EAGAIN || error == ENOMEM;
}

static uint32_t in_turn(enum pspawn_mechanism mechanism, struct plan *plan, uint32_t count, struct hw_result *results,
                        uint64_t more_flags, int *error)
{
	const struct pspawn_process *processes = plan->process;
	for (uint32_t i = 0; i < count; i++) {
		plan->process = &processes[i];
		int failed = hw_place(plan->process, plan->options, i, &plan->place);
		int pid = failed ? -1 : spawn_one(mechanism, plan, more_flags, &failed);
		results[i] = (struct hw_result){pid, pid > 0 ? 0 : failed};
		if (is_shortage(results[i].error)) {
			*error = results[i].error;
			return i + 1;
		}
	}
	return count;
}

/* The paper's pfork: one child makes the others, as children of its parent, and then runs the first program itself.
 * Its memory is its own, what it writes to the results is shared. */
static uint32_t by_first_child(struct plan *plan, uint32_t count, struct hw_result *results, int *error)
{
	size_t bytes = sizeof *results * count + sizeof(uint32_t);
	struct hw_result *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t tried = 0;
	int pipe_ends[2];
	char byte;

	if (shared == MAP_FAILED || pipe2(pipe_ends, O_CLOEXEC)) {
		*error = errno;
		if (shared != MAP_FAILED)
			munmap(shared, bytes);
		return 0;
	}
	pid_t first = fork();
	if (first == 0) {
		const struct pspawn_process *processes = plan->process;
		struct plan others = *plan;
		int failed = 0;
		others.process = processes + 1;
		shared[0] = (struct hw_result){getpid(), 0};
		*(uint32_t *)&shared[count] = 1 + in_turn(PSPAWN_VFORK, &others, count - 1, shared + 1, CLONE_PARENT, &failed);
		plan->process = processes;
		failed = hw_place(processes, plan->options, 0, &plan->place);
		shared[0].error = failed ? failed : become(plan, true);
		_exit(127);
	}
	*error = errno;
	close(pipe_ends[1]);
	if (first > 0) {
		/* Closed by the first child's exec, or its end. */
		while (read(pipe_ends[0], &byte, 1) < 0 && errno == EINTR)
			;
		tried = *(uint32_t *)&shared[count];
		memcpy(results, shared, sizeof *results * tried);
		*error = tried < count ? EAGAIN : 0;
		if (tried && results[0].error) {
			hw_reap(first);
			results[0].pid = -1;
		}
	}
	close(pipe_ends[0]);
	munmap(shared, bytes);
	return tried;
}

void hw_reap(pid_t pid)
{
	while (syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
		;
}

uint32_t hw_direct(enum pspawn_mechanism mechanism, const char *path, const struct pspawn_process *processes,
                   uint32_t count, const struct pspawn_options *options, struct hw_result *results, int *error)
{
	struct plan plan = {.path = path, .process = processes, .options = options};
	uint32_t tried;
	sigset_t all;
	int state;

	/* A handler, or a cancellation, would run in the child with the caller's memory. */
	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_sigmask(SIG_BLOCK, &all, &plan.mask);
	*error = 0;
	if (mechanism == PSPAWN_PFORK)
		tried = count ? by_first_child(&plan, count, results, error) : 0;
	else
		tried = in_turn(mechanism, &plan, count, results, 0, error);
	pthread_sigmask(SIG_SETMASK, &plan.mask, NULL);
	pthread_setcancelstate(state, NULL);
	return tried;
}
