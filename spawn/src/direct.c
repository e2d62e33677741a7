/* Processes made by exec: by the mechanisms that the paper compares, and by those that replace a zygote. */
#include "../core/internal.h"

#include <dlfcn.h>
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

/* The plan of a child. */
struct plan {
	const char *path;
	const struct pspawn_process *process;
	const struct pspawn_options *options;
	struct hwsp_cpu_placement placement;
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

/* The child's part. Returns why the program can't be executed. */
static int exec_child(const struct plan *plan, bool handlers)
{
	/* Handlers are the caller's code, in the caller's memory. */
	if (handlers)
		hwsp_default_handlers();
	int error = hwsp_apply(plan->process, plan->options, &plan->placement);
	if (error)
		return error;
	const sigset_t *mask = plan->options->flags & PSPAWN_SETSIGMASK ? &plan->options->signal_mask : &plan->mask;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, sizeof(uint64_t));
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
		failed = exec_child(plan, !clear);
		_exit(127);
	}
	if (pid < 0) {
		*error = (int)-pid;
		return -1;
	}
	*error = failed;
	/* If the process is another's child, its creator reaps it. */
	if (!failed || more_flags & CLONE_PARENT)
		return (pid_t)pid;
	hwsp_reap((pid_t)pid);
	return -1;
}

/* A pipe that exec closes, whose descriptors no file action of these processes names. */
static int pipe_apart(const struct pspawn_process *processes, uint32_t count, int ends[2])
{
	int highest = STDERR_FILENO;

	for (uint32_t i = 0; i < count; i++)
		for (size_t number = 0; number < processes[i].file_action_count; number++) {
			const struct pspawn_file_action *action = &processes[i].file_actions[number];
			highest = action->fd > highest ? action->fd : highest;
			if (action->kind == PSPAWN_DUP2 && action->from > highest)
				highest = action->from;
		}
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	for (int end = 0; end < 2; end++) {
		int moved = fcntl(ends[end], F_DUPFD_CLOEXEC, highest + 1);
		int error = errno;
		close(ends[end]);
		if (moved < 0) {
			close(ends[1 - end]);
			return error;
		}
		ends[end] = moved;
	}
	return 0;
}

/* Forks the caller, and execs in the child; a pipe reports if exec fails. */
static pid_t by_fork(const struct plan *plan, int *error)
{
	int pipe_ends[2], failed = 0;
	ssize_t got;

	if (plan->options->flags & PSPAWN_SETCGROUP) {
		*error = ENOTSUP;
		return -1;
	}
	*error = pipe_apart(plan->process, 1, pipe_ends);
	if (*error)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		failed = exec_child(plan, true);
		got = write(pipe_ends[1], &failed, sizeof failed);
		_exit(got == sizeof failed ? 127 : 126);
	}
	*error = pid < 0 ? errno : 0;
	close(pipe_ends[1]);
	if (pid > 0) {
		do
			got = read(pipe_ends[0], &failed, sizeof failed);
		while (got < 0 && errno == EINTR);
		if (got == sizeof failed) {
			*error = failed;
			hwsp_reap(pid);
			pid = -1;
		}
	}
	close(pipe_ends[0]);
	return pid;
}

/* glibc 2.28 lacks the function. */
static int spawn_in(posix_spawn_file_actions_t *actions, const char *directory)
{
	int (*add)(posix_spawn_file_actions_t *, const char *) = (int (*)(posix_spawn_file_actions_t *,
		const char *))dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addchdir_np");
	return add ? add(actions, directory) : ENOTSUP;
}

/* Options that posix_spawn can't express are refused. */
static int spawn_actions(const struct plan *plan, posix_spawn_file_actions_t *actions)
{
	int error = plan->process->cwd ? spawn_in(actions, plan->process->cwd) : 0;
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
			error = posix_spawn_file_actions_addopen(actions, action->fd, action->path, action->flags,
				action->mode);
			break;
		}
	}
	return error;
}

/* True for an error after which further attempts are hopeless. */
static bool is_shortage(int error)
{
	return error == EAGAIN || error == ENOMEM;
}

static pid_t by_posix_spawn(const struct plan *plan, int *error)
{
	const struct pspawn_options *options = plan->options;
	const sigset_t *mask = options->flags & PSPAWN_SETSIGMASK ? &options->signal_mask : &plan->mask;
	/* The kernel takes no list for an empty one, the C library doesn't. */
	static char *const none[] = {NULL};
	char *const *argv = plan->process->argv;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	short flags = POSIX_SPAWN_SETSIGMASK;
	pid_t pid = -1;

	if (options->flags & (PSPAWN_SETUMASK | PSPAWN_SETCGROUP) || options->limit_count || plan->placement.bound) {
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
	if (!*error) {
		int saved = errno;
		errno = 0;
		*error = posix_spawn(&pid, plan->path, &actions, &attributes, argv ? argv : none, plan->process->envp);
		/* glibc 2.31 takes clone's -1 for the error. */
		*error = *error == EPERM && is_shortage(errno) ? errno : *error;
		errno = saved;
	}
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return *error ? -1 : pid;
}

static pid_t spawn_one(enum pspawn_mechanism mechanism, struct plan *plan, uint64_t more_flags, int *error)
{
	pid_t pid;

	switch (mechanism) {
	case PSPAWN_POSIX_SPAWN:
		return by_posix_spawn(plan, error);
	case PSPAWN_FORK:
		return by_fork(plan, error);
	case PSPAWN_CLONE3:
		return by_clone(plan, true, more_flags, error);
	default:
		pid = by_clone(plan, false, more_flags, error);
		/* An old kernel, or a container that hides the call. */
		if (pid < 0 && *error == ENOSYS && !more_flags)
			pid = by_fork(plan, error);
		return pid;
	}
}

/* A handler, or what cancels a thread, would run in the child with the caller's memory. The C library leaves out
 * its own signals when it blocks all. */
static void block_all(sigset_t *before)
{
	uint64_t all = ~(uint64_t)0;
	sigemptyset(before);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, sizeof all);
}

static void unblock(const sigset_t *before)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof(uint64_t));
}

/* The first process that lives leads the others. */
static void lead(struct pspawn_options *options, struct hwsp_result result)
{
	if (options->flags & PSPAWN_ONE_GROUP && options->flags & PSPAWN_SETPGROUP && !options->pgroup &&
		result.pid > 0 && !result.error)
		options->pgroup = result.pid;
}

static uint32_t in_turn(enum pspawn_mechanism mechanism, struct plan plan, uint32_t first, uint32_t count,
	struct hwsp_result *results, uint64_t more_flags, int *error)
{
	const struct pspawn_process *processes = plan.process;
	struct pspawn_options options = *plan.options;

	plan.options = &options;
	for (uint32_t i = first; i < count; i++) {
		plan.process = &processes[i];
		int failed = hwsp_place_process(plan.process, plan.options, i, &plan.placement);
		int pid = failed ? -1 : spawn_one(mechanism, &plan, more_flags, &failed);
		results[i] = (struct hwsp_result){pid, failed};
		lead(&options, results[i]);
		/* The caller's handlers needn't wait for the last. */
		if (!more_flags) {
			unblock(&plan.mask);
			block_all(&plan.mask);
		}
		if (is_shortage(failed)) {
			*error = failed;
			return i + 1;
		}
	}
	return count;
}

/* The paper's pfork: one child makes the others, as children of its parent, and then runs the first program itself.
 * Its memory is its own, what it writes to the results is shared. */
static uint32_t by_first_child(struct plan *plan, uint32_t count, struct hwsp_result *results, int *error)
{
	size_t bytes = sizeof *results * count;
	struct hwsp_result *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t tried = 0;
	int pipe_ends[2];
	char byte;

	*error = shared == MAP_FAILED ? errno : pipe_apart(plan->process, count, pipe_ends);
	if (*error) {
		if (shared != MAP_FAILED)
			munmap(shared, bytes);
		return 0;
	}
	pid_t first = fork();
	if (first == 0) {
		struct plan others = *plan;
		struct pspawn_options options = *plan->options;
		int failed = 0;
		shared[0] = (struct hwsp_result){getpid(), 0};
		/* The others join its group, which must be there before them. */
		if (options.flags & PSPAWN_ONE_GROUP && options.flags & PSPAWN_SETPGROUP &&
			setpgid(0, options.pgroup) == 0)
			lead(&options, shared[0]);
		others.options = &options;
		in_turn(PSPAWN_VFORK, others, 1, count, shared, CLONE_PARENT, &failed);
		failed = hwsp_place_process(plan->process, plan->options, 0, &plan->placement);
		shared[0].error = failed ? failed : exec_child(plan, true);
		_exit(127);
	}
	*error = first < 0 ? errno : 0;
	close(pipe_ends[1]);
	if (first > 0) {
		/* Closed by the first child's exec, or its end. */
		while (read(pipe_ends[0], &byte, 1) < 0 && errno == EINTR)
			;
		shared[0].pid = first;
		while (tried < count && (shared[tried].pid || shared[tried].error))
			tried++;
		memcpy(results, shared, sizeof *results * tried);
		*error = tried < count ? EAGAIN : 0;
	}
	close(pipe_ends[0]);
	munmap(shared, bytes);
	return tried;
}

void hwsp_kill_child(pid_t pid)
{
	siginfo_t ended;
	if (syscall(SYS_waitid, P_PID, pid, &ended, WEXITED | WNOWAIT | WNOHANG | __WALL, NULL) == 0)
		kill(pid, SIGKILL);
}

void hwsp_reap(pid_t pid)
{
	while (syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
		;
}

uint32_t hwsp_direct(enum pspawn_mechanism mechanism, const char *path, const struct pspawn_process *processes,
	uint32_t count, const struct pspawn_options *options, struct hwsp_result *results, int *error)
{
	struct plan plan = {.path = path, .process = processes, .options = options};
	uint32_t tried;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	block_all(&plan.mask);
	*error = 0;
	if (mechanism == PSPAWN_PFORK && options->flags & PSPAWN_SETCGROUP) {
		/* The first is made by fork. */
		tried = 0;
		*error = ENOTSUP;
	} else if (mechanism == PSPAWN_PFORK) {
		tried = count ? by_first_child(&plan, count, results, error) : 0;
	} else {
		tried = in_turn(mechanism, plan, 0, count, results, 0, error);
	}
	unblock(&plan.mask);
	pthread_setcancelstate(state, NULL);
	return tried;
}
