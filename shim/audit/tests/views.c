/* sources: table.c path.c resolve.c request.c sys.c view.c program.c */
/* Processes that are not served, because they see other files than the daemon. Tables that are not trusted, once
 * unaudited programs run. Which programs are unaudited. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "shim.h"

static char tree[80];

static void attach(const char *more)
{
	char description[512], table[128], variable[160];
	snprintf(table, sizeof table, "%s/table", work_directory);
	snprintf(description, sizeof description, "store %s/store\nscope + %s\ntree %s\n%s", work_directory, tree, tree,
		more);
	make_table(table, description);
	snprintf(variable, sizeof variable, "HEADWATER_TABLE=%s", table);
	hwa_attach((char *[]){variable, NULL});
}

static void run(const char *command)
{
	char line[1024];
	snprintf(line, sizeof line, "cd %s && %s", tree, command);
	CHECK(system(line) == 0, "%s", line);
}

static void in_child(void (*test)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		test();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", status);
}

static void elsewhere(void)
{
	attach("elsewhere\n");
	CHECK(!hwa_attached() && !hwa_in_use(), "a process with another root directory is served");
}

static enum hwa_answer answer(const char *name, unsigned want)
{
	char path[256];
	HWA_FOUND(found);
	snprintf(path, sizeof path, "%s/%s", tree, name);
	return hwa_resolve(AT_FDCWD, path, want, &found);
}

#define ANSWERS(name, want, expected) CHECK(answer(name, want) == expected, "%s", name)

static void believed(void)
{
	attach("");
	CHECK(hwa_attached(), "a process that sees the same");
	run("echo changed > file; touch new");
	ANSWERS("file", HW_WANT_WHOLE, HWA_KNOWN);
	ANSWERS("new", HW_WANT_ATTR, HWA_FAILS);
	hwa_announce_unaudited();
	CHECK(!hwa_in_use(), "a process that can't reach the daemon gives the table up");
	ANSWERS("new", HW_WANT_ATTR, HWA_ORIGINAL);
}

static void compared(void)
{
	attach("unaudited\n");
	CHECK(hwa_attached(), "a process that sees the same");
	for (int round = 0; round < 2; round++) {
		enum hwa_answer expected = round ? HWA_ORIGINAL : HWA_KNOWN;
		ANSWERS("file", HW_WANT_WHOLE, expected);
		ANSWERS("moved/file", HW_WANT_ATTR, expected);
		ANSWERS("mode", HW_WANT_ATTR, expected);
		ANSWERS("dir", HW_WANT_LISTING, expected);
		ANSWERS("link/file", HW_WANT_ATTR, expected);
		ANSWERS("link", HW_WANT_ATTR | HW_WANT_NO_FOLLOW, expected);
		ANSWERS("other/file", HW_WANT_WHOLE, HWA_KNOWN);
		ANSWERS("new", HW_WANT_ATTR, HWA_ORIGINAL);
		if (round == 0)
			run("echo text > file; mv moved away; chmod 600 mode; touch dir/new; rm link; ln -s other link");
	}
}

/* A program of this machine with an interpreter and a note of this name, in several pieces. */
static void make_program(const char *name, const char *interpreter, const char *note, uint64_t note_at)
{
	char path[256], bytes[8192] = {0};
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Phdr *segments = (Elf64_Phdr *)(bytes + sizeof *header);
	int self = open("/proc/self/exe", O_RDONLY);
	CHECK(read(self, header, sizeof *header) == sizeof *header, "%m");
	close(self);
	header->e_phoff = sizeof *header;
	header->e_phnum = 2;
	segments[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = note_at, .p_filesz = 3 * sizeof(Elf64_Nhdr)};
	segments[1] = (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = 512, .p_filesz = strlen(interpreter) + 1};
	memcpy(bytes + 512, interpreter, strlen(interpreter));
	*(Elf64_Nhdr *)(bytes + note_at) = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 4};
	memcpy(bytes + note_at + sizeof(Elf64_Nhdr), note, 3);
	snprintf(path, sizeof path, "%s/%s", tree, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes && close(fd) == 0, "%s: %m", path);
}

static void check_announces(const char *name, bool expected)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", tree, name);
	CHECK((hwa_manner_of(AT_FDCWD, path) < HWA_SILENT) == expected, "%s", name);
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	CHECK(fd < 0 || (hwa_manner_of(fd, "") < HWA_SILENT) == expected, "%s by its descriptor", name);
	close(fd);
}

static void complains(const char *name, bool expected)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", tree, name);
	CHECK((hwa_manner_of(AT_FDCWD, path) == HWA_COMPLAINS) == expected, "%s", name);
}

static void programs(void)
{
	const char *glibc = "/lib64/ld-linux-x86-64.so.2";
	make_program("plain", glibc, "GNU", 700);
	make_program("far", glibc, "GNU", 5000);
	make_program("go", glibc, "Go", 700);
	make_program("far-go", glibc, "Go", 5000);
	make_program("other-loader", "/lib/ld-musl-x86_64.so.1", "GNU", 700);
	make_program("class", glibc, "GNU", 700);
	run("printf '\\001' | dd of=class bs=1 seek=4 conv=notrunc 2> /dev/null; mkfifo fifo; echo text > text; chmod 755 text; "
	    "cp go not-executable; chmod 644 not-executable; ln -s go link-to-go; ln -s absent dangling");
	run("for p in plain go; do printf \"#!$PWD/$p\\n\" > by-$p; printf \"#! $PWD/by-$p  x\\n\" > by-by-$p; done; chmod 755 by-*");
	check_announces("plain", true);
	check_announces("far", true);
	check_announces("go", false);
	check_announces("far-go", false);
	check_announces("other-loader", false);
	check_announces("class", false);
	run("cp plain valgrind; printf '#!%s/plain\n' \"$PWD\" > valgrind.bin; chmod 755 valgrind.bin; cp text other-valgrind");
	complains("valgrind", true);
	complains("valgrind.bin", true);
	complains("class", true);
	complains("go", false);
	check_announces("other-valgrind", true);
	check_announces("text", true);
	check_announces("not-executable", true);
	check_announces("link-to-go", false);
	check_announces("by-plain", true);
	check_announces("by-go", false);
	check_announces("by-by-plain", true);
	check_announces("by-by-go", false);
	for (const char *const *name = (const char *const[]){"absent", "dangling", "fifo", ".", "plain/x", NULL}; *name;
		name++)
		check_announces(*name, true);
	if (geteuid() != 0)
		return;
	run("cp plain owner; chown 1 owner; chmod 4755 owner; cp plain group; chgrp 1 group; chmod 2755 group; cp plain own; chmod 4755 own");
	check_announces("owner", false);
	check_announces("group", false);
	check_announces("own", true);
}

int main(void)
{
	make_work_directory();
	snprintf(tree, sizeof tree, "%s/tree", work_directory);
	CHECK(mkdir(tree, 0755) == 0, "%m");
	run("mkdir moved dir other another; for f in file moved/file mode other/file another/file; do echo text > $f; done; ln -s another link");
	run("mkdir -p ../store$PWD && rm -r ../store$PWD");
	in_child(compared);
	run("mv away moved; rm -rf ../store dir/new; mkdir -p ../store$PWD && rmdir ../store$PWD");
	in_child(elsewhere);
	run("rm -rf ../store; mkdir -p ../store$PWD && rmdir ../store$PWD");
	in_child(believed);
	programs();
	return 0;
}
