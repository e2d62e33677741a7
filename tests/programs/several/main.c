/*
 * several DIR PLAN [EXPECTED SECONDS]: processes that work on the files of DIR, one operation at a time, and a line for
 * the result of each. PLAN has a line for each operation: the number of a process, and fields (worker.c, calls.c).
 * Processes begin when they are first named: 0 to 3 are this program, from 4 on $SEVERAL_STATIC. Paths are relative to
 * DIR; those that begin with "%" are made absolute.
 *
 * With EXPECTED, the lines of another run, it stops after the first line that differs. Reads through something that was
 * open before may lag, by SECONDS at most: such an operation is repeated until it has the expected result.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

enum { PROCESSES = 6, SHARED_FD = 100 };

static const char *self, *dir;
static FILE *to[PROCESSES], *from[PROCESSES];

static int work(void)
{
	static char line[LINE_MAX_BYTES], result[LINE_MAX_BYTES];
	if (chdir(dir))
		return 1;
	while (fgets(line, sizeof line, stdin)) {
		char *word[WORDS_MAX + 1] = {0};
		size_t count = 0;
		for (char *w = strtok(line, " \n"); w && count < WORDS_MAX; w = strtok(NULL, " \n"))
			word[count++] = w;
		result[0] = 0;
		if (count)
			execute(word, result);
		printf("%s\n", result);
		fflush(stdout);
	}
	return 0;
}

static void begin(int number)
{
	int in[2], out[2];
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		exit(3);
	const char *program = number < 4 ? self : getenv("SEVERAL_STATIC");
	pid_t child = fork();
	if (!child) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(program, program, dir, (char *)NULL);
		_exit(3);
	}
	close(in[0]);
	close(out[1]);
	to[number] = fdopen(in[1], "w");
	from[number] = fdopen(out[0], "r");
}

static void request(int number, const char *operation, char *answer)
{
	if (!to[number])
		begin(number);
	fputs(operation, to[number]);
	fflush(to[number]);
	if (!fgets(answer, LINE_MAX_BYTES, from[number]))
		strcpy(answer, "the process has ended\n");
}

/* Whether an operation may be repeated, and reads through what was open or mapped before. */
static int may_be_delayed(const char *operation)
{
	static const char *const names[] = {
		" pread ", " peek ", " fstat ", " end ", " same ", " hole ", " reopen-pread "};
	for (size_t n = 0; n < sizeof names / sizeof *names; n++)
		if (strstr(operation, names[n]))
			return 1;
	return 0;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run(FILE *plan, FILE *expected, double seconds)
{
	static char operation[LINE_MAX_BYTES], answer[LINE_MAX_BYTES], right[LINE_MAX_BYTES];
	for (int n = 0; fgets(operation, sizeof operation, plan); n++) {
		int number = operation[0] - '0';
		if (number < 0 || number >= PROCESSES)
			return 3;
		request(number, operation + 2, answer);
		int is_right = 1;
		if (expected) {
			if (!fgets(right, sizeof right, expected))
				return 3;
			double end = now() + seconds;
			while (!(is_right = !strcmp(answer, right)) && may_be_delayed(operation) && now() < end) {
				nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
				request(number, operation + 2, answer);
			}
		}
		fputs(answer, stdout);
		if (!is_right) {
			fprintf(stderr, "operation %d: %sexpected: %sgot:      %s", n, operation, right, answer);
			fflush(stdout);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	self = argv[0];
	dir = argc > 1 ? argv[1] : ".";
	if (argc < 3)
		return work();
	signal(SIGPIPE, SIG_IGN);
	FILE *plan = fopen(argv[2], "r");
	FILE *expected = argc > 4 ? fopen(argv[3], "r") : NULL;
	if (!plan || (argc > 4 && !expected))
		return 3;
	return run(plan, expected, argc > 4 ? atof(argv[4]) : 0);
}
