/* sources: core/python.c */
/* An interpreter's arguments are read as it reads them, and options that aren't the zygote's are noticed. */
#include "core/internal.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

#define WORDS_MAX 8

/* Splits at single spaces. To free() the text behind it. */
static char *split(const char *line, char **argv)
{
	char *text = strdup(line);
	size_t count = 0;
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		argv[count++] = word;
	argv[count] = NULL;
	return text;
}

static const struct {
	const char *line;
	bool good;
	enum hwsp_python_kind kind;
	const char *what, *next; /* the first argument that follows */
} lines[] = {
	{"python3", true, HWSP_PYTHON_INPUT, NULL, NULL},
	{"python3 -", true, HWSP_PYTHON_INPUT, "-", NULL},
	{"python3 - a", true, HWSP_PYTHON_INPUT, "-", "a"},
	{"python3 x.py -u", true, HWSP_PYTHON_FILE, "x.py", "-u"},
	{"python3 -- x.py -c", true, HWSP_PYTHON_FILE, "x.py", "-c"},
	{"python3 -- -x.py", true, HWSP_PYTHON_FILE, "-x.py", NULL},
	{"python3 -c pass a", true, HWSP_PYTHON_COMMAND, "pass", "a"},
	{"python3 -uBcpass -m", true, HWSP_PYTHON_COMMAND, "pass", "-m"},
	{"python3 -Wignore -X dev -m mod a", true, HWSP_PYTHON_MODULE, "mod", "a"},
	{"python3 -umod", true, HWSP_PYTHON_MODULE, "od", NULL},
	{"python3 -c", false, 0, NULL, NULL},
	{"python3 -i x.py", false, 0, NULL, NULL},
	{"python3 -x x.py", false, 0, NULL, NULL},
	{"python3 -X importtime x.py", false, 0, NULL, NULL},
	{"python3 --version", false, 0, NULL, NULL},
};

static void reads(void)
{
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		char *argv[WORDS_MAX], *text = split(lines[i].line, argv);
		struct hwsp_python read;
		CHECK(hwsp_python_read(argv, &read) == lines[i].good);
		if (lines[i].good) {
			CHECK(read.kind == lines[i].kind);
			CHECK(!lines[i].what == !read.what && (!read.what || !strcmp(read.what, lines[i].what)));
			CHECK(!lines[i].next == !*read.rest && (!*read.rest || !strcmp(*read.rest, lines[i].next)));
		}
		free(text);
	}
}

static const struct {
	const char *zygote, *process;
	bool alike;
	const char *cwd;
} pairs[] = {
	{"/bin/sh", "/bin/sh x.py", true, NULL},
	{"/bin/sh", "sh x.py", true, NULL},
	{"/bin/sh", "/usr/bin/sh x.py", false, NULL},
	{"/bin/sh", "./sh x.py", false, NULL},
	{"./sh", "./sh x.py", false, NULL},
	{"/bin/sh", "./sh x.py", true, "/bin"},
	{"/bin/sh", "bin/sh x.py", true, "/"},
	{"/bin/sh", "./sh x.py", false, "/usr/bin"},
	{"/binary/sh", "ary/sh x.py", false, "/bin"},
	{"/bin/sh", "nothing-of-this-name x.py", false, NULL},
	{"python3 -u", "python3 -u x.py", true, NULL},
	{"python3 -u", "python3 -ucpass", true, NULL},
	{"python3 -u", "python3 x.py -u", false, NULL},
	{"python3 -u -B", "python3 -uB -m mod", true, NULL},
	{"python3", "python3 -u x.py", false, NULL},
	{"python3 -W ignore", "python3 -Wignore x.py", true, NULL},
	{"python3 -W ignore", "python3 -W error x.py", false, NULL},
	{"python3", "python3 -i", false, NULL},
};

static void compares(void)
{
	char *variables[] = {"A=1", "PATH=/nonexistent::/bin:/usr/bin", NULL};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		char *zygote[WORDS_MAX], *process[WORDS_MAX];
		char *ours = split(pairs[i].zygote, zygote), *theirs = split(pairs[i].process, process);
		CHECK(hwsp_python_alike(zygote, process, variables, pairs[i].cwd) == pairs[i].alike);
		free(ours);
		free(theirs);
	}
	char *none[] = {NULL};
	struct hwsp_python read;
	CHECK(!hwsp_python_alike(none, none, none, NULL) && !hwsp_python_read(none, &read));
}

int main(void)
{
	reads();
	compares();
	return 0;
}
