/* Starts the same files by every call, and prints how each start ended. exec DIR: DIR contains the files, and is in
 * PATH as the last of three. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "older.h"

extern char **environ;
static char *bare[] = {NULL};

static char *argv_of(const char *name, char **argv)
{
	argv[0] = (char *)name;
	argv[1] = "one";
	argv[2] = "";
	argv[3] = "three words here";
	argv[4] = NULL;
	return argv[0];
}

/* The call in a child; returns only if it failed. */
static void start(int how, const char *path, const char *name)
{
	char *argv[5];
	argv_of(name, argv);
	int fd;
	switch (how) {
	case 0:
		execve(path, argv, environ);
		break;
	case 1:
		execve(path, argv, bare);
		break;
	case 2:
		execv(path, argv);
		break;
	case 3:
		execl(path, name, "one", "", "three words here", (char *)NULL);
		break;
	case 4:
		execle(path, name, "one", "", "three words here", (char *)NULL, environ);
		break;
	case 5:
		execvp(name, argv);
		break;
	case 6:
		execlp(name, name, "one", "", "three words here", (char *)NULL);
		break;
	case 7:
		execvpe(name, argv, environ);
		break;
	case 8:
		execvp(path, argv);
		break;
	case 9:
		fd = open(path, O_RDONLY | O_CLOEXEC);
		fexecve(fd, argv, environ);
		break;
	case 10:
		execveat(AT_FDCWD, path, argv, environ, 0);
		break;
	case 11:
		execveat(AT_FDCWD, path, argv, environ, AT_SYMLINK_NOFOLLOW);
		break;
	}
}

static void report(const char *how, const char *name, pid_t pid)
{
	int status = -1;
	waitpid(pid, &status, 0);
	if (WIFEXITED(status))
		printf("%s %s: %d %s\n", how, name, WEXITSTATUS(status),
			WEXITSTATUS(status) >= 100 ? strerrorname_np(WEXITSTATUS(status) - 100) : "");
	else
		printf("%s %s: signal %d\n", how, name, WTERMSIG(status));
	fflush(stdout);
}

static void spawn(const char *path, const char *name, int by_name)
{
	char *argv[5];
	pid_t pid;
	argv_of(name, argv);
	int error = by_name ? posix_spawnp(&pid, name, NULL, NULL, argv, environ)
			    : posix_spawn(&pid, path, NULL, NULL, argv, environ);
	if (error)
		printf("spawn %s: %s\n", name, strerrorname_np(error));
	else
		report("spawn", name, pid);
}

int main(int argc, char **argv)
{
	(void)argc;
	static const char *names[] = {"tool", "script", "script-option", "script-nested", "script-bad", "script-none",
		"script-crlf", "readable", "executable", "unreadable", "neither", "text", "empty", "directory",
		"absent", "tool/below", "link", "dangling", "loop", "directory/tool", "shadowed", "truncated",
		"script-env", "script-dir", "script-long"};
	char path[4096], how_name[16], search[8192];
	snprintf(search, sizeof search, "%s/first:%s/second:%s:/usr/bin:/bin", argv[1], argv[1], argv[1]);
	setenv("PATH", search, 1);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", argv[1], names[i]);
		for (int how = 0; how < 12; how++) {
			pid_t pid = fork();
			if (pid == 0) {
				start(how, path, names[i]);
				_exit(100 + errno);
			}
			snprintf(how_name, sizeof how_name, "exec %d", how);
			report(how_name, names[i], pid);
		}
		spawn(path, names[i], 0);
		spawn(path, names[i], 1);
		snprintf(search, sizeof search, "%s one 2>/dev/null", names[i]);
		int status = system(search);
		printf("system %s: %d\n", names[i], WEXITSTATUS(status));
		fflush(stdout);
	}
	unsetenv("PATH");
	printf("without PATH\n");
	spawn("tool", "tool", 1);
	pid_t pid = fork();
	if (pid == 0) {
		start(5, "tool", "tool");
		_exit(100 + errno);
	}
	report("exec", "tool", pid);
	FILE *pipe = popen("/bin/echo popen", "r");
	printf("popen: %s", pipe && fgets(path, sizeof path, pipe) ? path : "failed\n");
	return pipe ? pclose(pipe) : 1;
}
