/* Attributes that constructors may have changed: a spawned process would get its caller's instead. */
#include "zygote.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static struct attributes {
	sigset_t blocked;
	mode_t umask;
	dev_t device; /* of the working directory */
	ino_t directory;
	pid_t group, session;
	int nice;
	cpu_set_t affinity;
	struct rlimit limits[RLIM_NLIMITS];
	uint64_t variables;
} before;

/* FNV-1a of the strings. */
static uint64_t digest_of(char *const *list)
{
	uint64_t digest = 0xcbf29ce484222325u;
	for (; *list; list++) {
		const char *at = *list;
		do
			digest = (digest ^ (unsigned char)*at) * 0x100000001b3u;
		while (*at++);
	}
	return digest;
}

static void read_attributes(struct attributes *now, char *const *envp)
{
	struct stat directory = {0};

	memset(now, 0, sizeof *now);
	sigprocmask(SIG_SETMASK, NULL, &now->blocked);
	now->umask = umask(0);
	umask(now->umask);
	stat(".", &directory);
	now->device = directory.st_dev;
	now->directory = directory.st_ino;
	now->group = getpgrp();
	now->session = getsid(0);
	now->nice = getpriority(PRIO_PROCESS, 0);
	/* Not by the C library's function, which records the query (cores.c). */
	syscall(SYS_sched_getaffinity, 0, sizeof now->affinity, &now->affinity);
	for (int resource = 0; resource < RLIM_NLIMITS; resource++)
		getrlimit((__rlimit_resource_t)resource, &now->limits[resource]);
	now->variables = digest_of(envp);
}

void hwsp_fork_safety_remember(char *const *envp)
{
	read_attributes(&before, envp);
}

void hwsp_fork_safety_compare(char reasons[HWSP_REASON_BYTES])
{
	struct attributes now;
	struct itimerval timer;
	bool ticks = false;

	read_attributes(&now, environ);
	for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
		ticks |= getitimer((__itimer_which_t)which, &timer) == 0 &&
			(timer.it_value.tv_sec || timer.it_value.tv_usec);
	const struct {
		bool is;
		const char *what;
	} changes[] = {
		{memcmp(&now.blocked, &before.blocked, sizeof now.blocked), "which signals are blocked"},
		{now.umask != before.umask, "its umask"},
		{now.device != before.device || now.directory != before.directory, "its working directory"},
		{now.group != before.group || now.session != before.session, "its process group or session"},
		{now.nice != before.nice || memcmp(&now.affinity, &before.affinity, sizeof now.affinity),
			"how it is scheduled"},
		{memcmp(now.limits, before.limits, sizeof now.limits), "its limits"},
		{now.variables != before.variables, "its environment"},
		{ticks, "its timers"},
	};
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
		if (changes[i].is)
			hwsp_add_reason(reasons, "before main, it has changed %s", changes[i].what);
}
