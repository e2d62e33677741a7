/* What the hosted tests share: assertions, and tables written by abi's own writer. */
#ifndef HEADWATER_CHECK_H
#define HEADWATER_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, #condition); \
			fprintf(stderr, ": " __VA_ARGS__); \
			fputc('\n', stderr); \
			exit(1); \
		} \
	} while (0)

/* A directory of the test's own, removed at its end. */
static char work_directory[64];

static void remove_work_directory(void)
{
	char command[sizeof(work_directory) + 16];

	snprintf(command, sizeof(command), "rm -rf '%s'", work_directory);
	if (system(command) != 0)
		fprintf(stderr, "%s is left behind\n", work_directory);
}

static inline void make_work_directory(void)
{
	strcpy(work_directory, "/tmp/headwater-test-XXXXXX");
	CHECK(mkdtemp(work_directory), "%m");
	atexit(remove_work_directory);
}

/* Writes the table of a description (store/examples/mktable.rs, or the program that HEADWATER_TEST_MKTABLE names). */
static inline void make_table(const char *path, const char *description)
{
	const char *cargo = getenv("CARGO"), *built = getenv("HEADWATER_TEST_MKTABLE");
	char command[1024];

	if (built)
		snprintf(command, sizeof(command), "'%s' '%s'", built, path);
	else
		snprintf(command, sizeof(command), "'%s' run -q -p headwater-store --example mktable -- '%s'",
			cargo ? cargo : "cargo", path);
	FILE *pipe = popen(command, "w");
	CHECK(pipe, "%m");
	fputs(description, pipe);
	CHECK(pclose(pipe) == 0, "%s failed", command);
}

#endif
