/* The operations of a process that take several calls, or another process. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../older.h"
#include "worker.h"

/* The root, so that absolute paths are reported as in another directory. */
static const char *without_root(const char *path)
{
	static char root[4096];
	const char *found = strstr(path, "/tree");
	(void)root;
	return found ? found : path;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *path, char *result)
{
	char *names[512];
	size_t count = 0;
	struct dirent *entry;
	DIR *dir = opendir(path);
	report(result, "%s", outcome(dir ? 0 : -1));
	if (!dir)
		return;
	while ((entry = readdir(dir)) && count < 512)
		if (asprintf(&names[count], "%s:%d", entry->d_name, entry->d_type) > 0)
			count++;
	closedir(dir);
	qsort(names, count, sizeof *names, by_name);
	for (size_t n = 0; n < count; n++) {
		report(result, " %s", names[n]);
		free(names[n]);
	}
}

/* Reads a directory that stays open, from its start or on. */
static void directory(char **word, char *result)
{
	static DIR *dirs[DIRS];
	DIR **dir = &dirs[atoi(word[1]) % DIRS];
	if (!strcmp(word[0], "opendir")) {
		if (*dir)
			closedir(*dir);
		*dir = opendir(word[2]);
		report(result, "%s", outcome(*dir ? 0 : -1));
		return;
	}
	if (!*dir) {
		report(result, "none");
		return;
	}
	rewinddir(*dir);
	char *names[512];
	size_t count = 0;
	struct dirent *entry;
	while ((entry = readdir(*dir)) && count < 512)
		names[count++] = strdup(entry->d_name);
	qsort(names, count, sizeof *names, by_name);
	for (size_t n = 0; n < count; n++) {
		report(result, " %s", names[n]);
		free(names[n]);
	}
}

static void whole(const char *path, char *result)
{
	static char buffer[1 << 20];
	FILE *stream = fopen(path, "re");
	report(result, "%s", outcome(stream ? 0 : -1));
	if (!stream)
		return;
	size_t size = fread(buffer, 1, sizeof buffer, stream);
	if (ferror(stream))
		report(result, " %s", strerrorname_np(errno));
	fclose(stream);
	report(result, " %zu %x", size, sum(buffer, size));
}

/* The output of a program that is started for it. */
static void command(char **word, char *result)
{
	static char text[1 << 16], output[1 << 16];
	if (!strcmp(word[0], "cat"))
		snprintf(text, sizeof text, "cat %s 2>&1 | cksum; stat -c '%%s %%a %%h' %s 2>&1 | cksum", word[1],
			word[1]);
	else if (!strcmp(word[0], "cp"))
		snprintf(text, sizeof text, "cp -p %s %s 2>/dev/null; echo $?", word[1], word[2]);
	else if (!strcmp(word[0], "find"))
		snprintf(text, sizeof text, "find %s -printf '%%P %%y %%l ' 2>/dev/null | tr ' ' '\\n' | sort | cksum",
			word[1]);
	else
		snprintf(text, sizeof text, "(printf '#!/bin/sh\\necho %s\\n' > %s && chmod 755 %s && ./%s) 2>&1",
			word[2], word[1], word[1], word[1]);
	FILE *stream = popen(text, "r");
	if (!stream)
		return;
	size_t size = fread(output, 1, sizeof output - 1, stream);
	pclose(stream);
	for (size_t n = 0; n < size; n++)
		output[n] = output[n] == '\n' ? ';' : output[n];
	output[size] = 0;
	report(result, "%.200s", output);
}

/* A descriptor is sent to another process, or received from one. */
static void pass(char **word, char *result)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)], byte = 'x';
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	static int socket_fd = -1;
	int fd = file_at(word[1]);
	/* An abstract name, which is this run's. */
	snprintf(path, sizeof path, "%d.several", (int)getppid());
	memcpy(address.sun_path + 1, path, strlen(path));
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path));
	if (!strcmp(word[0], "await")) {
		socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		report(result, "%s", outcome(bind(socket_fd, (struct sockaddr *)&address, size)));
	} else if (!strcmp(word[0], "send")) {
		int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		message.msg_name = &address;
		message.msg_namelen = size;
		*header = (struct cmsghdr){
			.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
		memcpy(CMSG_DATA(header), &fd, sizeof fd);
		report(result, "%s", outcome(sendmsg(from, &message, 0)));
		close(from);
	} else {
		ssize_t done = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		report(result, "%s", outcome(done));
		if (done > 0 && CMSG_FIRSTHDR(&message)) {
			memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
			set_file(word[1], fd);
		}
		if (socket_fd >= 0)
			close(socket_fd);
		socket_fd = -1;
	}
}

/* From one descriptor to another: by the kernel, or by a descriptor's name in /proc. */
static int between(char **word, char *result)
{
	static char buffer[1 << 16];
	char path[64];
	const char *name = word[0];
	if (!strcmp(name, "sendfile") || !strcmp(name, "copy")) {
		off_t at = atol(word[3]);
		size_t size = strtoul(word[4], NULL, 10);
		ssize_t done = *name == 's' ? sendfile(file_at(word[2]), file_at(word[1]), &at, size)
					    : copy_file_range(file_at(word[1]), &at, file_at(word[2]), NULL, size, 0);
		report(result, "%s %zd", outcome(done), done);
	} else if (!strcmp(name, "dup")) {
		int fd = fcntl(file_at(word[1]), F_DUPFD_CLOEXEC, 0);
		report(result, "%s", outcome(fd));
		set_file(word[2], fd);
	} else if (!strcmp(name, "reopen") || !strcmp(name, "reopen-pread")) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", file_at(word[1]));
		int is_read = name[6] != 0, fd = open(path, is_read ? O_RDONLY | O_CLOEXEC : flags_of(word[3]));
		report(result, "%s", outcome(fd));
		if (is_read && fd >= 0) {
			ssize_t size = pread(fd, buffer, sizeof buffer, 0);
			report(result, " %zd %x", size, size > 0 ? sum(buffer, (size_t)size) : 0);
			close(fd);
		} else if (!is_read) {
			set_file(word[2], fd);
		}
	} else {
		return 0;
	}
	return 1;
}

static int names(char **word, char *result)
{
	char text[4096];
	const char *name = word[0];
	if (!strcmp(name, "readlink")) {
		ssize_t size = readlink(word[1], text, sizeof text - 1);
		text[size > 0 ? size : 0] = 0;
		report(result, "%s %s", outcome(size), without_root(text));
	} else if (!strcmp(name, "realpath")) {
		char *path = realpath(word[1], text);
		report(result, "%s %s", outcome(path ? 0 : -1), path ? without_root(path) : "");
	} else if (!strcmp(name, "getcwd")) {
		char *path = getcwd(text, sizeof text);
		report(result, "%s %s", outcome(path ? 0 : -1), path ? without_root(path) : "");
	} else if (!strcmp(name, "glob")) {
		glob_t found = {0};
		report(result, "%d", glob(word[1], 0, NULL, &found));
		for (size_t n = 0; n < found.gl_pathc; n++)
			report(result, " %s", without_root(found.gl_pathv[n]));
		globfree(&found);
	} else if (!strcmp(name, "time")) {
		struct timespec times[2] = {
			{.tv_sec = 1000000000}, {.tv_sec = 1000000000 + atol(word[2]), .tv_nsec = 7}};
		report(result, "%s", outcome(utimensat(AT_FDCWD, word[1], times, 0)));
	} else if (!strcmp(name, "punch")) {
		report(result, "%s",
			outcome(fallocate(file_at(word[1]), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, atol(word[2]),
				atol(word[3]))));
	} else if (!strcmp(name, "lock")) {
		struct flock lock = {.l_type = (short)atoi(word[2]), .l_whence = SEEK_SET, .l_len = 100};
		report(result, "%s", outcome(fcntl(file_at(word[1]), F_SETLK, &lock)));
	} else {
		return 0;
	}
	return 1;
}

int execute_more(char **word, char *result)
{
	const char *name = word[0];
	if (names(word, result) || between(word, result))
		return 1;
	if (!strcmp(name, "list"))
		list(word[1], result);
	else if (!strcmp(name, "opendir") || !strcmp(name, "names"))
		directory(word, result);
	else if (!strcmp(name, "whole"))
		whole(word[1], result);
	else if (!strcmp(name, "cat") || !strcmp(name, "cp") || !strcmp(name, "find") || !strcmp(name, "script"))
		command(word, result);
	else if (!strcmp(name, "await") || !strcmp(name, "send") || !strcmp(name, "take"))
		pass(word, result);
	else
		return 0;
	return 1;
}
