/* sources: src/program.c src/elf.c core/reason.c */
/* The kind of a path: programs, scripts, damaged files, each judged without reading outside of it. */
#include "core/internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "random.h"

#define ROUNDS 20000
#define CHANGES_MAX 6
/* Damage matters only in what is read: header, segments, the loader's name. */
#define HEAD_BYTES 1024

static char path[128];
static void write_file(const void *content, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	CHECK(fd >= 0 && write(fd, content, bytes) == (ssize_t)bytes && fchmod(fd, 0755) == 0, "%m");
	close(fd);
}

static void judged(const char *content, size_t bytes, int expected, const char *refusal)
{
	struct hwsp_program program;
	write_file(content, bytes);
	int error = hwsp_program(path, &program);
	CHECK(error == expected, "%.20s: %s", content, strerror(error));
	CHECK(error || !refusal == !*program.refusal, "%.20s: %s", content, program.refusal);
	CHECK(error || !refusal || strstr(program.refusal, refusal), "%.20s: %s", content, program.refusal);
	if (!error)
		hwsp_program_free(&program);
}

static void scripts(void)
{
	struct hwsp_program program;
	char longest[300];

	judged("#!/bin/sh", 9, 0, NULL);
	judged("#! /bin/sh -x -y \n", 19, 0, NULL);
	CHECK(hwsp_program(path, &program) == 0 && !strcmp(program.path, "/bin/sh"), "%s", "interpreter");
	CHECK(!strcmp(program.script, path) && !strcmp(program.argument, "-x -y"), "%s", program.argument);
	hwsp_program_free(&program);
	judged("#!/no/such\n", 11, ENOENT, NULL);
	judged("#!/tmp\n", 7, EACCES, NULL);
	judged("#!\n", 3, ENOEXEC, NULL);
	memset(longest, 'x', sizeof longest);
	memcpy(longest, "#!/bin/sh ", 10);
	judged(longest, sizeof longest, 0, "too long");
	CHECK(hwsp_program("", &program) == ENOENT && hwsp_program(NULL, &program) == ENOENT, "%s", "no name");
	CHECK(hwsp_program("/tmp", &program) == EACCES, "%s", "a directory");
	CHECK(hwsp_program("sh", &program) == 0 && strchr(program.path, '/') && !*program.refusal, "%s", "by PATH");
	hwsp_program_free(&program);
	CHECK(hwsp_program("no-such-program", &program) == ENOENT, "%s", "by PATH");
}

/* A whole program, its parts cut off, and damaged. */
static void programs(void)
{
	size_t bytes = 0, room = 1 << 20;
	char *whole = malloc(room);
	struct hwsp_program program;
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);
	for (ssize_t got; (got = read(fd, whole + bytes, room - bytes)) > 0; bytes += (size_t)got)
		CHECK(bytes < room, "%s", "it is large");
	close(fd);
	judged(whole, bytes, 0, NULL);
	judged(whole, 40, ENOEXEC, NULL);
	judged(whole, sizeof(Elf64_Ehdr) + 10, ENOEXEC, NULL);
	size_t head = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
	for (int round = 0; round < ROUNDS; round++) {
		char *copy = malloc(head);
		memcpy(copy, whole, head);
		for (uint64_t changes = 1 + random_word() % CHANGES_MAX; changes; changes--)
			copy[random_word() % head] = (char)random_word();
		int damaged = open(path, O_WRONLY | O_CLOEXEC);
		CHECK(pwrite(damaged, copy, head, 0) == (ssize_t)head, "%m");
		close(damaged);
		free(copy);
		if (hwsp_program(path, &program) == 0)
			hwsp_program_free(&program);
	}
	free(whole);
}

int main(void)
{
	make_work_directory();
	snprintf(path, sizeof path, "%s/file", work_directory);
	scripts();
	programs();
	return 0;
}
