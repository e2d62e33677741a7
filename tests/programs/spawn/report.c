/* Prints all that a process can see of itself and that should not depend on how it was started.
 *
 * `report exit N`, `report signal N`, `report work` exit so, end by that signal, or work instead. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A constructor's observations. */
static char early[1 << 16];

__attribute__((constructor)) static void check_early(int argc, char **argv, char **envp)
{
	size_t at = 0;
	(void)argc, (void)argv;
	for (; *envp && at + strlen(*envp) + 2 < sizeof early; envp++)
		at += (size_t)sprintf(early + at, "%s\n", *envp);
}

__attribute__((destructor)) static void at_the_end(void)
{
	puts("destructor");
}

static void first_handler(void)
{
	puts("atexit: registered first");
}

static void second_handler(void)
{
	puts("atexit: registered second");
}

static void print_file(const char *path)
{
	static char text[1 << 21];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got, all = 0;

	while ((got = read(fd, text + all, sizeof text - 1 - (size_t)all)) > 0)
		all += got;
	close(fd);
	for (ssize_t i = 0; i < all; i++)
		text[i] = text[i] ? text[i] : '\n';
	text[all] = 0;
	printf("%s: %zd bytes\n%s", path, all, text);
}

static void print_status(void)
{
	static const char *const names[] = {"Name", "Umask", "State", "Uid", "Gid", "Groups", "NStgid", "NSsid",
		"NSpgid", "Threads", "Sig", "Shd", "Cap", "NoNewPrivs", "Seccomp", "Speculation", "Cpus_allowed",
		"Mems_allowed", "TracerPid", "THP_enabled"};
	char line[4096];
	FILE *status = fopen("/proc/self/status", "re");

	while (fgets(line, sizeof line, status))
		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
			if (!strncmp(line, names[i], strlen(names[i])) && strncmp(line, "SigQ", 4) &&
				strncmp(line, "SigIgn", 6))
				fputs(line, stdout);
			else if (!strncmp(line, "SigIgn:", 7) && i == 0)
				/* glibc's posix_spawn leaves its own two signals ignored, whatever they were. */
				printf("SigIgn: %llx\n", strtoull(line + 7, NULL, 16) & ~0x180000000ull);
	fclose(status);
}

static void print_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;

	while ((entry = readdir(directory))) {
		char target[4096];
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(directory))
			continue;
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
		target[length > 0 ? length : 0] = 0;
		printf("descriptor %d: %s flags %x status %x", fd, target, fcntl(fd, F_GETFD), fcntl(fd, F_GETFL));
		printf(" offset %s\n", fd == 1 ? "-" : lseek(fd, 0, SEEK_CUR) < 0 ? "none" : "some");
	}
	closedir(directory);
}

static void print_signals(void)
{
	sigset_t blocked, pending;
	struct sigaction action;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	sigpending(&pending);
	for (int number = 1; number < 65; number++) {
		if (sigaction(number, NULL, &action))
			continue;
		printf("signal %d: %s%s%s flags %x\n", number,
			action.sa_handler == SIG_DFL           ? "default"
				: action.sa_handler == SIG_IGN ? "ignored"
							       : "handled",
			sigismember(&blocked, number) == 1 ? " blocked" : "",
			sigismember(&pending, number) == 1 ? " pending" : "", (unsigned)action.sa_flags & ~0x04000000u);
	}
}

static void print_numbers(void)
{
	char link[64] = "";
	cpu_set_t mask;
	struct itimerval timer;
	stack_t stack;

	if (readlink("/proc/self", link, sizeof link - 1) < 0)
		exit(98);
	printf("numbers agree: %d %d %d %d\n", getpid() == gettid(), getpid() == syscall(SYS_getpid),
		getpid() == syscall(SYS_gettid), getpid() == atoi(link));
	printf("parent %d group %d%s session %d\n", getppid(), getpgrp() == getpid() ? 0 : getpgrp(),
		getpgrp() == getpid() ? " own" : "", getsid(0) == getpid() ? 0 : getsid(0));
	printf("nice %d scheduler %d\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
	sched_getaffinity(0, sizeof mask, &mask);
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &mask))
			printf("core %d\n", core);
	getitimer(ITIMER_REAL, &timer);
	sigaltstack(NULL, &stack);
	printf("timer %ld stack %x\n", (long)timer.it_value.tv_sec, (unsigned)stack.ss_flags);
	mode_t mask_of_files = umask(0);
	umask(mask_of_files);
	printf("umask %o\n", mask_of_files);
	for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
		struct rlimit limit;
		getrlimit((__rlimit_resource_t)resource, &limit);
		printf("limit %d: %lx %lx\n", resource, (long)limit.rlim_cur, (long)limit.rlim_max);
	}
}

static void print_all(int argc, char **argv)
{
	char path[4096];

	for (int i = 0; i < argc; i++)
		printf("argument %d: %s\n", i, argv[i]);
	printf("ends: %d\nname %s, %s\n", argv[argc] == NULL, program_invocation_name, program_invocation_short_name);
	for (char **entry = environ; *entry; entry++)
		printf("variable %s\n", *entry);
	printf("a constructor saw:\n%s", early);
	print_file("/proc/self/cmdline");
	print_file("/proc/self/environ");
	print_file("/proc/self/comm");
	print_file("/proc/self/limits");
	print_file("/proc/self/cgroup");
	print_file("/proc/self/oom_score_adj");
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
	path[length > 0 ? length : 0] = 0;
	printf("exe %s cwd %s\n", path, getcwd(path + length + 1, sizeof path - (size_t)length - 1));
	print_numbers();
	print_status();
	print_descriptors();
	print_signals();
	printf("errno %d\n", errno);
}

static int forks;

static void count_fork(void)
{
	forks++;
}

static void *add_up(void *lock)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(lock);
		++*(int *)((pthread_mutex_t *)lock + 1);
		pthread_mutex_unlock(lock);
	}
	return NULL;
}

static void *die_holding(void *lock)
{
	pthread_mutex_lock(lock);
	return NULL;
}

/* Threads, locks, forks, memory, streams, libraries, other programs. */
static void work(void)
{
	struct {
		pthread_mutex_t lock;
		int sum;
	} shared = {PTHREAD_MUTEX_INITIALIZER, 0};
	pthread_t threads[8];
	pthread_mutexattr_t robust;
	pthread_mutex_t lock;
	int status;

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, add_up, &shared);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("threads: %d\n", shared.sum);
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&lock, &robust);
	pthread_create(&threads[0], NULL, die_holding, &lock);
	pthread_join(threads[0], NULL);
	printf("robust: %d\n", pthread_mutex_lock(&lock) == EOWNERDEAD && pthread_mutex_consistent(&lock) == 0);
	pthread_mutex_unlock(&lock);
	pthread_atfork(count_fork, count_fork, count_fork);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(getpid() == gettid() && forks == 2 ? 7 : 8);
	printf("fork: %d\n", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 && forks == 2);
	printf("no more children: %d\n", wait(NULL) == -1 && errno == ECHILD);
	for (size_t i = 1; i < 100000; i *= 3)
		free(memset(malloc(i), 1, i));
	void *library = dlopen("libm.so.6", RTLD_NOW);
	double (*root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : NULL;
	printf("library: %d\n", root && root(9) == 3);
	char line[64] = "";
	FILE *pipe = popen("echo from a pipe", "r");
	printf("popen: %d %s", pipe && fgets(line, sizeof line, pipe) && pclose(pipe) == 0, line);
	fflush(stdout);
	printf("system: %d\n", WEXITSTATUS(system("exit 5")));
	pthread_t self = pthread_self();
	printf("kill: %d\n", pthread_kill(self, 0));
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "exit"))
		return atoi(argv[2]);
	if (argc > 2 && !strcmp(argv[1], "signal")) {
		signal(atoi(argv[2]), SIG_DFL);
		raise(atoi(argv[2]));
		return 97;
	}
	atexit(first_handler);
	atexit(second_handler);
	if (argc > 1 && !strcmp(argv[1], "work"))
		work();
	else
		print_all(argc, argv);
	return 0;
}
