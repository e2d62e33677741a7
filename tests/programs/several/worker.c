/* The operations of a process: by a call, through a descriptor, a map or a path. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../older.h"
#include "worker.h"

static struct slot {
	int fd;
	int is_used;
} files[FILES];

static struct {
	char *bytes;
	size_t size;
} maps[MAPS];

static sigjmp_buf fault;

const char *outcome(long status)
{
	return status < 0 ? strerrorname_np(errno) : "ok";
}

void report(char *result, const char *format, ...)
{
	va_list args;
	size_t used = strlen(result);
	va_start(args, format);
	vsnprintf(result + used, LINE_MAX_BYTES - 2 - used, format, args);
	va_end(args);
}

unsigned sum(const void *bytes, size_t size)
{
	unsigned all = 2166136261u;
	for (const unsigned char *b = bytes; size; size--)
		all = (all ^ *b++) * 16777619u;
	return all;
}

size_t pattern(const char *size, const char *seed, const char **bytes)
{
	static char text[1 << 20];
	size_t count = strtoul(size, NULL, 10);
	unsigned state = (unsigned)atoi(seed) * 2654435761u + 1;
	if (count > sizeof text)
		count = sizeof text;
	for (size_t n = 0; n < count; n++) {
		state = state * 1664525u + 1013904223u;
		text[n] = (char)('a' + (state >> 24) % 26);
	}
	*bytes = text;
	return count;
}

int file_at(const char *slot)
{
	const struct slot *s = &files[atoi(slot) % FILES];
	return s->is_used ? s->fd : -1;
}

void set_file(const char *slot, int fd)
{
	struct slot *s = &files[atoi(slot) % FILES];
	if (s->is_used)
		close(s->fd);
	*s = (struct slot){.fd = fd, .is_used = fd >= 0};
}

int flags_of(const char *names)
{
	static const struct {
		const char *name;
		int flag;
	} all[] = {{"ro", O_RDONLY}, {"wo", O_WRONLY}, {"rw", O_RDWR}, {"creat", O_CREAT}, {"excl", O_EXCL},
		{"trunc", O_TRUNC}, {"append", O_APPEND}, {"nofollow", O_NOFOLLOW}, {"dir", O_DIRECTORY},
		{"path", O_PATH}};
	int flags = 0;
	char copy[80];
	snprintf(copy, sizeof copy, "%s", names);
	for (char *save, *n = strtok_r(copy, "+", &save); n; n = strtok_r(NULL, "+", &save))
		for (size_t i = 0; i < sizeof all / sizeof *all; i++)
			if (!strcmp(n, all[i].name))
				flags |= all[i].flag;
	return flags | O_CLOEXEC;
}

static void on_fault(int number)
{
	siglongjmp(fault, number);
}

/* Sums a map's bytes, or writes there; a page behind the file's end raises SIGBUS. */
static void access_map(int slot, char **word, char *result, int writes)
{
	struct sigaction action = {.sa_handler = on_fault}, before;
	size_t from = strtoul(word[2], NULL, 10), size = strtoul(word[3], NULL, 10);
	if (!maps[slot].bytes || from + size > maps[slot].size) {
		report(result, "none");
		return;
	}
	sigaction(SIGBUS, &action, &before);
	if (sigsetjmp(fault, 1)) {
		report(result, "SIGBUS");
	} else if (writes) {
		const char *bytes;
		pattern(word[3], word[4], &bytes);
		memcpy(maps[slot].bytes + from, bytes, size);
		report(result, "written");
	} else {
		report(result, "%x", sum(maps[slot].bytes + from, size));
	}
	sigaction(SIGBUS, &before, NULL);
}

static void map(int slot, char **word, char *result)
{
	int fd = file_at(word[2]);
	int may_write = !strcmp(word[3], "write"), is_private = !strcmp(word[3], "private");
	size_t size = strtoul(word[4], NULL, 10);
	if (maps[slot].bytes)
		munmap(maps[slot].bytes, maps[slot].size);
	char *bytes = mmap(NULL, size, PROT_READ | (may_write ? PROT_WRITE : 0), is_private ? MAP_PRIVATE : MAP_SHARED,
		fd, 0);
	maps[slot].bytes = bytes == MAP_FAILED ? NULL : bytes;
	maps[slot].size = size;
	report(result, "%s", outcome(bytes == MAP_FAILED ? -1 : 0));
}

static void transfer(char **word, char *result)
{
	static char buffer[1 << 20];
	const char *bytes, *name = word[0];
	int fd = file_at(word[1]);
	size_t size = strtoul(word[2], NULL, 10) % sizeof buffer;
	off_t at = word[3] ? atol(word[3]) : 0;
	ssize_t done;
	if (!strcmp(name, "pread")) {
		done = pread(fd, buffer, size, at);
		report(result, "%s %zd %x", outcome(done), done, done > 0 ? sum(buffer, (size_t)done) : 0);
		return;
	}
	size = pattern(word[2], word[4], &bytes);
	done = *name == 'p' ? pwrite(fd, bytes, size, at) : write(fd, bytes, size);
	report(result, "%s %zd", outcome(done), done);
}

/* Times are reported where the plan has set them. */
static void report_stat(char *result, int status, const struct stat *s, int by_name)
{
	long seconds = s->st_mtim.tv_sec;
	report(result, "%s", outcome(status));
	if (status)
		return;
	report(result, " %o %d %d", s->st_mode, (int)s->st_uid, (int)s->st_gid);
	if (by_name)
		report(result, " %ld", (long)s->st_nlink);
	if (!S_ISDIR(s->st_mode))
		report(result, " %ld", (long)s->st_size);
	if (seconds < 1500000000)
		report(result, " at %ld.%ld", seconds, s->st_mtim.tv_nsec);
}

static int is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
		a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void stats(char **word, char *result)
{
	struct stat one = {0}, other = {0};
	const char *name = word[0];
	if (!strcmp(name, "stat"))
		report_stat(result, stat(word[1], &one), &one, 1);
	else if (!strcmp(name, "lstat"))
		report_stat(result, fstatat(AT_FDCWD, word[1], &one, AT_SYMLINK_NOFOLLOW), &one, 1);
	else if (!strcmp(name, "fstat"))
		report_stat(result, fstat(file_at(word[1]), &one), &one, 0);
	else if (fstat(file_at(word[1]), &one) || stat(word[2], &other))
		report(result, "none");
	else
		report(result, "same %d", is_same(&one, &other));
}

static void seek(char **word, char *result)
{
	const char *name = word[0];
	int whence = !strcmp(name, "end") ? SEEK_END : !strcmp(name, "hole") ? SEEK_HOLE : SEEK_SET;
	/* Directories' ends, and where a hole begins, are the file system's business. */
	struct stat s;
	if (whence != SEEK_SET && (fstat(file_at(word[1]), &s) || !S_ISREG(s.st_mode))) {
		report(result, "none");
		return;
	}
	off_t at = lseek(file_at(word[1]), whence == SEEK_END ? 0 : atol(word[2]), whence);
	report(result, "%s %ld", outcome(at), whence == SEEK_HOLE ? 0 : (long)at);
}

/* A process's operations on its descriptors and maps. */
static int by_descriptor(char **word, char *result)
{
	const char *name = word[0];
	int slot = atoi(word[1]);
	if (!strcmp(name, "open")) {
		int fd = open(word[2], flags_of(word[3]), 0640);
		report(result, "%s", outcome(fd));
		set_file(word[1], fd);
	} else if (!strcmp(name, "close")) {
		report(result, "%s", outcome(close(file_at(word[1]))));
		files[slot % FILES].is_used = 0;
	} else if (!strcmp(name, "pread") || !strcmp(name, "pwrite") || !strcmp(name, "write")) {
		transfer(word, result);
	} else if (!strcmp(name, "end") || !strcmp(name, "hole") || !strcmp(name, "seek")) {
		seek(word, result);
	} else if (!strcmp(name, "map")) {
		map(slot % MAPS, word, result);
	} else if (!strcmp(name, "peek") || !strcmp(name, "poke")) {
		access_map(slot % MAPS, word, result, *name == 'p');
	} else if (!strcmp(name, "fstat") || !strcmp(name, "same")) {
		stats(word, result);
	} else if (!strcmp(name, "ftruncate")) {
		report(result, "%s", outcome(ftruncate(file_at(word[1]), atol(word[2]))));
	} else if (!strcmp(name, "fchmod")) {
		report(result, "%s", outcome(fchmod(file_at(word[1]), (mode_t)strtol(word[2], NULL, 8))));
	} else if (!strcmp(name, "flock")) {
		report(result, "%s", outcome(flock(file_at(word[1]), atoi(word[2]))));
	} else {
		return 0;
	}
	return 1;
}

static int by_path(char **word, char *result)
{
	const char *name = word[0], *path = word[1];
	long status;
	if (!strcmp(name, "stat") || !strcmp(name, "lstat")) {
		stats(word, result);
		return 1;
	}
	if (!strcmp(name, "access"))
		status = access(path, atoi(word[2]));
	else if (!strcmp(name, "unlink"))
		status = unlink(path);
	else if (!strcmp(name, "rmdir"))
		status = rmdir(path);
	else if (!strcmp(name, "mkdir"))
		status = mkdir(path, 0750);
	else if (!strcmp(name, "rename"))
		status = rename(path, word[2]);
	else if (!strcmp(name, "exchange"))
		status = renameat2(AT_FDCWD, path, AT_FDCWD, word[2], RENAME_EXCHANGE);
	else if (!strcmp(name, "link"))
		status = link(path, word[2]);
	else if (!strcmp(name, "symlink"))
		status = symlink(path, word[2]);
	else if (!strcmp(name, "chmod"))
		status = chmod(path, (mode_t)strtol(word[2], NULL, 8));
	else if (!strcmp(name, "truncate"))
		status = truncate(path, atol(word[2]));
	else if (!strcmp(name, "chdir"))
		status = chdir(path);
	else if (!strcmp(name, "fifo"))
		status = mkfifo(path, 0600);
	else
		return 0;
	report(result, "%s", outcome(status));
	return 1;
}

void execute(char **word, char *result)
{
	static char absolute[WORDS_MAX][4096];
	static char root[2048];
	if (!*root && !getcwd(root, sizeof root))
		return;
	for (size_t n = 1; n < WORDS_MAX && word[n]; n++)
		if (word[n][0] == '%') {
			snprintf(absolute[n], sizeof absolute[n], "%s/%s", root, word[n] + 1);
			word[n] = absolute[n];
		}
	if (!by_path(word, result) && !by_descriptor(word, result) && !execute_more(word, result))
		report(result, "unknown");
}
