/* The calls: with bad input, with zygotes that die, with very many processes, without waiting, in groups. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define MANY 10000

static const enum pspawn_mechanism mechanisms[] = {
	PSPAWN_ZYGOTE, PSPAWN_VFORK, PSPAWN_CLONE3, PSPAWN_POSIX_SPAWN, PSPAWN_FORK, PSPAWN_PFORK};
static char *true_argv[] = {"true", NULL};

/* PATH: the error of making a context, or of spawning, is execve()'s. */
static void bad_path(char **arguments)
{
	char *argv[] = {arguments[0], NULL};
	int before = open_descriptors();
	pid_t child = fork();
	if (child == 0) {
		execv(arguments[0], argv);
		_exit(errno);
	}
	int expected = status_of(child);
	for (size_t i = 0; i < COUNT(mechanisms); i++) {
		struct pspawn_context_options options = {.size = sizeof options, .mechanism = mechanisms[i]};
		pspawn_context_t context;
		errno = 0;
		if (pspawn_context_create_with(&context, arguments[0], &options) == 0) {
			CHECK(pspawn(&context, argv) == -1, "%s", pspawn_mechanism_name(mechanisms[i]));
			int error = errno;
			pspawn_context_destroy(&context);
			errno = error;
		}
		CHECK(errno == expected, "%s: %s expected", pspawn_mechanism_name(mechanisms[i]), strerror(expected));
		no_children();
	}
	CHECK(open_descriptors() == before, "%s", "descriptors leak");
}

static void bad_processes(char **unused)
{
	static char *none[] = {NULL};
	char *huge = malloc(1 << 18);
	char *long_argv[] = {"true", huge, NULL};
	cpu_set_t empty, absent;
	(void)unused;
	memset(huge, 'x', (1 << 18) - 1);
	huge[(1 << 18) - 1] = 0;
	CPU_ZERO(&empty);
	CPU_ZERO(&absent);
	CPU_SET(CPU_SETSIZE - 1, &absent);
	struct pspawn_file_action missing = {.kind = PSPAWN_OPEN, .fd = 1, .path = "/no/such/file"};
	struct pspawn_file_action closed = {.kind = PSPAWN_DUP2, .fd = 1, .from = 700};
	for (size_t i = 0; i < COUNT(mechanisms); i++) {
		bool plain = mechanisms[i] == PSPAWN_POSIX_SPAWN;
		struct pspawn_process processes[] = {
			{.argv = true_argv},
			{.argv = true_argv, .mask = &empty, .mask_size = sizeof empty},
			{.argv = true_argv, .mask = &absent, .mask_size = sizeof absent},
			{.argv = true_argv, .cwd = "/no/such/directory"},
			{.argv = true_argv, .file_actions = &missing, .file_action_count = 1},
			{.argv = true_argv, .file_actions = &closed, .file_action_count = 1},
			{.argv = true_argv},
		};
		const int expected[] = {0, EINVAL, plain ? ENOTSUP : EINVAL, ENOENT, ENOENT, EBADF, 0};
		int before = open_descriptors(), errors[COUNT(processes)];
		pid_t pids[COUNT(processes)];
		pspawn_context_t context;
		make_context(&context, "/bin/true", mechanisms[i]);
		CHECK(pspawn_many(&context, processes, COUNT(processes), NULL, pids, errors) == 2, "%zu", i);
		for (size_t number = 0; number < COUNT(processes); number++) {
			CHECK(errors[number] == expected[number], "%zu of %s: %s", number,
				pspawn_mechanism_name(mechanisms[i]), strerror(errors[number]));
			CHECK(expected[number] ? pids[number] == -1 : status_of(pids[number]) == 0, "%zu", number);
		}
		struct pspawn_process odd[] = {{.argv = long_argv}, {.argv = none}, {.argv = NULL}};
		CHECK(pspawn_many(&context, odd, 3, NULL, pids, errors) == 2 && errors[0] == E2BIG, "%s",
			strerror(errors[0]));
		CHECK(status_of(pids[1]) == 0 && status_of(pids[2]) == 0, "%s", "no arguments");
		CHECK(pspawn_n(pids, &context, 0, true_argv) == 0, "%s", "none");
		CHECK(pspawn_n(pids, &context, -1, true_argv) == -1 && errno == EINVAL, "%s", "fewer than none");
		pspawn_context_destroy(&context);
		no_children();
		CHECK(open_descriptors() == before, "%zu: %d, %d", i, before, open_descriptors());
	}
	pspawn_context_t context;
	CHECK(pspawn_context_create(&context, "/bin/true", CPU_SETSIZE - 1) == -1 && errno == EINVAL, "%s", "core");
	CHECK(pspawn_context_create(&context, "/bin/true", -2) == -1 && errno == EINVAL, "%s", "core");
}

/* An ordinary user's, with a limit of processes. */
static void limited(char **unused)
{
	struct rlimit limit = {30, 30};
	int count = 1000000;
	pid_t *pids = malloc(sizeof *pids * (size_t)count);
	char *argv[] = {"sleep", "1000", NULL};
	(void)unused;
	CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0, "%s", "limit");
	for (size_t i = 0; i < COUNT(mechanisms); i++) {
		pspawn_context_t context;
		make_context(&context, "/bin/sleep", mechanisms[i]);
		int started = pspawn_n(pids, &context, count, argv);
		CHECK(errno == EAGAIN && started >= 0 && started < 30, "%s: %d", pspawn_mechanism_name(mechanisms[i]),
			started);
		for (int number = 0; number < count; number++)
			CHECK((pids[number] > 0) == (number < started), "%d of %d: %d", number, started, pids[number]);
		for (int number = 0; number < started; number++)
			CHECK(kill(pids[number], SIGKILL) == 0 && waitpid(pids[number], NULL, 0) == pids[number], "%d",
				number);
		no_children();
		pspawn_context_destroy(&context);
	}
}

static void *killer(void *number)
{
	struct timespec moment = {.tv_nsec = 3000000};
	nanosleep(&moment, NULL);
	kill((pid_t)(long)number, SIGKILL);
	return NULL;
}

/* All processes are made, though the zygote is killed. */
static void zygote_killed(char **unused)
{
	static pid_t pids[2000];
	pspawn_context_t context;
	pthread_t thread;
	(void)unused;
	make_zygote(&context, "/bin/true");
	int before = open_descriptors();
	kill(pspawn_context_zygote(&context), SIGKILL);
	CHECK(status_of(pspawn(&context, true_argv)) == 0, "%s", "before a call");
	for (int round = 0; round < 6; round++) {
		struct pspawn_options options = {.size = sizeof options, .flags = PSPAWN_SETPGROUP};
		static struct pspawn_process processes[COUNT(pids)];
		for (size_t i = 0; i < COUNT(pids); i++)
			processes[i].argv = true_argv;
		CHECK(status_of(pspawn(&context, true_argv)) == 0, "%s", "a new zygote");
		pthread_create(&thread, NULL, killer, (void *)(long)pspawn_context_zygote(&context));
		int made = pspawn_many(&context, processes, COUNT(pids), round % 2 ? &options : NULL, pids, NULL);
		CHECK(made == (int)COUNT(pids), "%d", made);
		pthread_join(thread, NULL);
		for (size_t i = 0; i < COUNT(pids); i++)
			CHECK(status_of(pids[i]) == 0, "%zu", i);
	}
	CHECK(status_of(pspawn(&context, true_argv)) == 0, "%s", "afterwards");
	CHECK(open_descriptors() == before, "%d descriptors, then %d", before, open_descriptors());
	pspawn_context_destroy(&context);
	no_children();
}

/* A zygote frees a request's memory after its answer, and then sleeps until the next one. */
static long zygote_kb(pid_t pid)
{
	char path[64], line[256], state = 0;
	long kb = 0;
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	for (int tries = 0; tries < 10000 && state != 'S'; tries++) {
		FILE *status = fopen(path, "re");
		CHECK(status != NULL, "%s", path);
		while (fgets(line, sizeof line, status))
			if (sscanf(line, "State: %c", &state) != 1 && sscanf(line, "VmData: %ld", &kb) == 1)
				break;
		fclose(status);
		if (state != 'S')
			usleep(1000);
	}
	CHECK(state == 'S' && kb, "%s", path);
	return kb;
}

static void very_many(char **unused)
{
	static pid_t pids[1000];
	pspawn_context_t context;
	char *variables = malloc(1000);
	(void)unused;
	(void)variables;
	make_zygote(&context, "/bin/true");
	pid_t zygote = pspawn_context_zygote(&context);
	long kb = 0;
	int descriptors = open_descriptors();
	for (int round = 0; round < MANY / 1000; round++) {
		/* One by one, in the shared memory, and in memory of their own. */
		int step = round % 3 == 0 ? 1 : round % 3 == 1 ? 500 : 1000;
		for (int first = 0; first < 1000; first += step)
			CHECK(pspawn_n(pids + first, &context, step, true_argv) == step, "%d", first);
		for (int i = 0; i < 1000; i++)
			CHECK(status_of(pids[i]) == 0, "%d", i);
		if (round == 3)
			kb = zygote_kb(zygote);
	}
	CHECK(pspawn_context_zygote(&context) == zygote, "%s", "the same zygote");
	CHECK(zygote_kb(zygote) == kb, "%ld KB, then %ld", kb, zygote_kb(zygote));
	CHECK(open_descriptors() == descriptors, "%d, then %d", descriptors, open_descriptors());
	pspawn_context_destroy(&context);
	no_children();
}

static void long_environment(char **unused)
{
	static char *variables[1025];
	char *argv[] = {"sh", "-c", "test ${#V1023} = 1000", NULL};
	pspawn_context_t context;
	pid_t pid;
	(void)unused;
	for (int i = 0; i < 1024; i++) {
		char *text = variables[i] = malloc(1024);
		int name = sprintf(text, "V%d=", i);
		memset(text + name, 'v', 1000);
		text[name + 1000] = 0;
	}
	struct pspawn_process process = {.argv = argv, .envp = variables};
	make_zygote(&context, "/bin/sh");
	CHECK(pspawn_many(&context, &process, 1, NULL, &pid, NULL) == 1 && status_of(pid) == 0, "%s", "a megabyte");
	pspawn_context_destroy(&context);
}

static void without_waiting(char **unused)
{
	pspawn_batch_t *batches[8], *none;
	pspawn_context_t context;
	pid_t pids[100];
	int errors[100];
	(void)unused;
	int before = open_descriptors();
	make_zygote(&context, "/bin/sh");
	for (int i = 0; i < 8; i++) {
		char script[32];
		snprintf(script, sizeof script, "exit %d", i);
		char *argv[] = {"sh", "-c", script, NULL};
		struct pspawn_process processes[100];
		for (int number = 0; number < 100; number++)
			processes[number] = (struct pspawn_process){.argv = argv, .cwd = i == 3 ? "/no" : NULL};
		if (i == 6)
			kill(pspawn_context_zygote(&context), SIGKILL);
		CHECK(pspawn_many_begin(&context, processes, 100, NULL, &batches[i]) >= 0, "%d", i);
		memset(processes, 0x55, sizeof processes);
		memset(script, 0, sizeof script);
	}
	CHECK(pspawn_many_begin(&context, NULL, 0, NULL, &none) >= 0 && pspawn_many_end(none, NULL, NULL) == 0, "%s",
		"0");
	pspawn_context_destroy(&context);
	for (int i = 7; i >= 0; i--) {
		CHECK(pspawn_many_end(batches[i], pids, errors) == (i == 3 ? 0 : 100), "%d", i);
		for (int number = 0; number < 100; number++)
			CHECK(i == 3 ? errors[number] == ENOENT : status_of(pids[number]) == i, "%d of %d", number, i);
	}
	no_children();
	CHECK(open_descriptors() == before, "%d, then %d", before, open_descriptors());
}

/* The paper's calls: lists one after another, masks, with and without waiting. */
static void vectors(char **unused)
{
	char *argv[] = {"sh", "-c", "exit $((10 + A))", NULL, "sh", "-c", "exit $((20 + A))", NULL, "sh", "-c",
		"exit $((30 + A))", NULL, "sh", "-c", "exit $((40 + A))", NULL};
	char *variables[] = {"A=1", NULL, "A=2", NULL, "A=3", NULL, "A=4", NULL};
	char *count_cores[] = {"sh", "-c", "exit $(nproc)", NULL};
	cpu_set_t own, one;
	cpu_set_t *masks[] = {NULL, &one, NULL, &one};
	int before = open_descriptors();
	(void)unused;
	sched_getaffinity(0, sizeof own, &own);
	CPU_ZERO(&one);
	for (int core = 0; !CPU_COUNT(&one); core++)
		if (CPU_ISSET(core, &own))
			CPU_SET(core, &one);
	for (int flags = 0; flags <= PSPAWN_BY_ZYGOTE; flags += PSPAWN_BY_EXEC) {
		pspawn_batch_t *batch;
		pid_t pids[4];
		CHECK(pspawn_vector("/bin/sh", argv, variables, 4, 0, NULL, flags, pids) == 4, "%d", flags);
		for (int i = 0; i < 4; i++)
			CHECK(status_of(pids[i]) == 11 + 11 * i, "%d", i);
		int ready = ipspawn_vector("sh", argv, variables, 4, 0, NULL, flags | PSPAWN_SAME_ENVP, &batch);
		struct pollfd poll_ready = {.fd = ready, .events = POLLIN};
		CHECK(poll(&poll_ready, 1, 20000) == 1, "%d", ready);
		CHECK(pspawn_many_end(batch, pids, NULL) == 4, "%d", flags);
		for (int i = 0; i < 4; i++)
			CHECK(status_of(pids[i]) == 11 + 10 * i, "%d", i);
		CHECK(pspawn_vector("sh", count_cores, NULL, 4, sizeof one, masks, flags | PSPAWN_SAME_ARGV, pids) == 4,
			"%d", flags);
		for (int i = 0; i < 4; i++)
			CHECK(status_of(pids[i]) == (i % 2 ? 1 : CPU_COUNT(&own)), "%d", i);
	}
	pid_t pid;
	CHECK(pspawn_vector("/no/such", argv, NULL, 1, 0, NULL, 0, &pid) == -1 && errno == ENOENT, "%s", "missing");
	no_children();
	CHECK(open_descriptors() == before, "%d, then %d", before, open_descriptors());
}

/* NUMA placement and groups, by every mechanism that can. */
static void placed(char **unused)
{
	enum { PROCESSES = 6 };
	char *argv[] = {"sleep", "1000", NULL};
	struct pspawn_process processes[PROCESSES];
	cpu_set_t own;
	(void)unused;
	sched_getaffinity(0, sizeof own, &own);
	for (int i = 0; i < PROCESSES; i++)
		processes[i] = (struct pspawn_process){.argv = argv};
	for (size_t i = 0; i < COUNT(mechanisms); i++) {
		for (enum pspawn_numa numa = PSPAWN_NUMA_NONE; numa <= PSPAWN_NUMA_DOMAIN; numa++) {
			struct pspawn_options options = {
				.size = sizeof options, .numa = numa, .flags = PSPAWN_SETPGROUP};
			pspawn_context_t context;
			pid_t pids[PROCESSES];
			if (mechanisms[i] == PSPAWN_POSIX_SPAWN && numa)
				continue;
			options.flags |= numa == PSPAWN_NUMA_DOMAIN ? 0 : PSPAWN_ONE_GROUP;
			make_context(&context, "/bin/sleep", mechanisms[i]);
			CHECK(pspawn_many(&context, processes, PROCESSES, &options, pids, NULL) == PROCESSES, "%zu", i);
			for (int number = 0; number < PROCESSES; number++) {
				cpu_set_t set, both;
				bool whole = numa == PSPAWN_NUMA_NONE || numa == PSPAWN_NUMA_DOMAIN;
				sched_getaffinity(pids[number], sizeof set, &set);
				CPU_AND(&both, &own, &set);
				CHECK(CPU_EQUAL(&both, &set), "%d leaves the caller's cores", number);
				CHECK(whole ? CPU_COUNT(&set) >= 1 : CPU_COUNT(&set) == 1, "%d has %d", number,
					CPU_COUNT(&set));
				pid_t leader = numa == PSPAWN_NUMA_DOMAIN ? pids[number] : pids[0];
				CHECK(getpgid(pids[number]) == leader, "%d of %s: %d, not %d", number,
					pspawn_mechanism_name(mechanisms[i]), getpgid(pids[number]), leader);
			}
			for (int number = 0; number < PROCESSES; number++)
				CHECK(kill(pids[number], SIGKILL) == 0 &&
						waitpid(pids[number], NULL, 0) == pids[number],
					"%d", number);
			pspawn_context_destroy(&context);
		}
	}
	no_children();
}

/* Limits of a call apply to its processes alone; bad ones are its processes' error. */
static void with_limits(char **unused)
{
	const struct pspawn_limit good[] = {{RLIMIT_NOFILE, {50, 60}}, {RLIMIT_CORE, {0, 0}}};
	const struct pspawn_limit bad[][1] = {{{RLIMIT_NOFILE, {60, 50}}}, {{99, {1, 1}}}};
	char *limited_argv[] = {
		"sh", "-c", "test $(ulimit -n) = 50 && test $(ulimit -Hn) = 60 && test $(ulimit -c) = 0", NULL};
	char plain[128];
	char *plain_argv[] = {"sh", "-c", plain, NULL};
	struct rlimit own;
	pid_t pids[2];
	int errors[2];
	(void)unused;
	getrlimit(RLIMIT_NOFILE, &own);
	snprintf(plain, sizeof plain, "test $(ulimit -n) = %llu", (unsigned long long)own.rlim_cur);
	for (size_t i = 0; i < COUNT(mechanisms); i++) {
		const char *name = pspawn_mechanism_name(mechanisms[i]);
		struct pspawn_options options = {.size = sizeof options, .limits = good, .limit_count = COUNT(good)};
		struct pspawn_process processes[] = {{.argv = limited_argv}, {.argv = limited_argv}};
		pspawn_context_t context;
		/* The C library's can't express it. */
		if (mechanisms[i] == PSPAWN_POSIX_SPAWN)
			continue;
		make_context(&context, "/bin/sh", mechanisms[i]);
		CHECK(pspawn_many(&context, processes, 2, &options, pids, NULL) == 2, "%s", name);
		CHECK(status_of(pids[0]) == 0 && status_of(pids[1]) == 0, "%s", name);
		CHECK(status_of(pspawn(&context, plain_argv)) == 0, "%s: the caller's limits", name);
		for (size_t number = 0; number < COUNT(bad); number++) {
			options.limits = bad[number];
			options.limit_count = 1;
			CHECK(pspawn_many(&context, processes, 2, &options, pids, errors) == 0, "%s", name);
			CHECK(errors[0] == EINVAL && errors[1] == EINVAL && pids[0] == -1, "%s: %s", name,
				strerror(errors[0]));
		}
		pspawn_context_destroy(&context);
		no_children();
	}
}

/* The directory of the control group that this process is in, of the second version. */
static bool own_control_group(char path[4096])
{
	char line[4096], root[2048], mounted[2048] = "";
	FILE *mounts = fopen("/proc/self/mountinfo", "re"), *groups = fopen("/proc/self/cgroup", "re");

	while (mounts && fgets(line, sizeof line, mounts))
		if (strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %2047s %2047s", root, mounted) == 2)
			break;
	bool found = false;
	while (groups && fgets(line, sizeof line, groups))
		if (*mounted && !strncmp(line, "0::/", 4)) {
			line[strcspn(line, "\n")] = 0;
			/* The mounted group may be one below the root. */
			const char *below = strcmp(root, "/") && !strncmp(line + 3, root, strlen(root))
				? line + 3 + strlen(root)
				: line + 3;
			found = snprintf(path, 4096, "%s%s", mounted, below) < 4096;
		}
	if (mounts)
		fclose(mounts);
	if (groups)
		fclose(groups);
	return found;
}

/* Into a control group, by the mechanisms that can. */
static void in_control_group(char **unused)
{
	static const enum pspawn_mechanism able[] = {PSPAWN_ZYGOTE, PSPAWN_VFORK, PSPAWN_CLONE3};
	static char own[4096], path[5000];
	char *argv[] = {"sh", "-c", "grep -q ^0::.*hwt-spawn- /proc/self/cgroup", NULL};
	struct pspawn_process processes[] = {{.argv = argv}, {.argv = argv}};
	(void)unused;
	if (!own_control_group(own)) {
		printf("skipped: no cgroup2 is mounted\n");
		return;
	}
	snprintf(path, sizeof path, "%s/hwt-spawn-%d", own, getpid());
	if (mkdir(path, 0755)) {
		printf("skipped: no control group can be made in %s: %m\n", own);
		return;
	}
	struct pspawn_options options = {.size = sizeof options, .flags = PSPAWN_SETCGROUP};
	options.cgroup = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int statuses[COUNT(able)][2];
	for (size_t i = 0; i < COUNT(able); i++) {
		pspawn_context_t context;
		pid_t pids[2] = {-1, -1};
		make_context(&context, "/bin/sh", able[i]);
		pspawn_many(&context, processes, 2, &options, pids, NULL);
		for (int number = 0; number < 2; number++)
			statuses[i][number] = pids[number] > 0 ? status_of(pids[number]) : -1;
		pspawn_context_destroy(&context);
	}
	CHECK(rmdir(path) == 0, "%s is left behind", path);
	for (size_t i = 0; i < COUNT(able); i++)
		CHECK(!statuses[i][0] && !statuses[i][1], "%s: %d %d", pspawn_mechanism_name(able[i]), statuses[i][0],
			statuses[i][1]);
}

int main(int argc, char **argv)
{
	static const struct trial trials[] = {{"bad_path", bad_path}, {"bad_processes", bad_processes},
		{"limited", limited}, {"zygote_killed", zygote_killed}, {"very_many", very_many},
		{"long_environment", long_environment}, {"without_waiting", without_waiting}, {"vectors", vectors},
		{"placed", placed}, {"in_control_group", in_control_group}, {"with_limits", with_limits}};
	(void)argc;
	return run_trial(trials, COUNT(trials), argv);
}
