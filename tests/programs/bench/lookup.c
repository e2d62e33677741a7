/* Looks paths up in the session's table and prints nanoseconds a look-up: lookup DIR FILES,
 * DIR/depth/K/module_N.py as the benchmark made them, DIR/link a link to depth. Writes a mark to
 * standard error before and after each measurement. */
#define _GNU_SOURCE
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 21 };

static long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void mark(const char *what, const char *name)
{
	char text[128];
	int bytes = snprintf(text, sizeof text, "%s %s\n", what, name);
	if (write(2, text, bytes) != bytes)
		exit(1);
}

static void measure(const char *name, const char *dir, const char *format, int files, enum hwa_answer expected)
{
	HWA_FOUND(found);
	char **paths = calloc(files, sizeof *paths);
	double runs[RUNS];
	for (int i = 0; i < files; i++) {
		if (asprintf(&paths[i], format, dir, i % 50, i) < 0)
			exit(1);
		if (hwa_resolve(AT_FDCWD, paths[i], HW_WANT_ATTR, &found) != expected) {
			fprintf(stderr, "%s: not as expected\n", paths[i]);
			exit(1);
		}
	}
	mark("begin", name);
	for (int run = 0; run < RUNS; run++) {
		long begin = now_ns();
		for (int i = 0; i < files; i++)
			hwa_resolve(AT_FDCWD, paths[i], HW_WANT_ATTR, &found);
		runs[run] = (double)(now_ns() - begin) / files;
	}
	mark("end", name);
	qsort(runs, RUNS, sizeof *runs, by_value);
	printf("%s %.0f\n", name, runs[RUNS / 2]);
	for (int i = 0; i < files; i++)
		free(paths[i]);
	free(paths);
}

int main(int argc, char **argv)
{
	int files = argc > 2 ? atoi(argv[2]) : 0;
	hwa_attach(environ);
	if (!hwa_attached() || files < 1)
		return 1;
	measure("a file", argv[1], "%s/depth/%d/module_%d.py", files, HWA_KNOWN);
	measure("an absent name", argv[1], "%s/depth/%d/absent_%d.py", files, HWA_FAILS);
	measure("a file through a link", argv[1], "%s/link/%d/module_%d.py", files, HWA_KNOWN);
	measure("outside the scope", "/usr/lib", "%s/%d/module_%d.py", files, HWA_ORIGINAL);
	return 0;
}
