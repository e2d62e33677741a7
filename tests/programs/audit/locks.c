/* locks FILE: a file is opened for reading, locked by every call, and written by another process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

static void show(const char *what, int fd)
{
	char text[64] = "";
	ssize_t bytes = read(fd, text, 6);
	printf("%s: %zd '%s' at %ld, flags %x %x", what, bytes, text, (long)lseek(fd, 0, SEEK_CUR),
		(unsigned)fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_APPEND), (unsigned)fcntl(fd, F_GETFD));
	bytes = pread(fd, text, 6, 0);
	printf(", at its start '%.6s'\n", text);
}

static int lock(int method, int fd, short type, bool wait)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
	switch (method) {
	case 0:
		return fcntl(fd, wait ? F_SETLKW : F_SETLK, &lock);
	case 1:
		return fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
	default:
		return flock(fd,
			(type == F_WRLCK                  ? LOCK_EX
					: type == F_RDLCK ? LOCK_SH
							  : LOCK_UN) |
				(wait ? 0 : LOCK_NB));
	}
}

/* Another process: whether it may lock, and what it writes. */
static void other(int method, const char *text)
{
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		int fd = open(path, O_RDWR);
		int result = lock(method, fd, F_WRLCK, false);
		printf("  another process: %s\n", result ? strerror(errno) : "locked");
		if (!result && pwrite(fd, text, strlen(text), 0) < 0)
			perror(path);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void try(int method, int flags)
{
	int fd = open(path, O_RDONLY | flags);
	show("opened", fd);
	printf("lock %d: %d\n", method, lock(method, fd, F_RDLCK, method & 1));
	other(method, "never\n");
	show("locked", fd);
	lock(method, fd, F_UNLCK, false);
	char text[16];
	snprintf(text, sizeof text, "by %d..", method);
	other(method, text);
	show("unlocked", fd);
	close(fd);
}

/* This process's lock by one descriptor stays as it is when it locks by another. */
static void two(void)
{
	int first = open(path, O_RDONLY), second = open(path, O_RDONLY);
	printf("first: %d\n", lock(0, first, F_RDLCK, false));
	struct flock query = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	printf("second: %d\n", fcntl(second, F_GETLK, &query));
	other(0, "never\n");
	close(first);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	path = argv[1];
	for (int method = 0; method < 3; method++)
		try(method, method == 1 ? O_CLOEXEC | O_NONBLOCK : 0);
	two();
	return 0;
}
