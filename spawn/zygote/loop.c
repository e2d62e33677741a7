/* A zygote's life: it takes requests, makes processes, and ends when its owner's end of the socket closes. */
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (sizeof(struct hwsp_head) + HWSP_INLINE_MAX)
/* Interval of checks for a process that has not reported its outcome. */
#define CHECK_MS 20

/* A process's outcome, which it reports: 0 while pending, 1 for success, or 2 + an errno value. */
typedef _Atomic uint32_t outcome;

/* The contents of a request. Its descriptors are private ones, -1: none was received. */
struct served {
	struct hwsp_head head;
	struct hwsp_request request;
	int cwd, results_file, answer, body, cgroup;
	char *mapped; /* the body, if it is in a file */
	struct hwsp_result *results;
	outcome *outcomes; /* of the processes that report; NULL: none does */
};

static char *buffer;
static struct hwsp_result *shared_results;
/* A descriptor of the owner's process, right behind the socket; -1: none. */
static int owner = -1;
/* Its number, as this process sees it. */
static pid_t owner_pid;

/* Moves a descriptor to where the zygote's own are. */
static int make_private(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, hwsp_zygote.socket + 2);
	close(fd);
	return moved;
}

/* Received descriptors are ascending and have the lowest free numbers, so none exceeds its target; from the last to the
 * first, each target is free. */
static int arrange(struct served *served, int *fds, uint32_t count)
{
	const struct hwsp_inherited *inherited = &served->request.inherited;
	for (uint32_t i = count; i-- > 0;) {
		int wanted = inherited->fds[i], ends = inherited->fd_ends[i] ? FD_CLOEXEC : 0;
		if (fds[i] == wanted) {
			if (!ends && fcntl(wanted, F_SETFD, 0))
				return ENOTSUP;
			continue;
		}
		if (wanted < fds[i] || wanted >= hwsp_zygote.socket || dup3(fds[i], wanted, ends ? O_CLOEXEC : 0) < 0)
			return ENOTSUP;
		close(fds[i]);
	}
	return 0;
}

/* Takes the descriptors that aren't inherited. */
static int unpack(struct served *served, int *fds, uint32_t count)
{
	uint32_t next = served->head.fds;
	int *targets[] = {&served->cwd, served->head.flags & HWSP_OWN_RESULTS ? &served->results_file : NULL,
		served->head.flags & HWSP_OWN_RESULTS ? &served->answer : NULL,
		served->head.flags & HWSP_IN_FILE ? &served->body : NULL,
		served->head.flags & HWSP_WITH_CGROUP ? &served->cgroup : NULL};
	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
		if (!targets[i])
			continue;
		if (next >= count)
			return EINVAL;
		*targets[i] = make_private(fds[next++]);
		if (*targets[i] < 0)
			return EMFILE;
	}
	return next == count ? 0 : EINVAL;
}

/* The zygote becomes what its processes are to be like, so that they needn't. */
static int adopt(const struct served *served)
{
	static struct hwsp_inherited before;
	static bool any_before;
	const struct hwsp_inherited *now = &served->request.inherited;
	bool known = any_before;

	/* A failure half-way leaves the rest. */
	any_before = false;
	if (fchdir(served->cwd) || setpgid(0, now->group))
		return ENOTSUP;
	umask(now->umask);
	for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
		bool same = known && !memcmp(&before.limits[resource], &now->limits[resource], sizeof now->limits[0]);
		if (!same && setrlimit((__rlimit_resource_t)resource, &now->limits[resource]))
			return ENOTSUP;
	}
	if ((!known || before.nice != now->nice) && setpriority(PRIO_PROCESS, 0, now->nice))
		return ENOTSUP;
	if ((!known || memcmp(&before.affinity, &now->affinity, sizeof now->affinity)) &&
		sched_setaffinity(0, sizeof now->affinity, &now->affinity))
		return ENOTSUP;
	if (!known || before.policy != now->policy ||
		memcmp(before.policy_domains, now->policy_domains, sizeof now->policy_domains))
		if (syscall(SYS_set_mempolicy, now->policy, now->policy ? now->policy_domains : NULL,
			    now->policy ? HWSP_DOMAINS_WORDS * 64ul : 0) &&
			(now->policy || errno != ENOSYS))
			return ENOTSUP;
	before = *now;
	any_before = true;
	return 0;
}

/* True if something may fail in the process before its program begins. */
static bool may_fail(const struct pspawn_process *process, const struct pspawn_options *options)
{
	return process->file_action_count || process->cwd || process->mask || options->numa || options->limit_count ||
		options->flags & (PSPAWN_SETSID | PSPAWN_SETPGROUP | PSPAWN_ENDS_WITH_CALLER);
}

static void report_outcome(outcome *reported, int error)
{
	atomic_store(reported, error ? 2u + (uint32_t)error : 1u);
	syscall(SYS_futex, reported, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits until the process has reported or ended. Returns why its program has not begun, or 0. */
static int outcome_of(outcome *reported, pid_t pid)
{
	struct timespec interval = {.tv_nsec = CHECK_MS * 1000000};
	int process_fd = -1;
	uint32_t reply;

	while (!(reply = atomic_load(reported))) {
		/* It can't be waited for here, and its PID is its own until then. */
		if (process_fd < 0)
			process_fd = (int)syscall(SYS_pidfd_open, pid, 0);
		struct pollfd ended = {.fd = process_fd, .events = POLLIN};
		/* Its exit status has the rest, unless it has reported and ended in between. */
		if (process_fd < 0 || poll(&ended, 1, 0) == 1) {
			reply = atomic_load(reported);
			break;
		}
		syscall(SYS_futex, reported, FUTEX_WAIT, 0, &interval, NULL, 0);
	}
	if (process_fd >= 0)
		close(process_fd);
	return reply <= 1 ? 0 : (int)reply - 2;
}

static void close_if_ending(int fd)
{
	int flags = fcntl(fd, F_GETFD);
	if (flags >= 0 && flags & FD_CLOEXEC)
		close(fd);
}

/* Closes what exec would close: among received descriptors, and among those that file actions have opened. */
static void close_ending(const struct hwsp_inherited *inherited, const struct pspawn_process *process)
{
	for (uint32_t i = 0; i < inherited->fd_count; i++)
		if (inherited->fd_ends[i])
			close_if_ending(inherited->fds[i]);
	for (size_t i = 0; i < process->file_action_count; i++)
		if (process->file_actions[i].kind == PSPAWN_OPEN && process->file_actions[i].flags & O_CLOEXEC)
			close_if_ending(process->file_actions[i].fd);
}

/* Turns the new process into the requested one. */
static bool become_process(struct served *served, uint32_t number, const struct hwsp_cpu_placement *placement)
{
	const struct pspawn_options *options = &served->request.options;
	const struct pspawn_process *process = &served->request.processes[number];
	struct hwsp_inherited inherited = served->request.inherited;
	sigset_t mask = {{0}};

	hwsp_close_range(hwsp_zygote.socket, INT_MAX);
	hwsp_zygote.socket = -1;
	hwsp_signals_as_caller(inherited.ignored);
	int error = hwsp_apply(process, options, placement);
	close_ending(&inherited, process);
	/* The parent may have ended before this process requested the signal. */
	if (!error && options->flags & PSPAWN_ENDS_WITH_CALLER && getppid() != owner_pid)
		_exit(127);
	if (!error && !hwsp_process_identity_set(process))
		error = ENOMEM;
	if (may_fail(process, options))
		report_outcome(&served->outcomes[number], error);
	if (served->outcomes)
		munmap((void *)served->outcomes, served->head.count * sizeof *served->outcomes);
	if (error)
		_exit(127);
	if (options->flags & PSPAWN_SETSIGMASK)
		mask = options->signal_mask;
	else
		for (int signal = 1; signal <= HWSP_SIGNALS; signal++)
			if (inherited.blocked >> (signal - 1) & 1)
				sigaddset(&mask, signal);
	munmap(buffer, BUFFER_BYTES);
	if (served->mapped)
		munmap(served->mapped, served->head.bytes);
	hwsp_load_forget_requests();
	hwsp_fork_child();
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return true;
}

/* Waits for the outcome of a process that reports it. */
static void settle(struct served *served, uint32_t number)
{
	struct hwsp_result *result = &served->results[number];
	if (result->pid > 0 && !result->error && may_fail(&served->request.processes[number], &served->request.options))
		result->error = outcome_of(&served->outcomes[number], result->pid);
}

/* Allocates the outcomes of the processes that report. */
static int prepare_outcomes(struct served *served)
{
	bool any = false;
	for (uint32_t i = 0; i < served->head.count; i++)
		any = any || may_fail(&served->request.processes[i], &served->request.options);
	if (!any)
		return 0;
	void *memory = mmap(NULL, served->head.count * sizeof *served->outcomes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	served->outcomes = memory == MAP_FAILED ? NULL : memory;
	return served->outcomes ? 0 : ENOMEM;
}

/* Makes one process. Returns true in the process; in the zygote, the result is set. */
static bool make_process(struct served *served, uint32_t number)
{
	struct pspawn_options *options = &served->request.options;
	const struct pspawn_process *process = &served->request.processes[number];
	struct hwsp_result *result = &served->results[number];
	struct hwsp_cpu_placement placement;
	struct clone_args arguments = {
		.flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID,
		.child_tid = (uint64_t)(uintptr_t)hwsp_thread_number(),
		.parent_tid = (uint64_t)(uintptr_t)&result->pid,
	};

	result->error = hwsp_place_process(process, options, number, &placement);
	if (result->error)
		return false;
	if (served->cgroup >= 0) {
		arguments.flags |= CLONE_INTO_CGROUP;
		arguments.cgroup = (uint64_t)served->cgroup;
	}
	long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
	if (pid == 0)
		return become_process(served, number, &placement);
	if (pid < 0)
		result->error = errno;
	else
		hwsp_zygote.made++;
	/* The first started process leads the group of the others. */
	if (pid > 0 && options->flags & PSPAWN_ONE_GROUP && options->pgroup == 0) {
		settle(served, number);
		options->pgroup = result->error ? 0 : (pid_t)pid;
	}
	return false;
}

/* Makes the processes of a request: true in each of them. */
static bool make_all(struct served *served, struct hwsp_answer *answer)
{
	if (hwsp_zygote.before_fork)
		hwsp_zygote.before_fork();
	hwsp_fork_prepare();
	for (answer->tried = 0; answer->tried < served->head.count;) {
		if (make_process(served, answer->tried))
			return true;
		int error = served->results[answer->tried++].error;
		if (error == EAGAIN || error == ENOMEM) {
			answer->error = (uint32_t)error;
			break;
		}
	}
	hwsp_fork_parent();
	if (hwsp_zygote.after_fork)
		hwsp_zygote.after_fork();
	for (uint32_t i = 0; i < answer->tried; i++)
		settle(served, i);
	return false;
}

/* Reads a request's body and results. */
static int open_request(struct served *served, size_t body_bytes, int *fds, uint32_t fd_count)
{
	const char *body = buffer + sizeof served->head;
	int error = unpack(served, fds, fd_count);

	served->results = shared_results;
	if (!error && served->head.flags & HWSP_OWN_RESULTS) {
		served->results = mmap(NULL, served->head.count * sizeof *served->results, PROT_READ | PROT_WRITE,
			MAP_SHARED, served->results_file, 0);
		if (served->results == MAP_FAILED)
			return ENOMEM;
		madvise(served->results, served->head.count * sizeof *served->results, MADV_DONTFORK);
	} else if (served->head.count > HWSP_RESULTS) {
		return EINVAL;
	}
	if (!error && served->head.flags & HWSP_IN_FILE) {
		served->mapped = mmap(NULL, served->head.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, served->body, 0);
		if (served->mapped == MAP_FAILED) {
			served->mapped = NULL;
			return ENOMEM;
		}
		body = served->mapped;
	} else if (body_bytes != served->head.bytes) {
		return EINVAL;
	}
	if (!error)
		error = hwsp_decode(body, served->head.bytes, served->head.count, &served->request);
	if (!error && served->request.inherited.fd_count != served->head.fds)
		error = EINVAL;
	return error ? error : arrange(served, fds, served->head.fds);
}

static void close_request(struct served *served)
{
	if (served->mapped)
		munmap(served->mapped, served->head.bytes);
	if (served->results && served->results != MAP_FAILED && served->results != shared_results)
		munmap(served->results, served->head.count * sizeof *served->results);
	if (served->outcomes)
		munmap((void *)served->outcomes, served->head.count * sizeof *served->outcomes);
	hwsp_request_free(&served->request);
	hwsp_load_forget_requests();
	/* The owner's descriptors must not stay open here: other processes wait for their end. */
	hwsp_close_range(0, hwsp_zygote.socket - 1);
	hwsp_close_range(hwsp_zygote.socket + 2, INT_MAX);
	setpgid(0, 0);
}

/* Serves one request: true in a process that it made. */
static bool serve_request(struct served *served, size_t received, int *fds, uint32_t fd_count)
{
	struct hwsp_answer answer = {0};
	int error = open_request(served, received - sizeof served->head, fds, fd_count);

	if (!error)
		error = adopt(served);
	if (!error)
		error = prepare_outcomes(served);
	if (!error && make_all(served, &answer))
		return true;
	if (error)
		answer.error = (uint32_t)error;
	hwsp_send(served->answer >= 0 ? served->answer : hwsp_zygote.socket, &answer, sizeof answer, -1);
	close_request(served);
	return false;
}

/* Waits for a request. False when the owner has ended. Its end of the socket does not show that while a fork of the
 * owner has it open. */
static bool await_request(void)
{
	struct pollfd ready[] = {{.fd = hwsp_zygote.socket, .events = POLLIN}, {.fd = owner, .events = POLLIN}};
	while (poll(ready, owner < 0 ? 1 : 2, -1) < 0)
		if (errno != EINTR)
			return false;
	return owner < 0 || !ready[1].revents;
}

/* Opens the parent as `owner`; -1 if it can't be watched. */
static void find_owner(void)
{
	struct ucred maker;
	socklen_t bytes = sizeof maker;
	bool reported = getsockopt(hwsp_zygote.socket, SOL_SOCKET, SO_PEERCRED, &maker, &bytes) == 0;
	int fd = reported ? (int)syscall(SYS_pidfd_open, maker.pid, 0) : -1;

	owner = -1;
	owner_pid = getppid();
	/* The process with this PID is the owner as long as it is the parent. In a PID namespace that does not
	 * contain it, both are 0. */
	pid_t parent = owner_pid;
	if (reported && maker.pid > 0 && parent > 0 && parent != maker.pid)
		_exit(0);
	if (fd >= 0 && parent == maker.pid && dup3(fd, hwsp_zygote.socket + 1, O_CLOEXEC) >= 0)
		owner = hwsp_zygote.socket + 1;
	if (fd >= 0)
		close(fd);
}

/* Waits for the owner, whose first message contains the memory for results. */
static int take_results(void)
{
	uint32_t count = 1;
	size_t received;
	char byte;
	int fd;

	if (hwsp_receive(hwsp_zygote.socket, &byte, sizeof byte, &received, &fd, &count) || count != 1)
		_exit(127);
	return fd;
}

void hwsp_zygote_refuse(enum hwsp_refusal refused, const char *format, ...)
{
	struct hwsp_hello hello = {.version = HWSP_SPAWN_VERSION, .refused = refused};
	va_list values;

	take_results();
	va_start(values, format);
	vsnprintf(hello.reason, sizeof hello.reason, format, values);
	va_end(values);
	hwsp_send(hwsp_zygote.socket, &hello, sizeof hello, -1);
	_exit(0);
}

/* Receives the memory for results, and reports that the zygote has stopped. */
static void send_hello(const char changed[HWSP_REASON_BYTES])
{
	struct hwsp_hello hello = {.version = HWSP_SPAWN_VERSION};
	size_t received;
	char byte;
	int fd = take_results();

	size_t bytes = HWSP_RESULTS * sizeof *shared_results;
	shared_results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shared_results == MAP_FAILED || buffer == MAP_FAILED)
		_exit(127);
	madvise(shared_results, bytes, MADV_DONTFORK);
	memcpy(hello.reason, changed, sizeof hello.reason);
	if (!hwsp_process_identity_prepare() || !hwsp_thread_number())
		hwsp_add_reason(hello.reason,
			"the kernel, or a filter of system calls (seccomp), does not let a process change what "
			"/proc shows of it");
	if (hwsp_zygote.stop == PSPAWN_STOP_LOAD)
		hwsp_early(hello.early);
	hello.refused = *hello.reason ? HWSP_DOUBTFUL : HWSP_STOPPED;
	hello.counted = hwsp_cores_counted();
	/* Threads that a library has for its own use are ended before a fork. */
	hwsp_fork_prepare();
	hwsp_fork_parent();
	hwsp_send(hwsp_zygote.socket, &hello, sizeof hello, -1);
	if (hwsp_receive(hwsp_zygote.socket, &byte, sizeof byte, &received, NULL, NULL) || received != sizeof byte)
		_exit(0);
	hwsp_close_range(0, hwsp_zygote.socket - 1);
	hwsp_close_range(hwsp_zygote.socket + 1, INT_MAX);
	find_owner();
}

void hwsp_zygote_serve(void)
{
	char changed[HWSP_REASON_BYTES] = "";
	sigset_t all;

	if (hwsp_zygote.stop == PSPAWN_STOP_MAIN)
		hwsp_fork_safety_compare(changed);
	/* Nothing that is meant for the caller's processes may end or interrupt it. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	send_hello(changed);
	for (;;) {
		if (!await_request())
			_exit(0);
		struct served served = {.cwd = -1, .results_file = -1, .answer = -1, .body = -1, .cgroup = -1};
		int fds[HWSP_FDS_MAX + 8];
		uint32_t fd_count = HWSP_FDS_MAX + 8;
		size_t received;
		if (hwsp_receive(hwsp_zygote.socket, buffer, BUFFER_BYTES, &received, fds, &fd_count) ||
			received < sizeof served.head)
			_exit(0);
		memcpy(&served.head, buffer, sizeof served.head);
		if (served.head.version != HWSP_SPAWN_VERSION)
			_exit(0);
		if (serve_request(&served, received, fds, fd_count))
			return;
	}
}
