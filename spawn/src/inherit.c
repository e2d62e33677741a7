/* Attributes that a process retains over exec, and that a zygote's processes must receive. */
#include "../core/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STATUS_BYTES 8192
/* Interpreters check before they stop whether this signal is ignored. */
#define INTERRUPT (1ul << (SIGINT - 1))

/* Variables that the loader, the C library or common libraries read before main(). */
static const char early_variables[] =
	"LD_*,GLIBC_TUNABLES,MALLOC_*,OMP_*,GOMP_*,KMP_*,OPENBLAS_*,MKL_*,BLIS_*,PYTHON*,LC_*,LANG,LANGUAGE,LOCPATH,"
	"CUDA_*,ROCR_*,HIP_*,NVIDIA_*,ASAN_OPTIONS,TSAN_OPTIONS,UBSAN_OPTIONS,HEADWATER_*";
/* Variables among these that differ between the processes of one program, and that no code reads before main(). */
static const char own_variables[] = "HEADWATER_RANK";

static int by_number(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

/* The open descriptors that stay open over exec, in ascending order. */
static int find_descriptors(struct hwsp_inherited *inherited, int boundary)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	bool sorted = true;

	if (!directory)
		return errno;
	inherited->fd_count = 0;
	memset(inherited->fds, 0, sizeof inherited->fds);
	memset(inherited->fd_ends, 0, sizeof inherited->fd_ends);
	while ((entry = readdir(directory))) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(directory))
			continue;
		int flags = fcntl(fd, F_GETFD);
		if (flags < 0 || flags & FD_CLOEXEC)
			continue;
		if (inherited->fd_count == HWSP_FDS_MAX || fd >= boundary) {
			closedir(directory);
			return ENOTSUP;
		}
		sorted = sorted && (!inherited->fd_count || inherited->fds[inherited->fd_count - 1] < fd);
		inherited->fds[inherited->fd_count++] = fd;
	}
	closedir(directory);
	if (!sorted)
		qsort(inherited->fds, inherited->fd_count, sizeof inherited->fds[0], by_number);
	return 0;
}

/* Adds one at its position. */
static int add_ending(struct hwsp_inherited *inherited, int fd, int boundary)
{
	uint32_t at = 0;

	while (at < inherited->fd_count && inherited->fds[at] < fd)
		at++;
	if (at < inherited->fd_count && inherited->fds[at] == fd)
		return 0;
	/* A descriptor that isn't open is reported by the file action. */
	if (fd < 0 || fcntl(fd, F_GETFD) < 0)
		return 0;
	if (inherited->fd_count == HWSP_FDS_MAX || fd >= boundary)
		return ENOTSUP;
	uint32_t behind = inherited->fd_count++ - at;
	memmove(&inherited->fds[at + 1], &inherited->fds[at], behind * sizeof inherited->fds[0]);
	memmove(&inherited->fd_ends[at + 1], &inherited->fd_ends[at], behind);
	inherited->fds[at] = fd;
	inherited->fd_ends[at] = 1;
	return 0;
}

int hwsp_inherit_named(struct hwsp_inherited *inherited, const struct pspawn_process *processes, uint32_t count,
	int boundary)
{
	int error = 0;
	for (uint32_t i = 0; !error && i < count; i++)
		for (size_t number = 0; !error && number < processes[i].file_action_count; number++)
			if (processes[i].file_actions[number].kind == PSPAWN_DUP2)
				error = add_ending(inherited, processes[i].file_actions[number].from, boundary);
	return error;
}

static unsigned long long field(const char *status, const char *name, int base)
{
	const char *at = strstr(status, name);
	return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

/* FNV-1a, 64 bits: there is no adversary, both sides are the same user's. */
#define DIGEST_OF_NOTHING 0xcbf29ce484222325u

static uint64_t mix(uint64_t digest, const void *data, size_t bytes)
{
	for (const unsigned char *at = data; bytes; bytes--, at++)
		digest = (digest ^ *at) * 0x100000001b3u;
	return digest;
}

/* A digest of the lines of /proc that identify the process's credentials. `after_exec`: without the capabilities
 * that exec takes from unprivileged users. */
static uint64_t credentials(const char *status, bool after_exec)
{
	bool loses = after_exec && getuid() && geteuid();
	static const char *const names[] = {
		"\nUid:", "\nGid:", "\nGroups:", "\nCap", "\nNoNewPrivs:", "\nSeccomp", "\nTHP_enabled:", "\nSpeculat"};
	uint64_t digest = DIGEST_OF_NOTHING;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		for (const char *at = strstr(status, names[i]); at; at = strstr(at + 1, names[i]))
			if (!loses || (strncmp(at, "\nCapPrm:", 8) && strncmp(at, "\nCapEff:", 8)))
				digest = mix(digest, at + 1, strcspn(at + 1, "\n"));
	return digest;
}

int hwsp_inherit(struct hwsp_inherited *inherited, int boundary)
{
	char status[STATUS_BYTES];

	memset(inherited, 0, offsetof(struct hwsp_inherited, fds));
	if (hwsp_read_text("/proc/thread-self/status", status, sizeof status) <= 0)
		return errno ? errno : ENOTSUP;
	inherited->umask = (mode_t)field(status, "\nUmask:", 8);
	inherited->ignored = field(status, "\nSigIgn:", 16);
	inherited->blocked = field(status, "\nSigBlk:", 16);
	inherited->credentials = credentials(status, false);
	inherited->may_move = field(status, "\nCapEff:", 16) >> CAP_SYS_ADMIN & 1;
	inherited->group = getpgrp();
	inherited->session = getsid(0);
	errno = 0;
	inherited->nice = getpriority(PRIO_PROCESS, 0);
	if (errno || sched_getaffinity(0, sizeof inherited->affinity, &inherited->affinity))
		return errno;
	for (int resource = 0; resource < RLIM_NLIMITS; resource++)
		if (getrlimit((__rlimit_resource_t)resource, &inherited->limits[resource]))
			return errno;
	/* ENOSYS where the kernel has only one domain. */
	if (syscall(SYS_get_mempolicy, &inherited->policy, inherited->policy_domains, HWSP_DOMAINS_WORDS * 64ul, NULL,
		    0ul))
		inherited->policy = 0;
	return find_descriptors(inherited, boundary);
}

static bool is_in(const char *variable, const char *list)
{
	size_t name = strcspn(variable, "=");
	while (list && *list) {
		size_t length = strcspn(list, ",");
		bool prefix = length && list[length - 1] == '*';
		if (prefix ? name >= length - 1 && !memcmp(variable, list, length - 1)
			   : name == length && !memcmp(variable, list, length))
			return true;
		list += length;
		list += *list == ',';
	}
	return false;
}

static uint64_t mix_spaces(uint64_t digest)
{
	static const char *const spaces[] = {"mnt", "net", "user", "uts", "ipc", "pid_for_children", "cgroup", "time"};
	char text[64];

	/* The links identify the namespaces as well as the files do, which take three times as long to open. */
	int links = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; links >= 0 && i < sizeof spaces / sizeof spaces[0]; i++) {
		ssize_t length = readlinkat(links, spaces[i], text, sizeof text);
		digest = mix(digest, text, length > 0 ? (size_t)length : 0);
	}
	if (links >= 0)
		close(links);
	return digest;
}

static uint64_t mix_text(uint64_t digest, const char *path)
{
	char text[4096];
	ssize_t got = hwsp_read_text(path, text, sizeof text);
	return mix(digest, text, got > 0 ? (size_t)got : 0);
}

/* All but session, namespaces and control group. */
static uint64_t key_here(const struct hwsp_inherited *inherited, uint64_t credentials)
{
	struct sched_param priority = {0};
	struct stat root = {0};

	sched_getparam(0, &priority);
	long numbers[] = {(long)(inherited->ignored & INTERRUPT), sched_getscheduler(0), priority.sched_priority,
		syscall(SYS_personality, 0xffffffffu), syscall(SYS_ioprio_get, 1, 0), prctl(PR_GET_TIMERSLACK),
		/* The size of threads' stacks, and the room for the first one. */
		(long)inherited->limits[RLIMIT_STACK].rlim_cur};
	uint64_t digest = mix(credentials, numbers, sizeof numbers);
	if (stat("/", &root) == 0) {
		digest = mix(digest, &root.st_dev, sizeof root.st_dev);
		digest = mix(digest, &root.st_ino, sizeof root.st_ino);
	}
	return mix_text(digest, "/proc/self/oom_score_adj");
}

uint64_t hwsp_key_attributes(const struct hwsp_inherited *inherited)
{
	uint64_t digest = mix(key_here(inherited, inherited->credentials), &inherited->session,
		sizeof inherited->session);
	/* An unprivileged process gets other namespaces only together with other capabilities. */
	return mix_text(inherited->may_move ? mix_spaces(digest) : digest, "/proc/self/cgroup");
}

uint64_t hwsp_key_elsewhere(const struct hwsp_inherited *inherited)
{
	char status[STATUS_BYTES];
	long bits = prctl(PR_GET_SECUREBITS);
	bool known = hwsp_read_text("/proc/thread-self/status", status, sizeof status) > 0;
	uint64_t digest = key_here(inherited, known ? credentials(status, true) : inherited->credentials);
	return mix_spaces(mix(digest, &bits, sizeof bits));
}

uint64_t hwsp_key_variables(char *const *envp, const char *more_variables)
{
	uint64_t digest = DIGEST_OF_NOTHING;
	for (; *envp; envp++)
		if ((is_in(*envp, early_variables) && !is_in(*envp, own_variables)) || is_in(*envp, more_variables))
			/* A sum, because shells export their variables in any order. */
			digest += mix(DIGEST_OF_NOTHING, *envp, strlen(*envp) + 1);
	return digest;
}

uint64_t hwsp_key(char *const *envp, const char *more_variables, const struct hwsp_inherited *inherited)
{
	return hwsp_key_attributes(inherited) * 31 + hwsp_key_variables(envp, more_variables);
}
