/* Starting `headwater`; see process.h. */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where the kernel can't close a range, descriptors beyond this one stay open. */
#define DESCRIPTORS_MAX 65536
/* Timeout of a process that does not read its input. */
#define TAKE_MS_MAX 10000

/* ---- in the child: only what may be called between fork and exec in a process with threads ---- */

static void close_from(unsigned first)
{
	struct rlimit limit;
	rlim_t end = DESCRIPTORS_MAX;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
		end = limit.rlim_cur;
	for (rlim_t fd = first; fd < end; fd++)
		close((int)fd);
}

/* Changes to the user's identity for good. slurmstepd has only its effective identity, and can return to root's. */
static bool become(const struct hwsl_user *user)
{
	if (getuid() == user->uid && geteuid() == user->uid)
		return true;
	if (seteuid(0) != 0 || (!user->has_groups && setgroups(1, &user->gid) != 0))
		return false;
	return setresgid(user->gid, user->gid, user->gid) == 0 && setresuid(user->uid, user->uid, user->uid) == 0;
}

/* Resets the OOM score, since slurmstepd has a protected one. */
static void be_mortal(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (write(fd, "0", 1) < 0)
			errno = 0;
		close(fd);
	}
}

static void reset_signals(void)
{
	struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &usual, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_program(int input, int output, int report, const char *const *arguments, char *const *variables,
	const struct hwsl_user *user, bool stays_here)
{
	int failure;

	reset_signals();
	be_mortal();
	/* The three lie above these numbers, so that none is overwritten before it is copied. */
	if (dup3(report, 3, O_CLOEXEC) == 3)
		report = 3;
	if (report == 3 && dup2(input, 0) == 0 && dup2(output, 1) == 1 && become(user) &&
		(stays_here || chdir("/") == 0)) {
		close_from(4);
		execve(arguments[0], (char *const *)arguments, variables);
	}
	failure = errno;
	/* The reader has closed its end and needs no more. */
	if (write(report, &failure, sizeof(failure)) < 0)
		_exit(126);
	_exit(127);
}

/* ---- in srun or slurmstepd ---- */

static void close_pipe(int pipe[2])
{
	for (int end = 0; end < 2; end++) {
		if (pipe[end] >= 0)
			close(pipe[end]);
		pipe[end] = -1;
	}
}

/* Makes a pipe with descriptors above 3. */
static bool make_pipe(int made[2])
{
	int low[2];

	if (pipe2(low, O_CLOEXEC) != 0)
		return false;
	for (int end = 0; end < 2; end++)
		made[end] = fcntl(low[end], F_DUPFD_CLOEXEC, 4);
	int failure = errno;
	close_pipe(low);
	errno = failure;
	return made[0] >= 0 && made[1] >= 0;
}

bool hwsl_start_process(struct hwsl_process *process, const char *const *arguments, char *const *variables,
	const struct hwsl_user *user, bool stays_here)
{
	int input[2] = {-1, -1}, output[2] = {-1, -1}, report[2] = {-1, -1}, failure = 0;
	pid_t pid = -1;

	if (make_pipe(input) && make_pipe(output) && make_pipe(report))
		pid = fork();
	if (pid == 0)
		become_program(input[0], output[1], report[1], arguments, variables, user, stays_here);
	if (pid < 0)
		failure = errno;
	if (pid > 0) {
		ssize_t bytes;

		close(report[1]);
		report[1] = -1;
		/* `execve` closes the child's end. */
		do
			bytes = read(report[0], &failure, sizeof(failure));
		while (bytes < 0 && errno == EINTR);
		if (bytes != sizeof(failure))
			failure = 0;
	}
	close_pipe(report);
	if (failure) {
		close_pipe(input);
		close_pipe(output);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		errno = failure;
		return false;
	}
	close(input[0]);
	close(output[1]);
	*process = (struct hwsl_process){.pid = pid, .input = input[1], .output = output[0]};
	return true;
}

void hwsl_write_all(int fd, const char *bytes, size_t size)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	sigset_t broken_pipe, before;
	struct timespec at_once = {0};

	/* SIGPIPE is blocked in this thread only. */
	sigemptyset(&broken_pipe);
	sigaddset(&broken_pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
	while (size > 0) {
		int polled = poll(&ready, 1, TAKE_MS_MAX);

		if (polled < 0 && errno == EINTR)
			continue;
		if (polled <= 0)
			break;
		/* A writable pipe has room for PIPE_BUF bytes. */
		ssize_t written = write(fd, bytes, size < PIPE_BUF ? size : PIPE_BUF);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			if (errno == EPIPE && !sigismember(&before, SIGPIPE))
				sigtimedwait(&broken_pipe, NULL, &at_once);
			break;
		}
		bytes += written;
		size -= (size_t)written;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int left_ms(const struct timespec *start, int timeout_ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	long passed = (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
	return passed < timeout_ms ? timeout_ms - (int)passed : 0;
}

bool hwsl_await_no_reader(int fd, int timeout_ms)
{
	struct pollfd unread = {.fd = fd};
	struct timespec start;
	int polled;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		polled = poll(&unread, 1, left_ms(&start, timeout_ms));
	while (polled < 0 && errno == EINTR);
	return polled > 0;
}

bool hwsl_read_text(int fd, char *text, size_t size, bool is_line, int timeout_ms)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	struct timespec start;
	size_t used = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (used + 1 < size) {
		int polled = poll(&ready, 1, left_ms(&start, timeout_ms));

		if (polled < 0 && errno == EINTR)
			continue;
		if (polled <= 0)
			break;
		ssize_t bytes = read(fd, text + used, size - 1 - used);
		if (bytes < 0 && errno == EINTR)
			continue;
		bool has_ended = bytes <= 0 || (is_line && memchr(text + used, '\n', (size_t)bytes));
		used += bytes > 0 ? (size_t)bytes : 0;
		if (has_ended) {
			text[used] = '\0';
			return true;
		}
	}
	text[used] = '\0';
	return false;
}

void hwsl_end_process(struct hwsl_process *process, bool is_late)
{
	close(process->output);
	process->output = -1;
	if (is_late)
		kill(process->pid, SIGKILL);
	while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
		;
}
