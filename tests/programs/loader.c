/* Executes its arguments, one after the other, and prints the result of each. An argument is VERB or VERB=VALUE; see
 * `verbs` at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char **arguments; /* the arguments not yet done */
static void *last, *handles[64];
static int handle_count;

static void opened(const char *what, const char *name, void *handle)
{
	if (!handle) {
		printf("%s %s: %s\n", what, name, dlerror());
		return;
	}
	struct link_map *map = handle;
	int known = -1;
	for (int i = 0; i < handle_count; i++)
		if (handles[i] == handle)
			known = i;
	printf("%s %s: %s%s\n", what, name, map->l_name, known >= 0 ? " (already open)" : "");
	if (known < 0 && handle_count < 64)
		handles[handle_count++] = handle;
	last = handle;
}

static void do_open(const char *name)
{
	opened("open", name, dlopen(name, RTLD_NOW | RTLD_LOCAL));
}

static void do_lazy(const char *name)
{
	opened("lazy", name, dlopen(name, RTLD_LAZY | RTLD_GLOBAL));
}

static void do_noload(const char *name)
{
	opened("noload", name, dlopen(name, RTLD_NOW | RTLD_NOLOAD));
}

static void do_mopen(const char *name)
{
	opened("mopen", name, dlmopen(LM_ID_NEWLM, name, RTLD_NOW));
}

static void do_close(const char *unused)
{
	(void)unused;
	int status = last ? dlclose(last) : -1;
	for (int i = 0; i < handle_count; i++)
		if (handles[i] == last)
			handles[i] = NULL;
	last = NULL;
	printf("close: %d\n", status);
}

/* Calls a function of the last opened object, or of the program and its libraries. */
static void do_call(const char *name)
{
	const char *(*function)(void) = (const char *(*)(void))dlsym(last ? last : RTLD_DEFAULT, name);
	if (function)
		printf("%s() = %s\n", name, function());
	else
		printf("%s: %s\n", name, dlerror());
}

static void do_where(const char *name)
{
	Dl_info info;
	void *symbol = dlsym(last ? last : RTLD_DEFAULT, name);
	if (symbol && dladdr(symbol, &info))
		printf("%s is in %s as %s\n", name, info.dli_fname, info.dli_sname);
	else
		printf("%s is nowhere\n", name);
}

static int print_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!strstr(info->dlpi_name, "linux-vdso"))
		printf("  %s\n", info->dlpi_name);
	return 0;
}

static void do_objects(const char *unused)
{
	(void)unused;
	printf("objects:\n");
	dl_iterate_phdr(print_object, NULL);
}

static void do_links(const char *unused)
{
	(void)unused;
	struct link_map *map = dlopen(NULL, RTLD_NOW);
	printf("links:\n");
	for (; map; map = map->l_next)
		if (!strstr(map->l_name, "linux-vdso"))
			printf("  %s\n", map->l_name);
}

/* $ORIGIN of the last opened object, and where it searches. */
static void do_origin(const char *unused)
{
	(void)unused;
	char origin[PATH_MAX];
	Dl_serinfo size, *info;
	if (!last || dlinfo(last, RTLD_DI_ORIGIN, origin))
		return;
	printf("origin %s\n", origin);
	if (dlinfo(last, RTLD_DI_SERINFOSIZE, &size))
		return;
	info = malloc(size.dls_size);
	dlinfo(last, RTLD_DI_SERINFOSIZE, info);
	if (!dlinfo(last, RTLD_DI_SERINFO, info))
		for (unsigned i = 0; i < info->dls_cnt; i++)
			printf("  searches %s\n", info->dls_serpath[i].dls_name);
	free(info);
}

static void do_self(const char *unused)
{
	(void)unused;
	char path[PATH_MAX], pid_path[64];
	const char *paths[] = {"/proc/self/exe", "/proc/thread-self/exe", pid_path};
	snprintf(pid_path, sizeof pid_path, "/proc/%d/exe", getpid());
	for (int i = 0; i < 3; i++) {
		ssize_t bytes = readlink(paths[i], path, sizeof path - 1);
		path[bytes < 0 ? 0 : bytes] = 0;
		printf("exe %s\n", path);
	}
	char *real = realpath("/proc/self/exe", NULL);
	printf("real %s\n", real ? real : strerror(errno));
	free(real);
	printf("invocation %s %s\n", program_invocation_name, program_invocation_short_name);
}

static void do_execfn(const char *unused)
{
	(void)unused;
	printf("execfn %s\n", (const char *)getauxval(AT_EXECFN));
}

static void do_chdir(const char *dir)
{
	printf("chdir: %d\n", chdir(dir));
}

static void run_rest(void);

static void finish_child(const char *what, pid_t pid)
{
	int status = -1;
	waitpid(pid, &status, 0);
	printf("%s: %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status));
}

/* The next verb is done in a child, the others here. */
static void do_fork(const char *unused)
{
	(void)unused;
	fflush(stdout);
	char **rest = arguments;
	pid_t pid = fork();
	if (pid == 0) {
		if (rest[0])
			rest[1] = NULL;
		run_rest();
		exit(0);
	}
	finish_child("forked", pid);
	arguments = rest[0] ? rest + 1 : rest;
}

static void child_arguments(const char *file, char **argv)
{
	int count = 0;
	argv[count++] = (char *)file;
	for (char *copy = strdup(*arguments ? *arguments++ : ""), *word; (word = strsep(&copy, " ")) && count < 30;)
		argv[count++] = word;
	argv[count] = NULL;
}

/* VALUE is a program; the next argument contains its arguments, separated by spaces. */
static void do_exec(const char *file)
{
	char *argv[32];
	child_arguments(file, argv);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execv(file, argv);
		printf("exec %s: %s\n", file, strerror(errno));
		exit(9);
	}
	finish_child("exec", pid);
}

static void do_vfork(const char *file)
{
	char *argv[32];
	child_arguments(file, argv);
	fflush(stdout);
	volatile int error = 0;
	pid_t pid = vfork();
	if (pid == 0) {
		execve(file, argv, environ);
		error = errno;
		_exit(9);
	}
	if (error)
		printf("vfork %s: %s\n", file, strerror(error));
	finish_child("vfork", pid);
}

static void do_spawn(const char *file)
{
	char *argv[32];
	pid_t pid;
	child_arguments(file, argv);
	fflush(stdout);
	int error = posix_spawnp(&pid, file, NULL, NULL, argv, environ);
	if (error)
		printf("spawn %s: %s\n", file, strerror(error));
	else
		finish_child("spawn", pid);
}

static void *open_in_thread(void *name)
{
	void *handle = NULL;
	for (int i = 0; i < 50; i++) {
		handle = dlopen(name, RTLD_NOW);
		if (!handle)
			return strdup(dlerror());
		if (i < 49)
			dlclose(handle);
	}
	return strdup(((struct link_map *)handle)->l_name);
}

/* Eight threads open and close the object together. */
static void do_threads(const char *name)
{
	pthread_t threads[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, open_in_thread, (void *)name);
	for (int i = 0; i < 8; i++) {
		void *result;
		pthread_join(threads[i], &result);
		printf("thread: %s\n", (char *)result);
		free(result);
	}
}

/* Stops until the test lets it continue: makes FILE, waits until FILE.go is there. */
static void do_pause(const char *file)
{
	char go[PATH_MAX];
	snprintf(go, sizeof go, "%s.go", file);
	FILE *reached = fopen(file, "w");
	if (reached)
		fclose(reached);
	for (int i = 0; i < 3000 && access(go, F_OK); i++)
		usleep(10000);
}

static void do_setenv(const char *assignment)
{
	putenv((char *)assignment);
}

static void show(const char *file, const char *text)
{
	char line[8192];
	FILE *maps = fopen(file, "r");
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, text))
			fputs(line, stdout);
	if (maps)
		fclose(maps);
}

/* The kernel's list of mappings whose file's name contains this text, and where their pages are. */
static void do_mapped(const char *text)
{
	show("/proc/self/maps", text);
}

static void do_pages(const char *text)
{
	show("/proc/self/numa_maps", text);
}

static void do_stat(const char *path)
{
	struct stat by_path = {0}, by_descriptor = {0};
	int fd = open(path, O_RDONLY);
	if (stat(path, &by_path) || fstat(fd, &by_descriptor))
		printf("stat %s: %s\n", path, strerror(errno));
	close(fd);
	for (int i = 0; i < 2; i++) {
		struct stat *st = i ? &by_descriptor : &by_path;
		printf("stat %s: %lu %lu %o %ld %ld\n", path, st->st_dev, st->st_ino, st->st_mode, st->st_size,
			st->st_mtim.tv_sec);
	}
}

static void do_exit(const char *status)
{
	exit(atoi(status));
}

static void do_signal(const char *number)
{
	fflush(stdout);
	raise(atoi(number));
}

static const struct {
	const char *name;
	void (*run)(const char *);
} verbs[] = {{"open", do_open}, {"lazy", do_lazy}, {"noload", do_noload}, {"mopen", do_mopen}, {"close", do_close},
	{"call", do_call}, {"where", do_where}, {"objects", do_objects}, {"links", do_links}, {"origin", do_origin},
	{"self", do_self}, {"execfn", do_execfn}, {"chdir", do_chdir}, {"fork", do_fork}, {"exec", do_exec},
	{"vfork", do_vfork}, {"spawn", do_spawn}, {"threads", do_threads}, {"pause", do_pause}, {"setenv", do_setenv},
	{"exit", do_exit}, {"signal", do_signal}, {"mapped", do_mapped}, {"pages", do_pages}, {"stat", do_stat}};

static void run_rest(void)
{
	while (*arguments) {
		char *word = *arguments++, *value = strchr(word, '=');
		size_t bytes = value ? (size_t)(value - word) : strlen(word), i;
		for (i = 0; i < sizeof verbs / sizeof *verbs; i++)
			if (strlen(verbs[i].name) == bytes && !memcmp(verbs[i].name, word, bytes))
				break;
		if (i == sizeof verbs / sizeof *verbs) {
			printf("no such verb: %s\n", word);
			exit(2);
		}
		verbs[i].run(value ? value + 1 : "");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	arguments = argv + 1;
	run_rest();
	return 0;
}
