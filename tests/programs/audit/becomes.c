/* Becomes another user, and executes the program by each call in turn. becomes HOW PROGRAM: with "k" it keeps its
 * capabilities for itself, with "d" it doesn't, with "e" only its effective user is another. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../older.h"

#define USER 65533

extern char **environ;

static void become(const char *how)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	prctl(PR_SET_KEEPCAPS, *how == 'k', 0, 0, 0);
	if (*how == 'e' ? seteuid(USER) : setresuid(USER, USER, USER))
		abort();
	if (*how != 'k' || syscall(SYS_capget, &header, data))
		return;
	data[0].effective = data[0].permitted;
	if (syscall(SYS_capset, &header, data))
		abort();
}

static int spawned(int error, pid_t pid)
{
	int status = 0;
	if (!error)
		waitpid(pid, &status, 0);
	return error ? error : status;
}

/* posix_spawn, in which the new process becomes another user. */
static int spawn_reset(const char *path, char **argv)
{
	posix_spawnattr_t attributes;
	pid_t pid;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_RESETIDS);
	if (setresuid(USER, 0, 0))
		abort();
	int error = posix_spawn(&pid, path, NULL, &attributes, argv, environ);
	return spawned(error, pid);
}

static int start(int call, const char *path, char **argv)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	pid_t pid = 0;
	switch (call) {
	case 0:
		return execve(path, argv, environ);
	case 1:
		return execvp(path, argv);
	case 2:
		return execl(path, path, (char *)NULL);
	case 3:
		return fexecve(fd, argv, environ);
	case 4:
		return execveat(AT_FDCWD, path, argv, environ, 0);
	case 5:
		return execveat(AT_FDCWD, path, argv, environ, AT_SYMLINK_NOFOLLOW);
	case 6:
		return (int)syscall(SYS_execve, path, argv, environ);
	case 7:
		return (int)syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	case 8:
		return spawned(posix_spawn(&pid, path, NULL, NULL, argv, environ), pid);
	case 9:
		return spawned(posix_spawnp(&pid, path, NULL, NULL, argv, environ), pid);
	case 10:
		return system(path);
	case 11:
		unsetenv("PATH");
		return execvp("true", argv);
	case 12:
		unsetenv("PATH");
		return spawned(posix_spawnp(&pid, "true", NULL, NULL, argv, environ), pid);
	}
	return spawn_reset(path, argv);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (int call = 0; call < 14; call++) {
		pid_t child = fork();
		if (child == 0) {
			if (call < 13)
				become(argv[1]);
			_exit(start(call, argv[2], argv + 2) != 0);
		}
		printf("%s %d: %d\n", argv[1], call, spawned(0, child));
		fflush(stdout);
	}
	return 0;
}
