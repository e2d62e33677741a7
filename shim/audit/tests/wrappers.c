/* sources: table.c path.c resolve.c request.c sys.c exec.c program.c view.c wrap/bare.c wrap/calls.c wrap/copies.c wrap/dir.c wrap/dl.c wrap/exec.c wrap/link.c wrap/lock.c wrap/number.c wrap/open.c wrap/scan.c wrap/stat.c wrap/view.c wrap/watch.c wrap/wrappers.c wrap/write.c */
/* The wrappers called as functions, beside libc's own: the same results, in buffers of exactly the
 * room that was promised. What needs a process of its own is in wrap/. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include "check.h"
#include "shim.h"
#include "wrap/show.h"

#define SLOT 2
#define WRAPPED(name) ((__typeof__(&name))hwa_wrappers[HWA_FN_##name][SLOT])

struct hwa_namespace hwa_namespaces[HWA_NAMESPACES];
static char tree[80], store[80];

bool hwa_original_origin(const struct link_map *map, char *out)
{
	(void)map, (void)out;
	return false;
}

char **hwa_environment(const struct hwa_namespace *ns)
{
	(void)ns;
	return environ;
}

static void fill_namespace(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	CHECK(libc, "%s", dlerror());
	hwa_namespaces[SLOT].errno_location = (int *(*)(void))dlsym(libc, "__errno_location");
#define FUNCTION(name) hwa_namespaces[SLOT].real[HWA_FN_##name] = dlsym(libc, #name);
#include "functions.def"
#undef FUNCTION
}

static void prepare(void)
{
	char command[1024], table[80], variable[128];
	snprintf(tree, sizeof tree, "%s/tree", work_directory);
	snprintf(store, sizeof store, "%s/store", work_directory);
	snprintf(table, sizeof table, "%s/table", work_directory);
	const char *slash = strrchr(__FILE__, '/');
	snprintf(command, sizeof command, "PROGRAM=/bin/sh sh '%.*s/wrap/fixture.sh' %s && mkdir -p %s%s && rmdir %s%s",
		(int)(slash - __FILE__), __FILE__, tree, store, tree, store, tree);
	CHECK(system(command) == 0, "%s", command);
	snprintf(command, sizeof command, "store %s\nscope + %s\ntree %s\n", store, tree, tree);
	make_table(table, command);
	snprintf(variable, sizeof variable, "HEADWATER_TABLE=%s", table);
	hwa_attach((char *[]){variable, NULL});
	CHECK(hwa_attached(), "%s", table);
}

/* Both calls have failed with the same error, or neither has, and then without a trace on errno. */
static bool same_error(const char *call, const char *path, bool failed, int error, bool plain_failed, int plain_error)
{
	CHECK(failed == plain_failed && (!failed || error == plain_error), "%s(%s) gives %s, not %s", call, path,
		failed ? strerror(error) : "success", plain_failed ? strerror(plain_error) : "success");
	CHECK(failed || error == 4444, "%s(%s) changes errno to %d", call, path, error);
	return !failed;
}

/* Sets up `result` and `plain` by the wrapper's call and libc's. */
#define BOTH(call, path, type, wrapped_call, plain_call, is_failure) \
	MARK(); \
	type result = wrapped_call; \
	int result_error = errno; \
	MARK(); \
	type plain = plain_call; \
	int plain_error = errno; \
	bool good = same_error(call, path, result is_failure, result_error, plain is_failure, plain_error)

static void stats(const char *path)
{
	struct stat wrapped_st = {0}, plain_st = {0};
	BOTH("stat", path, int, WRAPPED(stat)(path, &wrapped_st), stat(path, &plain_st), < 0);
	plain_st.st_atim = wrapped_st.st_atim;
	CHECK(!good || memcmp(&wrapped_st, &plain_st, sizeof plain_st) == 0, "%s", path);
}

static void accesses(const char *path, int mode)
{
	BOTH("access", path, int, WRAPPED(access)(path, mode), access(path, mode), < 0);
	(void)good;
}

static void opens(const char *path)
{
	char bytes[2][8192];
	struct stat wrapped_st, plain_st;
	BOTH("open", path, int, WRAPPED(open)(path, O_RDONLY | O_NONBLOCK), open(path, O_RDONLY | O_NONBLOCK), < 0);
	if (!good)
		return;
	CHECK(WRAPPED(fstat)(result, &wrapped_st) == 0 && fstat(plain, &plain_st) == 0, "%s", path);
	CHECK(wrapped_st.st_ino == plain_st.st_ino && wrapped_st.st_dev == plain_st.st_dev, "%s", path);
	ssize_t count = read(result, bytes[0], sizeof bytes[0]), plain_count = read(plain, bytes[1], sizeof bytes[1]);
	CHECK(count == plain_count && (count <= 0 || memcmp(bytes[0], bytes[1], (size_t)count) == 0), "%s", path);
	close(result);
	close(plain);
}

static void links(const char *path)
{
	for (size_t room = 1; room <= 128; room += room < 16 ? 1 : 56) {
		char *wrapped_target = malloc(room), *plain_target = malloc(room);
		BOTH("readlink", path, ssize_t, WRAPPED(readlink)(path, wrapped_target, room),
			readlink(path, plain_target, room), < 0);
		CHECK(!good || (result == plain && memcmp(wrapped_target, plain_target, (size_t)plain) == 0), "%s",
			path);
		free(wrapped_target);
		free(plain_target);
	}
	char *wrapped_path = WRAPPED(realpath)(path, NULL), *plain_path = realpath(path, NULL);
	CHECK(!wrapped_path == !plain_path && (!plain_path || strcmp(wrapped_path, plain_path) == 0), "%s: %s", path,
		wrapped_path);
	free(wrapped_path);
	free(plain_path);
}

static void directories(const char *path)
{
	struct dirent **wrapped_names, **plain_names;
	BOTH("scandir", path, int, WRAPPED(scandir)(path, &wrapped_names, NULL, alphasort),
		scandir(path, &plain_names, NULL, alphasort), < 0);
	if (!good)
		return;
	CHECK(result == plain, "%s has %d names, not %d", path, result, plain);
	DIR *dir = WRAPPED(opendir)(path);
	CHECK(dir, "%s: %m", path);
	for (int i = 0; i < plain; i++) {
		CHECK(strcmp(wrapped_names[i]->d_name, plain_names[i]->d_name) == 0, "%s", path);
		CHECK(WRAPPED(readdir)(dir), "%s has too few entries", path);
		free(wrapped_names[i]);
		free(plain_names[i]);
	}
	free(wrapped_names);
	free(plain_names);
	CHECK(!WRAPPED(readdir)(dir), "%s has too many entries", path);
	struct stat st;
	CHECK(fstat(WRAPPED(dirfd)(dir), &st) == 0 && S_ISDIR(st.st_mode), "%s", path);
	CHECK(WRAPPED(closedir)(dir) == 0, "%s", path);
}

/* What execve of `name` is turned into: the store's copy of a file of the tree, or a system's file if
 * it begins with a slash, and the arguments, those of the tree without its path; NULL if it is left
 * alone. */
static void execs(const char *name, const char *file, const char *arguments)
{
	char joined[1024] = "", expected[1024], *argv[] = {"zero", "one", NULL};
	char **given = malloc(5 * sizeof *given);
	HWA_EXEC(exec);
	const char *path = join(tree, name);
	enum hwa_answer answer = hwa_exec_resolve(AT_FDCWD, path, argv, &exec);
	if (answer == HWA_KNOWN && exec.interpreter)
		hwa_exec_arguments(&exec, path, argv, given);
	else
		memcpy(given, argv, sizeof argv);
	CHECK(answer == (file ? HWA_KNOWN : HWA_ORIGINAL), "%s gives %d", path, answer);
	if (file) {
		snprintf(expected, sizeof expected, *file == '/' ? "%.0s%.0s%s" : "%s%s/%s", store, tree, file);
		CHECK(strcmp(exec.file, expected) == 0, "%s becomes %s, not %s", path, exec.file, expected);
		for (char **argument = given; *argument; argument++) {
			bool inside = strncmp(*argument, tree, strlen(tree)) == 0;
			strcat(joined, argument == given ? "" : "|");
			strcat(joined, *argument + (inside ? strlen(tree) + 1 : 0));
		}
		CHECK(strcmp(joined, arguments) == 0, "%s gets %s, not %s", path, joined, arguments);
	}
	free(given);
}

/* A script with this first line, which the kernel runs or refuses. */
static void script(const char *line, size_t bytes, const char *file, const char *arguments)
{
	char copy[sizeof store + sizeof tree + 16];
	snprintf(copy, sizeof copy, "%s%s/bin/script", store, tree);
	FILE *out = fopen(copy, "w");
	CHECK(out && fwrite(line, 1, bytes, out) == bytes && fclose(out) == 0, "%m");
	execs("bin/script", file, arguments);
}

static void scripts(void)
{
	char line[400];
#define SCRIPT(line, file, arguments) script(line, sizeof(line) - 1, file, arguments)
	SCRIPT("#!/bin/sh\n", "/bin/sh", "/bin/sh|bin/script|one");
	SCRIPT("#!/bin/sh", "/bin/sh", "/bin/sh|bin/script|one");
	SCRIPT("#! \t/bin/sh \t\n", "/bin/sh", "/bin/sh|bin/script|one");
	SCRIPT("#!/bin/sh  a b\t c \nx", "/bin/sh", "/bin/sh|a b\t c|bin/script|one");
	SCRIPT("#!/bin/sh\0a\n", "/bin/sh", "/bin/sh|bin/script|one");
	SCRIPT("#!", NULL, NULL);
	SCRIPT("#!\n", NULL, NULL);
	SCRIPT("#!   \n", NULL, NULL);
	SCRIPT("#!sh\n", NULL, NULL);
	SCRIPT("", NULL, NULL);
	SCRIPT("#", NULL, NULL);
	SCRIPT("echo\n", NULL, NULL);
	for (size_t bytes = 250; bytes < 260; bytes++) {
		memset(line, 'x', sizeof line);
		memcpy(line, "#!/bin/sh ", 10);
		line[bytes] = '\n';
		char arguments[400];
		snprintf(arguments, sizeof arguments, "/bin/sh|%.*s|bin/script|one", (int)bytes - 10, line + 10);
		script(line, sizeof line, bytes < 255 ? "/bin/sh" : NULL, arguments);
	}
	/* An interpreter in the tree. */
	snprintf(line, sizeof line, "#!%s/bin/program x\n", tree);
	script(line, strlen(line), "bin/program", "bin/program|x|bin/script|one");
	snprintf(line, sizeof line, "#!%s/bin/absent\n", tree);
	script(line, strlen(line), NULL, NULL);
}

int main(void)
{
	make_work_directory();
	fill_namespace();
	prepare();
	for (size_t i = 0; i < NAME_COUNT; i++) {
		const char *path = join(tree, NAMES[i]);
		stats(path);
		for (int mode = 0; mode < 8; mode++)
			accesses(path, mode);
		opens(path);
		links(path);
		directories(path);
	}
	execs("bin/program", "bin/program", "zero|one");
	execs("bin/alias", "bin/program", "zero|one");
	execs("bin/suid", NULL, NULL);
	execs("bin/forbidden", NULL, NULL);
	execs("bin", NULL, NULL);
	execs("plain", NULL, NULL);
	scripts();
	return 0;
}
