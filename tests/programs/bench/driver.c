/* Starts a program again and again, in turn with the session's environment and without Headwater,
 * and prints the nanoseconds from exec to main. driver RUNS PROGRAM: lines `with NS` and
 * `plain NS`; the first run of each, which warms the tables and the page cache, is left out. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static char **plain_environment(void)
{
	int count = 0;
	while (environ[count])
		count++;
	char **plain = calloc(count + 1, sizeof *plain), **end = plain;
	for (int i = 0; i < count; i++)
		if (strncmp(environ[i], "LD_AUDIT=", 9) && strncmp(environ[i], "HEADWATER_", 10) &&
			strncmp(environ[i], "GLIBC_TUNABLES=", 15))
			*end++ = environ[i];
	return plain;
}

/* Executes without the session's knowledge: it would have to check by itself from then on, as behind any program that
 * does not report its changes. */
static void execute_plain(const char *file, char **argv, char **environment)
{
#if defined(__x86_64__)
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_execve), "D"(file), "S"(argv), "d"(environment)
			 : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_execve;
	register const char *first __asm__("x0") = file;
	register char **second __asm__("x1") = argv, **third __asm__("x2") = environment;
	__asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
#endif
}

static long start(char *file, char **environment)
{
	int pipe_fds[2];
	char number[16];
	long main_ns = 0;
	char *argv[] = {file, NULL};
	if (pipe(pipe_fds))
		exit(1);
	snprintf(number, sizeof number, "%d", pipe_fds[1]);
	for (char **entry = environment; *entry; entry++)
		if (!strncmp(*entry, "BENCH_FD=", 9))
			*entry = strdup(strcat(strcpy((char[32]){0}, "BENCH_FD="), number));
	long start_ns = now_ns();
	pid_t pid = fork();
	if (pid == 0) {
		start_ns = now_ns();
		if (write(pipe_fds[1], &start_ns, sizeof start_ns) != sizeof start_ns)
			_exit(1);
		if (environment == environ)
			execve(file, argv, environment);
		else
			execute_plain(file, argv, environment);
		_exit(127);
	}
	close(pipe_fds[1]);
	int got = read(pipe_fds[0], &start_ns, sizeof start_ns) == sizeof start_ns &&
		read(pipe_fds[0], &main_ns, sizeof main_ns) == sizeof main_ns;
	close(pipe_fds[0]);
	int status;
	waitpid(pid, &status, 0);
	if (!got || status) {
		fprintf(stderr, "driver: %s: status %d\n", file, status);
		exit(1);
	}
	return main_ns - start_ns;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	setenv("BENCH_FD", "-1", 1);
	char **plain = plain_environment();
	for (int run = 0; run <= atoi(argv[1]); run++) {
		long with_ns = start(argv[2], environ), plain_ns = start(argv[2], plain);
		if (run > 0)
			printf("with %ld\nplain %ld\n", with_ns, plain_ns);
	}
	return 0;
}
