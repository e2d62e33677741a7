/* sources: process.c */
/* The state of a process that the plugin starts; processes that are silent, or die. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "check.h"
#include "process.h"

static char variable[] = "WORD=as it is";
static char *variables[] = {variable, NULL};

static struct hwsl_process shell(const char *script)
{
	const char *arguments[] = {"/bin/sh", "-c", script, NULL};
	struct hwsl_user user = {.uid = geteuid(), .gid = getegid(), .has_groups = true};
	struct hwsl_process process;

	CHECK(hwsl_start_process(&process, arguments, variables, &user, false), "%m");
	return process;
}

static void check(const char *script, const char *input, const char *expected)
{
	char text[256];
	struct hwsl_process process = shell(script);

	hwsl_write_all(process.input, input, strlen(input));
	close(process.input);
	CHECK(hwsl_read_text(process.output, text, sizeof(text), false, 10000), "%s: no end", script);
	CHECK(strcmp(text, expected) == 0, "%s gives %s", script, text);
	hwsl_end_process(&process, false);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void silence(void)
{
	char text[16];
	struct hwsl_process process = shell("echo first; echo second; exec sleep 1000");
	double start = seconds();

	CHECK(hwsl_read_text(process.output, text, sizeof(text), true, 10000) && strncmp(text, "first\n", 6) == 0, "%s",
		text);
	CHECK(!hwsl_read_text(process.output, text, sizeof(text), false, 100), "it does not end");
	CHECK(seconds() - start < 10, "%f s", seconds() - start);
	close(process.input);
	hwsl_end_process(&process, true);
	process = shell("exec echo 0123456789abcdef0123456789abcdef");
	CHECK(!hwsl_read_text(process.output, text, sizeof(text), false, 10000) && strlen(text) == sizeof(text) - 1,
		"%s", text);
	close(process.input);
	hwsl_end_process(&process, false);
}

/* Writes more than a pipe holds, to a process that reads late, and to one that has ended. */
static void much(void)
{
	static char bytes[HWSL_JOB_BYTES_MAX];
	char text[64], expected[64];
	struct hwsl_process process = shell("sleep 0.1; wc -c");

	memset(bytes, 'x', sizeof(bytes));
	snprintf(expected, sizeof(expected), "%zu\n", sizeof(bytes));
	hwsl_write_all(process.input, bytes, sizeof(bytes));
	close(process.input);
	CHECK(hwsl_read_text(process.output, text, sizeof(text), false, 10000) && strcmp(text, expected) == 0, "%s",
		text);
	hwsl_end_process(&process, false);
	process = shell("exec true");
	hwsl_read_text(process.output, text, sizeof(text), false, 10000);
	hwsl_write_all(process.input, bytes, sizeof(bytes));
	close(process.input);
	hwsl_end_process(&process, false);
}

/* A pipe is read until the last of its readers has ended. */
static void readers(void)
{
	char text[16];
	struct hwsl_process process = shell("exec 3<&0; { read -r line <&3; echo got; read -r line <&3; } &");

	CHECK(!hwsl_await_no_reader(process.input, 100), "one reads");
	hwsl_write_all(process.input, "a\n", 2);
	CHECK(hwsl_read_text(process.output, text, sizeof(text), true, 10000) && strcmp(text, "got\n") == 0, "%s",
		text);
	CHECK(!hwsl_await_no_reader(process.input, 100), "one reads");
	hwsl_write_all(process.input, "b\n", 2);
	CHECK(hwsl_await_no_reader(process.input, 10000), "none reads");
	close(process.input);
	hwsl_end_process(&process, false);
}

int main(void)
{
	const char *missing[] = {"/nonexistent", NULL};
	struct hwsl_user user = {.uid = geteuid(), .gid = getegid(), .has_groups = true};
	struct hwsl_process process;
	sigset_t blocked;
	int leaked = fcntl(open("/dev/null", O_RDONLY), F_DUPFD, 50);

	CHECK(leaked >= 50, "%m");
	sigfillset(&blocked);
	sigdelset(&blocked, SIGPIPE);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	signal(SIGHUP, SIG_IGN);
	check("cat; echo $WORD; echo $HOME; pwd", "said\n", "said\nas it is\n\n/\n");
	check("n=3; while [ $n -lt 64 ]; do [ ! -e /proc/$$/fd/$n ] || echo $n; n=$((n + 1)); done", "", "");
	check("kill -HUP $$; echo ignored", "", "");
	check("kill -TERM $$; echo blocked", "", "");
	errno = 0;
	CHECK(!hwsl_start_process(&process, missing, variables, &user, false) && errno == ENOENT, "%m");
	if (geteuid() == 0) {
		user = (struct hwsl_user){.uid = 65534, .gid = 65534};
		const char *arguments[] = {"/bin/sh", "-c", "id -u; id -g; id -G", NULL};
		char text[64];

		CHECK(hwsl_start_process(&process, arguments, variables, &user, false), "%m");
		CHECK(hwsl_read_text(process.output, text, sizeof(text), false, 10000), "no end");
		CHECK(strcmp(text, "65534\n65534\n65534\n") == 0, "%s", text);
		close(process.input);
		hwsl_end_process(&process, false);
	}
	readers();
	silence();
	much();
	return 0;
}
