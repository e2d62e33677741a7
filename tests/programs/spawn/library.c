/* A library whose constructor does what NAME selects, for programs with an unusual start. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* To the loader it may also be a library that audits it. */
unsigned la_version(unsigned version)
{
	return version;
}

static void *idle(void *unused)
{
	pause();
	return unused;
}

__attribute__((constructor)) static void misbehave(void)
{
	const char *what = WHAT;
	pthread_t thread;
	struct itimerval timer = {.it_value.tv_sec = 1000};
	int done = 0;

	if (!strcmp(what, "thread"))
		done = pthread_create(&thread, NULL, idle, NULL);
	if (!strcmp(what, "socket"))
		done = socket(AF_INET, SOCK_STREAM, 0) < 0;
	if (!strcmp(what, "file"))
		done = open("/etc/passwd", O_RDONLY) < 0;
	if (!strcmp(what, "memory"))
		done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
	if (!strcmp(what, "close"))
		done = close(0);
	if (!strcmp(what, "variable"))
		done = setenv("BY_CONSTRUCTOR", "1", 1);
	if (!strcmp(what, "umask"))
		umask(0111);
	if (!strcmp(what, "directory"))
		done = chdir("/usr");
	if (!strcmp(what, "timer"))
		done = setitimer(ITIMER_REAL, &timer, NULL);
	if (!strcmp(what, "crash"))
		abort();
	if (!strcmp(what, "exit"))
		_exit(3);
	if (!strcmp(what, "block"))
		pause();
	if (done)
		_exit(96);
}
