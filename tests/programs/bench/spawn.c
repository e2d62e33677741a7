/* Measures how long processes take to be made, by one method at a time.
 *
 *     spawn MECHANISM MODE COUNT RESIDENT_MB IMPORTS PROGRAM [ARGUMENT...]
 *
 * sync: each is waited for before the next; prints the microseconds of each, one a line. call: the same, of the call
 * alone. async: all are made one by one, and then waited for; prints the microseconds of all together by their number.
 * vector: the same with one call. first: as sync, until the program has written CLOCK_MONOTONIC in nanoseconds to its
 * standard output. live: all live at once until standard input ends, and the mean of their proportional memory in KiB
 * is printed. The last line of each is "by MECHANISM". As MECHANISM, "main" is a zygote that stops before main(). */
#define _GNU_SOURCE
#include <errno.h>
#include <pspawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pspawn_context_t context;
static char **arguments;

static double microseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void reap(pid_t pid)
{
	int status;
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	if (status) {
		fprintf(stderr, "a process ended with status %#x\n", status);
		exit(1);
	}
}

static pid_t spawn(void)
{
	pid_t pid = pspawn(&context, arguments);
	if (pid < 0)
		fail("pspawn");
	return pid;
}

static void one_by_one(int count, int of_call)
{
	double *taken = calloc((size_t)count, sizeof *taken);
	for (int i = 0; i < count; i++) {
		double begin = microseconds();
		pid_t pid = spawn();
		if (of_call)
			taken[i] = microseconds() - begin;
		reap(pid);
		if (!of_call)
			taken[i] = microseconds() - begin;
	}
	for (int i = 0; i < count; i++)
		printf("%.2f\n", taken[i]);
}

static void together(int count, int vector)
{
	pid_t *pids = calloc((size_t)count, sizeof *pids);
	double begin = microseconds();
	if (vector && pspawn_n(pids, &context, count, arguments) != count)
		fail("pspawn_n");
	for (int i = 0; !vector && i < count; i++)
		pids[i] = spawn();
	for (int i = 0; i < count; i++)
		reap(pids[i]);
	printf("%.2f\n", (microseconds() - begin) / count);
}

static void until_first_statement(int count)
{
	struct pspawn_process process = {.argv = arguments};
	for (int i = 0; i < count; i++) {
		int ends[2], error;
		char text[64] = "";
		pid_t pid;
		if (pipe2(ends, 02000000 /* O_CLOEXEC */))
			fail("pipe");
		struct pspawn_file_action action = {.kind = PSPAWN_DUP2, .from = ends[1], .fd = 1};
		process.file_actions = &action;
		process.file_action_count = 1;
		double begin = microseconds();
		if (pspawn_many(&context, &process, 1, NULL, &pid, &error) != 1)
			fail("pspawn_many");
		close(ends[1]);
		if (read(ends[0], text, sizeof text - 1) <= 0)
			fail("the program wrote nothing");
		close(ends[0]);
		reap(pid);
		printf("%.2f\n", atof(text) / 1e3 - begin);
	}
}

static double proportional_kib(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Pss: %lf", &kib) == 1)
			break;
	if (!file)
		fail(path);
	fclose(file);
	return kib;
}

static void live(int count)
{
	pid_t *pids = calloc((size_t)count, sizeof *pids);
	struct timespec settle = {.tv_nsec = 300000000};
	double sum = 0;
	if (pspawn_n(pids, &context, count, arguments) != count)
		fail("pspawn_n");
	nanosleep(&settle, NULL);
	for (int i = 0; i < count; i++)
		sum += proportional_kib(pids[i]);
	for (int i = 0; i < count; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	printf("%.2f\n", sum / count);
}

int main(int argc, char **argv)
{
	struct pspawn_context_options options = {.size = sizeof options};
	const char *reason = NULL;

	if (argc < 7)
		return 2;
	options.stop = strcmp(argv[1], "main") ? PSPAWN_STOP_LOAD : PSPAWN_STOP_MAIN;
	const char *mechanism_name = options.stop == PSPAWN_STOP_MAIN ? "zygote" : argv[1];
	while (strcmp(pspawn_mechanism_name(options.mechanism), mechanism_name))
		if (++options.mechanism > PSPAWN_PFORK)
			return 2;
	int count = atoi(argv[3]);
	size_t resident = (size_t)atoi(argv[4]) << 20;
	if (*argv[5]) {
		options.imports = argv[5];
		options.stop = PSPAWN_STOP_PYTHON;
	}
	arguments = argv + 6;
	if (resident &&
		mmap(NULL, resident, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) ==
			MAP_FAILED)
		fail("memory");
	if (pspawn_context_create_with(&context, argv[6], &options))
		fail(argv[6]);
	if (!strcmp(argv[2], "sync") || !strcmp(argv[2], "call"))
		one_by_one(count, argv[2][0] == 'c');
	else if (!strcmp(argv[2], "first"))
		until_first_statement(count);
	else if (!strcmp(argv[2], "live"))
		live(count);
	else
		together(count, !strcmp(argv[2], "vector"));
	enum pspawn_mechanism mechanism = pspawn_context_mechanism(&context, &reason);
	printf("by %s%s%s\n", pspawn_mechanism_name(mechanism), reason ? ": " : "", reason ? reason : "");
	pspawn_context_destroy(&context);
	return 0;
}
