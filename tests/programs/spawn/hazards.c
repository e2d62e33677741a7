/* Hazards of a zygote for the program that owns it. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static char *true_argv[] = {"true", NULL};

static void wait_for_all(char **unused)
{
	pspawn_context_t context;
	siginfo_t information;
	pid_t pids[8];

	(void)unused;
	make_zygote(&context, "/bin/true");
	CHECK(wait(NULL) == -1 && errno == ECHILD, "%s", "an idle zygote");
	CHECK(waitid(P_ALL, 0, &information, WEXITED) == -1 && errno == ECHILD, "%s", "an idle zygote");
	CHECK(pspawn_n(pids, &context, 8, true_argv) == 8, "%s", "eight");
	for (int left = 8; left; left--)
		CHECK(wait(NULL) > 0, "%d are left", left);
	CHECK(wait3(NULL, 0, NULL) == -1 && errno == ECHILD, "%s", "all are reaped");
	CHECK(pspawn_context_zygote(&context) && status_of(pspawn(&context, true_argv)) == 0, "%s", "it lives");
	pspawn_context_destroy(&context);
	no_children();
}

static void *wait_till_none(void *unused)
{
	long count = 0;
	while (wait(NULL) > 0)
		count++;
	CHECK(errno == ECHILD, "%s", "wait");
	return unused ? unused : (void *)count;
}

static void wait_in_threads(char **unused)
{
	pspawn_context_t context;
	pthread_t threads[4];
	pid_t pids[32];

	(void)unused;
	make_zygote(&context, "/bin/sh");
	for (int round = 0; round < 10; round++) {
		char *argv[] = {"sh", "-c", "sleep 0.0$(($$ % 4))", NULL};
		long count = 0;
		CHECK(pspawn_n(pids, &context, 32, argv) == 32, "%s", "all");
		for (int i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, wait_till_none, NULL);
		for (int i = 0; i < 4; i++) {
			void *result;
			pthread_join(threads[i], &result);
			count += (long)result;
		}
		CHECK(count == 32, "%ld are reaped", count);
	}
	pspawn_context_destroy(&context);
}

static volatile sig_atomic_t handled;

static void reap(int number)
{
	int before = errno;
	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		handled++;
	errno = before;
}

/* A handler that interrupts malloc() may wait for any child. */
static void wait_in_handler(char **unused)
{
	pspawn_context_t context;
	pid_t pids[200];

	(void)unused;
	make_zygote(&context, "/bin/true");
	signal(SIGCHLD, reap);
	CHECK(pspawn_n(pids, &context, 200, true_argv) == 200, "%s", "all");
	while (handled < 200)
		free(malloc((size_t)rand() % 100000));
	pspawn_context_destroy(&context);
}

/* Closes all descriptors that it did not open, and uses the numbers itself. */
static void close_all(char **unused)
{
	pspawn_context_t context;
	char byte = 'x';
	int ends[2];

	(void)unused;
	make_zygote(&context, "/bin/sh");
	pid_t first = pspawn_context_zygote(&context);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "%s", "socketpair");
	for (int fd = ends[1] + 1; fd < 12; fd++)
		CHECK(dup2(ends[0], fd) == fd, "%d", fd);
	CHECK(write(ends[1], &byte, 1) == 1, "%s", "write");
	CHECK(pspawn_context_zygote(&context) == 0, "%s", "its socket is gone");
	CHECK(shell_exits(&context, "exit 4") == 4, "%s", "a new zygote");
	CHECK(pspawn_context_zygote(&context) != first && pspawn_context_zygote(&context), "%s", "a new zygote");
	pspawn_context_destroy(&context);
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x', "%s", "what is ours is untouched");
	CHECK(fcntl(11, F_GETFD) >= 0 && fcntl(ends[1], F_GETFD) >= 0, "%s", "what is ours is open");
}

/* A fork of the owner has no zygote, and can have its own. */
static void fork_owner(char **unused)
{
	pspawn_context_t context;
	(void)unused;
	make_zygote(&context, "/bin/sh");
	pid_t zygote = pspawn_context_zygote(&context);
	pid_t child = fork();
	if (child == 0) {
		CHECK(wait(NULL) == -1 && errno == ECHILD, "%s", "no child");
		CHECK(shell_exits(&context, "exit 5") == 5, "%s", "its own");
		CHECK(pspawn_context_zygote(&context) != zygote, "%s", "its own");
		pspawn_context_destroy(&context);
		_exit(6);
	}
	CHECK(status_of(child) == 6, "%s", "the fork");
	CHECK(pspawn_context_zygote(&context) == zygote && shell_exits(&context, "exit 7") == 7, "%s", "ours");
	pspawn_context_destroy(&context);
}

static void other_variables(char **unused)
{
	pspawn_context_t context;
	(void)unused;
	unsetenv("OMP_NUM_THREADS");
	make_zygote(&context, "/bin/sh");
	pid_t first = pspawn_context_zygote(&context);
	setenv("PLAIN", "1", 1);
	CHECK(shell_exits(&context, "exit $PLAIN") == 1, "%s", "a variable");
	CHECK(pspawn_context_zygote(&context) == first, "%s", "no reason for another");
	const char *const early[] = {"OMP_NUM_THREADS", "LD_LIBRARY_PATH", "LC_ALL"};
	for (size_t i = 0; i < COUNT(early); i++) {
		setenv(early[i], "3", 1);
		char script[64];
		snprintf(script, sizeof script, "exit $%s", early[i]);
		CHECK(shell_exits(&context, script) == 3, "%s", early[i]);
		pid_t now = pspawn_context_zygote(&context);
		CHECK(now && now != first, "%s", early[i]);
		first = now;
	}
	signal(SIGUSR1, SIG_IGN);
	CHECK(shell_exits(&context, "kill -USR1 $$; exit 2") == 2, "%s", "ignored");
	CHECK(pspawn_context_zygote(&context) == first, "%s", "no reason for another");
	signal(SIGUSR1, SIG_DFL);
	const char *script = "sh -c 'kill -USR1 $$; exit 2'; exit $?";
	CHECK(shell_exits(&context, script) == 128 + SIGUSR1, "%s", "not ignored any more");
	CHECK(pspawn_context_zygote(&context) == first, "%s", "no reason for another");
	/* Interpreters check this one before they stop. */
	signal(SIGINT, SIG_IGN);
	CHECK(shell_exits(&context, "kill -INT $$; exit 2") == 2, "%s", "ignored");
	CHECK(pspawn_context_zygote(&context) != first, "%s", "another");
	pspawn_context_destroy(&context);
}

/* LIBRARY or program that the second argument replaces, by the third. */
static void replaced(char **arguments)
{
	pspawn_context_t context;
	char command[8192];
	make_zygote(&context, arguments[0]);
	CHECK(shell_exits(&context, "") == 1, "%s", "the old one");
	snprintf(command, sizeof command, "%s", arguments[1]);
	CHECK(system(command) == 0, "%s", command);
	CHECK(shell_exits(&context, "") == 2, "%s", "the new one, at once");
	CHECK(pspawn_context_zygote(&context), "%s", "a new zygote");
	pspawn_context_destroy(&context);
}

/* Runs a program without arguments, and checks its status. */
static void run_once(pspawn_context_t *context, char *program, const char *expected)
{
	char *argv[] = {program, NULL};
	int status = 0;
	pid_t pid = pspawn(context, argv);

	CHECK(pid > 0, "%s", program);
	if (!strcmp(expected, "kill"))
		kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid, "%s", "wait");
	int exited = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	CHECK(!strcmp(expected, "kill") || exited == atoi(expected), "%x", (unsigned)status);
}

/* Each process from a zygote does what its program's constructors do: PROGRAM, exit status. */
static void repeated(char **arguments)
{
	pspawn_context_t context;

	make_zygote(&context, arguments[0]);
	for (int i = 0; i < 3; i++)
		run_once(&context, arguments[0], arguments[1]);
	CHECK(pspawn_context_zygote(&context), "%s", "it lives");
	pspawn_context_destroy(&context);
	no_children();
}

/* A program for which there is no zygote runs nevertheless: PROGRAM, part of the reason, exit status. */
static void refused(char **arguments)
{
	struct pspawn_context_options options = {
		.size = sizeof options, .mechanism = PSPAWN_ZYGOTE, .stop = PSPAWN_STOP_MAIN, .start_ms_max = 300};
	pspawn_context_t context;
	const char *reason = NULL;
	int before = open_descriptors();
	CHECK(pspawn_context_create_with(&context, arguments[0], &options) == 0, "%s", arguments[0]);
	CHECK(pspawn_context_mechanism(&context, &reason) == PSPAWN_VFORK, "%s", "a zygote");
	CHECK(reason && strstr(reason, arguments[1]), "%s", reason ? reason : "no reason");
	if (strcmp(arguments[2], "-"))
		run_once(&context, arguments[0], arguments[2]);
	no_children();
	pspawn_context_destroy(&context);
	CHECK(open_descriptors() == before, "%s", "descriptors leak");
}

/* Between requests the zygote has nothing of its owner's open. */
static void nothing_is_held(char **unused)
{
	pspawn_context_t context;
	int ends[2];
	char byte;
	(void)unused;
	make_zygote(&context, "/bin/sh");
	CHECK(pipe(ends) == 0, "%s", "pipe");
	CHECK(shell_exits(&context, "exit 0") == 0, "%s", "with the pipe");
	close(ends[1]);
	CHECK(read(ends[0], &byte, 1) == 0, "%s", "its other end is closed everywhere");
	pspawn_context_destroy(&context);
}

/* An action may name a descriptor that exec closes. */
static void named_descriptors(char **unused)
{
	pspawn_context_t context;
	/* By the shell itself: a command in it would have descriptors of its own. */
	char *script =
		"n=0; open=; while [ $n -lt 80 ]; do [ -e /proc/$$/fd/$n ] && open=\"$open $n\"; n=$((n + 1)); done; "
		"echo $open";
	char *argv[] = {"sh", "-c", script, NULL};
	char text[2][256] = {"", ""};
	(void)unused;
	for (int i = 0; i < 2; i++) {
		int ends[2];
		CHECK(pipe2(ends, O_CLOEXEC) == 0, "%s", "pipe");
		struct pspawn_file_action actions[] = {
			{.kind = PSPAWN_OPEN, .fd = 50, .path = "/dev/null", .flags = O_RDONLY | O_CLOEXEC},
			{.kind = PSPAWN_OPEN, .fd = 51, .path = "/dev/null", .flags = O_RDONLY},
			{.kind = PSPAWN_DUP2, .from = ends[1], .fd = 1},
			{.kind = PSPAWN_CLOSE, .fd = 70},
		};
		struct pspawn_process process = {
			.argv = argv, .file_actions = actions, .file_action_count = COUNT(actions)};
		pid_t pid;
		make_context(&context, "/bin/sh", i ? PSPAWN_ZYGOTE : PSPAWN_VFORK);
		CHECK(pspawn_many(&context, &process, 1, NULL, &pid, NULL) == 1, "%d", i);
		close(ends[1]);
		CHECK(read(ends[0], text[i], sizeof text[i] - 1) > 0 && status_of(pid) == 0, "%d", i);
		close(ends[0]);
		pspawn_context_destroy(&context);
	}
	CHECK(!strcmp(text[0], text[1]) && strstr(text[0], " 51"), "%s against %s", text[0], text[1]);
}

/* Makes a zygote that is abandoned soon, and stops it. */
static pid_t make_stopped(pspawn_context_t *context)
{
	struct pspawn_context_options options = {
		.size = sizeof options, .mechanism = PSPAWN_ZYGOTE, .stopped_ms_max = 200};
	int status;
	CHECK(pspawn_context_create_with(context, "/bin/sh", &options) == 0, "%s", "a context");
	pid_t zygote = pspawn_context_zygote(context);
	CHECK(zygote && kill(zygote, SIGSTOP) == 0 && waitpid(zygote, &status, WUNTRACED) == zygote, "%d", zygote);
	CHECK(WIFSTOPPED(status), "%x", (unsigned)status);
	return zygote;
}

/* Stops the zygote in the arguments in the midst of its work. */
static void *stopper(void *number)
{
	struct timespec moment = {.tv_nsec = 30000000};
	nanosleep(&moment, NULL);
	kill((pid_t)(long)number, SIGSTOP);
	return NULL;
}

/* A zygote that is stopped is abandoned: all processes are made, once. FILE: where each leaves a byte. */
static void zygote_stopped(char **arguments)
{
	static struct pspawn_process processes[2000];
	static pid_t pids[COUNT(processes)];
	char script[4200];
	char *argv[] = {"sh", "-c", script, NULL};
	pspawn_context_t context;
	pspawn_batch_t *batches[40];
	struct stat file;
	pthread_t thread;

	snprintf(script, sizeof script, "printf x >>'%s'", arguments[0]);
	int before = open_descriptors();
	pid_t zygote = make_stopped(&context);
	CHECK(shell_exits(&context, "exit 4") == 4, "%s", "by exec");
	CHECK(shell_exits(&context, "exit 5") == 5 && pspawn_context_zygote(&context) != zygote, "%s", "a new zygote");
	for (size_t i = 0; i < COUNT(processes); i++)
		processes[i].argv = argv;
	pthread_create(&thread, NULL, stopper, (void *)(long)pspawn_context_zygote(&context));
	int made = pspawn_many(&context, processes, COUNT(processes), NULL, pids, NULL);
	CHECK(made == (int)COUNT(processes), "%d", made);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < COUNT(processes); i++)
		CHECK(status_of(pids[i]) == 0, "%zu", i);
	pspawn_context_destroy(&context);
	/* More than its socket takes. */
	make_stopped(&context);
	for (size_t i = 0; i < COUNT(batches); i++)
		CHECK(pspawn_many_begin(&context, processes, 1, NULL, &batches[i]) >= 0, "%zu", i);
	for (size_t i = 0; i < COUNT(batches); i++)
		CHECK(pspawn_many_end(batches[i], pids, NULL) == 1 && status_of(pids[0]) == 0, "%zu", i);
	pspawn_context_destroy(&context);
	CHECK(stat(arguments[0], &file) == 0, "%s", arguments[0]);
	CHECK(file.st_size == COUNT(processes) + COUNT(batches), "%ld have run", (long)file.st_size);
	no_children();
	CHECK(open_descriptors() == before, "%d descriptors, then %d", before, open_descriptors());
}

/* The same of one that a debugger has stopped, and does not release. */
static void zygote_traced(char **unused)
{
	pspawn_context_t context;
	char byte = 'x';
	int started[2], end[2];
	(void)unused;
	struct pspawn_context_options options = {
		.size = sizeof options, .mechanism = PSPAWN_ZYGOTE, .stopped_ms_max = 200};
	CHECK(pspawn_context_create_with(&context, "/bin/sh", &options) == 0, "%s", "a context");
	pid_t zygote = pspawn_context_zygote(&context);
	CHECK(zygote && pipe(started) == 0 && pipe(end) == 0, "%s", "pipes");
	pid_t debugger = fork();
	if (debugger == 0) {
		int status;
		close(end[1]);
		bool stops = ptrace(PTRACE_ATTACH, zygote, NULL, NULL) == 0 &&
			waitpid(zygote, &status, __WALL) == zygote;
		byte = stops ? 'y' : 'n';
		_exit(write(started[1], &byte, 1) == 1 && read(end[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(end[0]);
	CHECK(read(started[0], &byte, 1) == 1, "%s", "the debugger");
	if (byte == 'y')
		CHECK(shell_exits(&context, "exit 4") == 4 && shell_exits(&context, "exit 5") == 5, "%s", "by exec");
	pspawn_context_destroy(&context);
	close(end[1]);
	CHECK(status_of(debugger) == 0, "%s", "the debugger");
	if (byte != 'y')
		printf("skipped: this user's processes may not be traced\n");
}

static int count_like(const struct pspawn_process *process, unsigned count, enum pspawn_numa numa,
	pspawn_context_t *context, int expected)
{
	struct pspawn_process processes[8] = {{0}};
	struct pspawn_options options = {.size = sizeof options, .numa = numa};
	pid_t pids[8];
	int as_expected = 0;

	for (unsigned i = 0; i < count; i++)
		processes[i] = process[i % 2];
	CHECK(pspawn_many(context, processes, count, &options, pids, NULL) == (int)count, "%u", count);
	for (unsigned i = 0; i < count; i++)
		as_expected += status_of(pids[i]) == expected;
	return as_expected;
}

/* PROGRAM makes as many threads as it may use processors, and counts these as it is loaded. */
static void counted_cores(char **arguments)
{
	enum { THREADS_RIGHT = 0, BY_ZYGOTE = 2 };
	char *argv[] = {arguments[0], NULL};
	cpu_set_t own, one;
	pspawn_context_t context;

	sched_getaffinity(0, sizeof own, &own);
	if (CPU_COUNT(&own) < 2) {
		printf("skipped: there is one processor\n");
		return;
	}
	CPU_ZERO(&one);
	for (int core = 0; !CPU_COUNT(&one); core++)
		if (CPU_ISSET(core, &own))
			CPU_SET(core, &one);
	const struct pspawn_process free = {.argv = argv},
				    bound = {.argv = argv, .mask = &one, .mask_size = sizeof one};
	const struct pspawn_process all_free[] = {free, free}, all_bound[] = {bound, bound}, mixed[] = {free, bound};
	const int good = THREADS_RIGHT + BY_ZYGOTE;
	struct pspawn_context_options options = {
		.size = sizeof options, .mechanism = PSPAWN_ZYGOTE, .stop = PSPAWN_STOP_MAIN};
	CHECK(pspawn_context_create_with(&context, arguments[0], &options) == 0, "%s", arguments[0]);
	pid_t first = pspawn_context_zygote(&context);
	CHECK(first && count_like(all_free, 4, PSPAWN_NUMA_NONE, &context, good) == 4, "%s", "all cores");
	/* A few with another count are no reason for another zygote, until they recur. */
	CHECK(count_like(all_bound, 1, PSPAWN_NUMA_NONE, &context, THREADS_RIGHT) == 1, "%s", "by exec");
	CHECK(count_like(mixed, 8, PSPAWN_NUMA_NONE, &context, THREADS_RIGHT) == 8, "%s", "by exec");
	CHECK(pspawn_context_zygote(&context) == first, "%s", "the same zygote");
	CHECK(count_like(all_bound, 1, PSPAWN_NUMA_NONE, &context, good) == 1, "%s", "one core");
	CHECK(pspawn_context_zygote(&context) != first, "%s", "another zygote");
	first = pspawn_context_zygote(&context);
	CHECK(count_like(all_free, 4, PSPAWN_NUMA_FILL, &context, good) == 4, "%s", "one core each");
	CHECK(pspawn_context_zygote(&context) == first, "%s", "the same zygote");
	CHECK(count_like(all_free, 4, PSPAWN_NUMA_NONE, &context, good) == 4, "%s", "all cores");
	sched_setaffinity(0, sizeof one, &one);
	CHECK(count_like(all_free, 4, PSPAWN_NUMA_NONE, &context, good) == 4, "%s", "the caller's one core");
	pspawn_context_destroy(&context);
	sched_setaffinity(0, sizeof own, &own);
	options.mask = &one;
	options.mask_size = sizeof one;
	CHECK(pspawn_context_create_with(&context, arguments[0], &options) == 0, "%s", "with a mask");
	first = pspawn_context_zygote(&context);
	CHECK(count_like(all_bound, 1, PSPAWN_NUMA_NONE, &context, good) == 1, "%s", "one core");
	CHECK(first && pspawn_context_zygote(&context) == first, "%s", "the first zygote");
	pspawn_context_destroy(&context);
	/* A program that does not count processors has one zygote for all, and so has one that counts them when each
	 * process begins. */
	for (int counts = 0; counts < 2; counts++) {
		int right = counts ? good : 0;
		make_zygote(&context, counts ? arguments[0] : "/bin/true");
		first = pspawn_context_zygote(&context);
		CHECK(count_like(mixed, 8, PSPAWN_NUMA_NONE, &context, right) == 8, "%d: any cores", counts);
		CHECK(count_like(all_bound, 8, PSPAWN_NUMA_NONE, &context, right) == 8, "%d: any cores", counts);
		CHECK(pspawn_context_zygote(&context) == first, "%s", "the same zygote");
		pspawn_context_destroy(&context);
	}
	no_children();
}

/* When the owner is killed its zygotes end, even if a fork of the owner lives on. */
static void owner_killed(char **unused)
{
	int ends[2];
	pid_t zygote = 0, heir = 0;
	(void)unused;
	CHECK(pipe(ends) == 0, "%s", "pipe");
	pid_t owner = fork();
	if (owner == 0) {
		pspawn_context_t context;
		/* They end when the trial has failed, too. */
		alarm(110);
		make_zygote(&context, "/bin/true");
		zygote = pspawn_context_zygote(&context);
		heir = fork();
		if (heir == 0) {
			alarm(110);
			for (;;)
				pause();
		}
		CHECK(write(ends[1], &zygote, sizeof zygote) == sizeof zygote, "%s", "write");
		CHECK(write(ends[1], &heir, sizeof heir) == sizeof heir, "%s", "write");
		for (;;)
			pause();
	}
	CHECK(read(ends[0], &zygote, sizeof zygote) == sizeof zygote, "%s", "read");
	CHECK(read(ends[0], &heir, sizeof heir) == sizeof heir, "%s", "read");
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	struct timespec pause_ns = {.tv_nsec = 1000000};
	char path[64], state[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", zygote);
	for (bool gone = false; !gone; nanosleep(&pause_ns, NULL)) {
		FILE *file = fopen(path, "re");
		gone = !file || !fgets(state, sizeof state, file) || strstr(state, ") Z");
		if (file)
			fclose(file);
	}
	kill(heir, SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct trial trials[] = {{"wait_for_all", wait_for_all}, {"wait_in_threads", wait_in_threads},
		{"wait_in_handler", wait_in_handler}, {"close_all", close_all}, {"fork_owner", fork_owner},
		{"other_variables", other_variables}, {"replaced", replaced}, {"refused", refused},
		{"repeated", repeated}, {"nothing_is_held", nothing_is_held}, {"named_descriptors", named_descriptors},
		{"owner_killed", owner_killed}, {"zygote_stopped", zygote_stopped}, {"zygote_traced", zygote_traced},
		{"counted_cores", counted_cores}};
	(void)argc;
	return run_trial(trials, COUNT(trials), argv);
}
