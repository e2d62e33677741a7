/* Applies a process's attributes in the new process, before its program. Async-signal-safe: system calls alone. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLICY_PREFERRED 1 /* MPOL_PREFERRED, of numaif.h */

static int file_action(const struct pspawn_file_action *action)
{
	int fd;

	switch (action->kind) {
	case PSPAWN_CLOSE:
		/* As posix_spawn: what isn't open is closed. */
		close(action->fd);
		return 0;
	case PSPAWN_DUP2:
		if (action->from != action->fd)
			return dup2(action->from, action->fd) < 0 ? errno : 0;
		fd = fcntl(action->fd, F_GETFD);
		return fd < 0 || fcntl(action->fd, F_SETFD, fd & ~FD_CLOEXEC) < 0 ? errno : 0;
	case PSPAWN_OPEN:
		close(action->fd);
		fd = open(action->path, action->flags, action->mode);
		if (fd < 0)
			return errno;
		if (fd == action->fd)
			return 0;
		if (dup2(fd, action->fd) < 0)
			return errno;
		close(fd);
		return 0;
	}
	return EINVAL;
}

void hwsp_default_handlers(void)
{
	struct sigaction action, plain = {.sa_handler = SIG_DFL};

	for (int number = 1; number <= HWSP_SIGNALS; number++)
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
			action.sa_handler != SIG_IGN)
			sigaction(number, &plain, NULL);
}

static int apply_placement(const struct hwsp_cpu_placement *placement)
{
	if (placement->domain >= 0) {
		/* Where the domain is full, memory of another one is better than none. */
		unsigned long domains[4] = {0};
		domains[placement->domain / 64] = 1ul << placement->domain % 64;
		if (syscall(SYS_set_mempolicy, POLICY_PREFERRED, domains, (unsigned long)sizeof domains * 8 + 1))
			return errno;
	}
	if (placement->bound && sched_setaffinity(0, sizeof placement->mask, &placement->mask))
		return errno;
	return 0;
}

static int groups(const struct pspawn_options *options)
{
	if (options->flags & PSPAWN_SETSID && setsid() < 0)
		return errno;
	if (options->flags & PSPAWN_SETPGROUP && setpgid(0, options->pgroup))
		return errno;
	return 0;
}

int hwsp_apply(const struct pspawn_process *process, const struct pspawn_options *options,
	const struct hwsp_cpu_placement *placement)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	int error = apply_placement(placement);

	if (!error)
		error = groups(options);
	if (!error && options->flags & PSPAWN_ENDS_WITH_CALLER && prctl(PR_SET_PDEATHSIG, SIGKILL))
		error = errno;
	if (error)
		return error;
	for (size_t i = 0; i < options->limit_count; i++)
		if (setrlimit((__rlimit_resource_t)options->limits[i].resource, &options->limits[i].limit))
			return errno;
	if (options->flags & PSPAWN_SETUMASK)
		umask(options->umask);
	if (process->cwd && chdir(process->cwd))
		return errno;
	for (size_t i = 0; i < process->file_action_count; i++) {
		error = file_action(&process->file_actions[i]);
		if (error)
			return error;
	}
	for (int number = 1; options->flags & PSPAWN_SETSIGDEF && number <= HWSP_SIGNALS; number++)
		if (sigismember(&options->signal_default, number) == 1)
			sigaction(number, &plain, NULL);
	return 0;
}
