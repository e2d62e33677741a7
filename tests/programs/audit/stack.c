/* How much stack calls use: `stack DIRECTORY` makes each on a stack whose bytes are known, and prints how many have
 * changed. The directory has the files of the fixture of tests/tests/e2e/audit/stack.rs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES (256 << 10)
#define PAINT 0xa5

extern char **environ;

static const char *directory;
static char text[8192], link_path[8192], absent[8192], made[8192], program[8192], script[8192], buffer[8192];
static int opened, watcher;
static char *const arguments[] = {"name", "one", NULL};

static void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s: %m\n", what);
		exit(1);
	}
}

#define CALL(name, body) \
	static void call_##name(void) \
	{ \
		body; \
	}
CALL(open, close(open(text, O_RDONLY)))
CALL(open_link, close(open(link_path, O_RDONLY)))
CALL(open_absent, (void)!open(absent, O_RDONLY))
CALL(open_again, close(openat(AT_FDCWD, "/proc/self/fd/0", O_WRONLY)))
CALL(open_writes, close(open(made, O_WRONLY | O_CREAT, 0600)))
CALL(openat, int at = open(directory, O_RDONLY); close(openat(at, "text", O_RDONLY)); close(at))
CALL(stat, struct stat st; stat(text, &st))
CALL(lstat, struct stat st; lstat(link_path, &st))
CALL(fstat, struct stat st; fstat(opened, &st))
CALL(statx, struct statx st; statx(AT_FDCWD, text, 0, STATX_ALL, &st))
CALL(access, (void)!access(text, R_OK))
CALL(readlink, (void)!readlink(link_path, buffer, sizeof buffer))
CALL(readlink_proc, (void)!readlink("/proc/self/exe", buffer, sizeof buffer))
CALL(realpath, (void)!realpath(link_path, buffer))
CALL(realpath_proc, (void)!realpath("/proc/self/exe", buffer))
CALL(opendir, closedir(opendir(directory)))
CALL(scandir, struct dirent **list; scandir(directory, &list, NULL, NULL))
CALL(fopen, fclose(fopen(text, "r")))
CALL(fopen_writes, fclose(fopen(made, "w")))
CALL(chmod, chmod(made, 0600))
CALL(fchmod, fchmod(opened, 0644))
CALL(rename, rename(made, made))
CALL(mkdir, mkdir(absent, 0700); rmdir(absent))
CALL(symlink, (void)!symlink(text, absent); unlink(absent))
CALL(link, (void)!link(made, absent); unlink(absent))
CALL(truncate, (void)!truncate(made, 10))
CALL(utimensat, utimensat(AT_FDCWD, made, NULL, 0))
CALL(flock, flock(opened, LOCK_SH))
CALL(inotify, inotify_add_watch(watcher, text, IN_MODIFY))
CALL(chdir, (void)!chdir(directory); (void)!access("text", R_OK); (void)!chdir("/"))
CALL(dlopen, dlclose(dlopen("libm.so.6", RTLD_NOW)))
CALL(spawn, pid_t child; posix_spawn(&child, program, NULL, NULL, arguments, environ); waitpid(child, NULL, 0))
CALL(spawn_script, pid_t child; posix_spawn(&child, script, NULL, NULL, arguments, environ); waitpid(child, NULL, 0))

/* Executed in a child that shares the memory, on the painted stack. */
CALL(execve, execve(program, arguments, environ))
CALL(execv, execv(program, arguments))
CALL(execl, execl(program, "name", "one", NULL))
CALL(execvp, execvp("program", arguments))
CALL(execve_script, execve(script, arguments, environ))
CALL(execve_absent, execve(absent, arguments, environ))

static const struct call {
	const char *name;
	void (*make)(void);
	int executes;
} calls[] = {
#define ROW(name) {#name, call_##name, 0},
	ROW(open) ROW(open_link) ROW(open_absent) ROW(openat) ROW(stat) ROW(lstat) ROW(fstat) ROW(statx) ROW(access)
		ROW(readlink) ROW(readlink_proc) ROW(realpath) ROW(realpath_proc) ROW(opendir) ROW(scandir) ROW(fopen)
			ROW(chdir) ROW(dlopen) ROW(spawn) ROW(spawn_script)
#define EXECUTES(name) {#name, call_##name, 1},
				EXECUTES(execve) EXECUTES(execv) EXECUTES(execl) EXECUTES(execvp)
					EXECUTES(execve_script) EXECUTES(execve_absent) ROW(open_again) ROW(open_writes)
						ROW(fopen_writes) ROW(chmod) ROW(rename) ROW(mkdir) ROW(symlink)
							ROW(link) ROW(truncate) ROW(utimensat) ROW(inotify) ROW(fchmod)
								ROW(flock)};

static unsigned char *stack;

static int in_child(void *make)
{
	((void (*)(void))make)();
	_exit(0);
}

static void on_stack(const struct call *call)
{
	static ucontext_t here, there;

	memset(stack, PAINT, STACK_BYTES);
	if (call->executes) {
		int child = clone(in_child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)call->make);
		check(child > 0 && waitpid(child, NULL, 0) == child, "clone");
		return;
	}
	check(getcontext(&there) == 0, "getcontext");
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &here;
	makecontext(&there, call->make, 0);
	check(swapcontext(&here, &there) == 0, "swapcontext");
}

static size_t used(void)
{
	size_t clean = 0;

	while (clean < STACK_BYTES && stack[clean] == PAINT)
		clean++;
	return STACK_BYTES - clean;
}

static void name(char *out, const char *file)
{
	check(snprintf(out, sizeof text, "%s/%s", directory, file) < (int)sizeof text, "a long path");
}

int main(int count, char **values)
{
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(stack != MAP_FAILED && count == 2, "mmap");
	directory = values[1];
	name(text, "text");
	name(link_path, "link");
	name(absent, "absent");
	name(made, "made");
	name(program, "program");
	name(script, "script");
	check((watcher = inotify_init()) >= 0 && (opened = open(text, O_RDONLY)) >= 0, text);
	check(setenv("PATH", directory, 1) == 0 && setenv("LD_BIND_NOW", "1", 1) == 0, "PATH");
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		/* What is initialized once, is initialized here. */
		on_stack(&calls[i]);
		on_stack(&calls[i]);
		printf("%s %zu\n", calls[i].name, used());
		fflush(stdout);
	}
	return 0;
}
