/* A program without MPI: every kind of call that no plain stub forwards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traced.h"

static int status_of(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void programs(void)
{
	pid_t child = fork();

	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit $(($1 + $2))", "-", "20", "3", (char *)NULL);
		_exit(1);
	}
	CHECK(status_of(child) == 23);
	child = vfork();
	if (child == 0) {
		execlp("sh", "sh", "-c", "exit 24", (char *)NULL);
		_exit(1);
	}
	CHECK(status_of(child) == 24);
	volatile int is_shared = 0;
	child = vfork();
	if (child == 0) {
		is_shared = 1;
		execle("/bin/sh", "sh", "-c", "exit $X", (char *)NULL, (char *[]){"X=25", NULL});
		_exit(1);
	}
	CHECK(status_of(child) == 25 && is_shared == 1);
	CHECK(execl("/nonexistent/program", "x", (char *)NULL) == -1 && errno == ENOENT);
	CHECK(WEXITSTATUS(system("exit 26")) == 26);
}

static void variable_arguments(const char *directory)
{
	char path[4096];
	struct stat attributes;

	snprintf(path, sizeof(path), "%s/file", directory);
	umask(0);
	int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL, 0640);
	CHECK(descriptor >= 0 && fstat(descriptor, &attributes) == 0 && (attributes.st_mode & 0777) == 0640);
	int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 100);
	CHECK(copy >= 100 && write(copy, "abc", 3) == 3 && pread(descriptor, path, 3, 0) == 3 && path[1] == 'b');
	CHECK(close(copy) == 0 && close(copy) == -1 && errno == EBADF);
	char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *target = mmap(NULL, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory[1] = 'x';
	CHECK(mremap(memory, 8192, 16384, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target && target[1] == 'x');
	CHECK(munmap(target, 16384) == 0);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	signals += number == SIGUSR1;
}

static void *free_much(void *argument)
{
	for (int at = 0; at < 10000; at++)
		free(realloc(malloc(64), 640));
	return argument;
}

/* Returns true if a function is in a file of this name. */
static int is_in(void *function, const char *name)
{
	Dl_info where;

	return dladdr(function, &where) != 0 && strstr(where.dli_fname, name) != NULL;
}

static void lookups(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), *all = dlopen(NULL, RTLD_NOW);

	CHECK(libc != NULL && all != NULL);
	CHECK(is_in(dlsym(libc, "write"), "libheadwater-mpiio.so") &&
		is_in(dlsym(all, "write"), "libheadwater-mpiio.so"));
	CHECK(is_in(dlsym(libc, "getpid"), "libc.so") && is_in(dlsym(all, "getpid"), "libc.so"));
	/* The next one behind the program, not behind the library. */
	CHECK(is_in(dlsym(RTLD_NEXT, "write"), "libheadwater-mpiio.so"));
	CHECK(is_in(dlsym(RTLD_DEFAULT, "write"), "libheadwater-mpiio.so"));
	CHECK(dlsym(libc, "main") == NULL && strstr(dlerror(), "main") != NULL);
	errno = 5;
	CHECK(dlsym(libc, "read") != NULL && errno == 5 && dlerror() == NULL);
	dlclose(all);
	dlclose(libc);
}

int main(int count, char **arguments)
{
	pthread_t threads[4];

	CHECK(count == 2);
	for (int at = 0; at < 4; at++)
		CHECK(pthread_create(&threads[at], NULL, free_much, arguments) == 0);
	for (int at = 0; at < 4; at++) {
		void *result;
		CHECK(pthread_join(threads[at], &result) == 0 && result == arguments);
	}
	CHECK(signal(SIGUSR1, count_signal) == SIG_DFL && raise(SIGUSR1) == 0 && signals == 1);
	programs();
	variable_arguments(arguments[1]);
	lookups();
	return 0;
}
