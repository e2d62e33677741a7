/* exec and posix_spawn: programs and scripts of the scope run from the store, under their own names.
 *
 * The wrappers run in vfork's children: the stack and system calls only. If the store's copy can't be
 * executed the original is, so the error that a program sees is the original's. */
#include "wrap.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys.h"

/* Lists of arguments are as long as the program makes them, as in libc. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstack-usage="
#endif

/* With more arguments, nothing is copied onto the stack, and scripts are left to the kernel. */
#define ARGUMENTS_MAX 1024
/* With more variables, the environment is passed unchanged. */
#define VARIABLES_MAX 4096
/* Longer names of the store's are left to the kernel, too. */
#define FILE_BYTES_MAX 448
#define SHELL "/bin/sh"
/* What libc searches without PATH. */
#define DEFAULT_PATH "/bin:/usr/bin"
#define NAME_BYTES_MAX 255

/* The process's own environment, which only libc knows. */
static char *const own_environment[1];

static const char *variable(struct hwa_namespace *ns, char *const envp[], const char *name)
{
	size_t bytes = strlen(name);
	if (envp == own_environment)
		return LIBC(getenv) ? LIBC(getenv)(name) : NULL;
	for (; envp && *envp; envp++) {
		if (strlen(*envp) > bytes && memcmp(*envp, name, bytes) == 0 && (*envp)[bytes] == '=')
			return *envp + bytes + 1;
	}
	return NULL;
}

/* Returns true if a program with this environment will be audited. Only then may it run from the store: otherwise it
 * would use the store's paths. */
static bool audited(struct hwa_namespace *ns, char *const envp[])
{
	const char *libraries = hwa_attached() && variable(ns, envp, "HEADWATER_TABLE") ? variable(ns, envp, "LD_AUDIT")
											: NULL;
	return libraries && hwa_is_audited_by(libraries);
}

/* Returns true if what is executed must run without the audit library, because only the first program is served;
 * `starts`: in a process that is yet to be made. */
static bool leaves(bool starts)
{
	return hwa_handing_on && (starts || hwa_sys(__NR_getpid) != hwa_handing_on);
}

/* The same for a process that posix_spawn makes. One that resets its user may not read the library. */
static bool child_leaves(const posix_spawnattr_t *attributes)
{
	bool resets = attributes && attributes->__flags & POSIX_SPAWN_RESETIDS;
	return leaves(true) || (resets && hwa_sys(__NR_geteuid) != hwa_sys(__NR_getuid));
}

/* Programs that are not audited and change nothing that a job uses. */
static bool is_harmless(const char *file)
{
	static const char *const names[] = {"headwater", "ldconfig", "ldconfig.real", NULL};
	return hwa_is_named(file, names);
}

/* Called before an original is executed. If the program does not announce its changes, all processes validate records
 * from now on. `certain`: the path is relative to this process's directory. Returns true if it must run without the
 * audit library. */
static __attribute__((noinline)) bool note(struct hwa_namespace *ns, int dirfd, const char *path, char *const envp[],
	bool certain)
{
	if (!hwa_attached() || !hwa_is_address(path))
		return false;
	bool loads = audited(ns, envp);
	if (is_harmless(path))
		return loads && !hwa_library_opens(variable(ns, envp, "LD_AUDIT"));
	/* At the session's end the library is removed a moment later. */
	if (hwa_has_left() || hwa_has_ended())
		return loads;
	bool leaving = loads && leaves(false);
	enum hwa_manner manner = certain && loads && !leaving ? hwa_manner_of(dirfd, path) : HWA_SILENT;
	if (manner >= HWA_SILENT && hwa_in_use() && !hwa_unaudited())
		hwa_announce_unaudited();
	if (!loads || manner == HWA_IS_NONE)
		return false;
	return leaving || manner == HWA_COMPLAINS || !hwa_library_opens(variable(ns, envp, "LD_AUDIT"));
}

/* The same where only the environment can be checked: a shell will run it, or libc searches for it. */
static void note_environment(struct hwa_namespace *ns, char *const envp[], const char *path)
{
	if (hwa_in_use() && !audited(ns, envp))
		note(ns, AT_FDCWD, path, envp, false);
}

/* Calls REAL(name) with another environment, its last argument but for those in `after`. */
#define BARE(function, before, after) \
	const char *libraries = variable(ns, envp, "LD_AUDIT"); \
	char *const *whole = envp == own_environment ? hwa_environment(ns) : envp; \
	if (!libraries || !whole || hwa_count_strings(whole) > VARIABLES_MAX) \
		return function(SPLICE before, (char *const *)(whole ? whole : envp)SPLICE after); \
	char *slots[hwa_bare_slots(whole, libraries)]; \
	return function(SPLICE before, hwa_bare(whole, libraries, slots) SPLICE after)

static __attribute__((noinline)) int execute_bare(struct hwa_namespace *ns, const char *file, char *const argv[],
	char *const envp[])
{
	BARE(LIBC(execve), (file, argv), ());
}

static int execute(struct hwa_namespace *ns, const char *file, char *const argv[], char *const envp[], bool bare)
{
	if (bare)
		return execute_bare(ns, file, argv, envp);
	if (envp == own_environment)
		return LIBC(execv)(file, argv);
	return LIBC(execve)(file, argv, envp);
}

/* Does what note does, for a program in a process that is yet to be made. */
static bool note_start(struct hwa_namespace *ns, const char *path, const posix_spawnattr_t *attributes,
	char *const envp[], bool certain)
{
	bool leaving = child_leaves(attributes);
	return note(ns, AT_FDCWD, path, envp, certain && !leaving) || (leaving && audited(ns, envp));
}

/* Returns true unless more would have to be copied than the stack has space for. */
static bool is_ready(const struct hwa_exec *exec, char *const argv[])
{
	return strlen(exec->file) < FILE_BYTES_MAX && (!exec->interpreter || hwa_count_strings(argv) <= ARGUMENTS_MAX);
}

/* Executes a script's interpreter. */
static __attribute__((noinline)) int execute_script(struct hwa_namespace *ns, const struct hwa_exec *exec,
	const char *path, char *const argv[], char *const envp[], bool bare)
{
	char *arguments[hwa_count_strings(argv) + 3];
	hwa_exec_arguments(exec, path, argv, arguments);
	return execute(ns, exec->file, arguments, envp, bare);
}

/* No mapping may remain when a child of vfork executes: it would be its parent's. */
static __attribute__((noinline)) int execute_copy(struct hwa_namespace *ns, struct hwa_exec *exec, const char *path,
	char *const argv[], char *const envp[], bool bare)
{
	const char *last = exec->interpreter && exec->argument ? exec->argument : exec->interpreter;
	size_t bytes = strlen(exec->file) + 1, line_bytes = last ? (size_t)(last - exec->line) + strlen(last) + 1 : 0;
	char copy[bytes + line_bytes];
	exec->file = memcpy(copy, exec->file, bytes);
	if (exec->interpreter) {
		char *line = memcpy(copy + bytes, exec->line, line_bytes);
		exec->interpreter = line + (exec->interpreter - exec->line);
		exec->argument = exec->argument ? line + (exec->argument - exec->line) : NULL;
	}
	hwa_path_end(&exec->found.path);
	int result;
	unsigned tries = 0;
	do
		result = exec->interpreter ? execute_script(ns, exec, path, argv, envp, bare)
					   : execute(ns, copy, argv, envp, bare);
	while (hwa_exec_again(*ns->errno_location(), &tries));
	return result;
}

/* Executes the store's copy. Returns UNSERVED if the original must be tried. */
static __attribute__((noinline)) int serve_exec(struct hwa_namespace *ns, int dirfd, const char *path,
	char *const argv[], char *const envp[])
{
	HWA_EXEC(exec);
	switch (hwa_exec_resolve(dirfd, path, argv, &exec)) {
	case HWA_FAILS:
		return fail(ns, exec.found.error);
	case HWA_KNOWN:
		break;
	default:
		return UNSERVED;
	}
	if (!is_ready(&exec, argv))
		return UNSERVED;
	int before = *ns->errno_location();
	/* A script's interpreter may lie outside of the store. */
	bool bare = !hwa_strip_store(exec.file) && note(ns, AT_FDCWD, exec.file, envp, true);
	execute_copy(ns, &exec, path, argv, envp, bare);
	int error = *ns->errno_location();
	if (error == E2BIG || error == ENOMEM)
		return -1;
	*ns->errno_location() = before;
	hwa_count(HWA_COUNT_FALLBACKS);
	return UNSERVED;
}

static int exec_path(struct hwa_namespace *ns, const char *path, char *const argv[], char *const envp[])
{
	int result = path && audited(ns, envp) && !leaves(false) ? serve_exec(ns, AT_FDCWD, path, argv, envp)
								 : UNSERVED;
	if (result != UNSERVED)
		return result;
	return execute(ns, path, argv, envp, note(ns, AT_FDCWD, path, envp, true));
}

/* As execvp does with what the kernel does not recognise. */
static __attribute__((noinline)) int exec_shell(struct hwa_namespace *ns, const char *path, char *const argv[],
	char *const envp[])
{
	size_t arguments = hwa_count_strings(argv);
	char *shell_argv[arguments + 3];
	size_t used = 0;
	shell_argv[used++] = (char *)SHELL;
	shell_argv[used++] = (char *)path;
	for (size_t i = 1; i < arguments; i++)
		shell_argv[used++] = argv[i];
	shell_argv[used] = NULL;
	return execute(ns, SHELL, shell_argv, envp, note(ns, AT_FDCWD, SHELL, envp, true));
}

static int exec_or_shell(struct hwa_namespace *ns, const char *path, char *const argv[], char *const envp[])
{
	int result = exec_path(ns, path, argv, envp);
	return *ns->errno_location() == ENOEXEC ? exec_shell(ns, path, argv, envp) : result;
}

/* A search along PATH, as libc's. */
struct search {
	const char *file, *rest;
	size_t file_bytes;
	char *candidate;
};

static const char *search_path(struct hwa_namespace *ns)
{
	const char *path = variable(ns, own_environment, "PATH");
	return path ? path : DEFAULT_PATH;
}

/* Begins a search. Returns 0, or a negative error number if the file's name can't be searched for. */
static int search_begin(struct search *search, const char *file, const char *path)
{
	search->file = file;
	search->rest = path;
	search->file_bytes = strlen(file);
	return search->file_bytes == 0 ? -ENOENT : search->file_bytes > NAME_BYTES_MAX ? -ENAMETOOLONG : 0;
}

/* Returns the size of the longest candidate: libc's own search needs no less. */
static size_t candidate_bytes(const char *path, const char *file)
{
	size_t longest = 0;
	for (const char *end; (end = strchr(path, ':')); path = end + 1)
		if ((size_t)(end - path) > longest && (size_t)(end - path) < HWA_PATH_MAX)
			longest = (size_t)(end - path);
	if (strlen(path) > longest && strlen(path) < HWA_PATH_MAX)
		longest = strlen(path);
	size_t name = strlen(file);
	return longest + 1 + (name < NAME_BYTES_MAX ? name : NAME_BYTES_MAX) + 1;
}

/* Sets the next candidate; false after the last. An empty element is the working directory. */
static bool search_next(struct search *search)
{
	while (search->rest) {
		const char *element = search->rest, *end = strchr(element, ':');
		size_t bytes = end ? (size_t)(end - element) : strlen(element);
		search->rest = end ? end + 1 : NULL;
		if (bytes >= HWA_PATH_MAX - 1)
			continue;
		memcpy(search->candidate, element, bytes);
		if (bytes > 0)
			search->candidate[bytes++] = '/';
		memcpy(search->candidate + bytes, search->file, search->file_bytes + 1);
		return true;
	}
	return false;
}

/* Returns true if the search continues after this error. */
static bool is_passed_over(int error)
{
	return error == EACCES || error == ENOENT || error == ESTALE || error == ENOTDIR || error == ENODEV ||
		error == ETIMEDOUT;
}

static __attribute__((noinline)) int serve_search(struct hwa_namespace *ns, const char *file, const char *path,
	char *const argv[], char *const envp[])
{
	char candidate[candidate_bytes(path, file)];
	struct search search = {.candidate = candidate};
	bool denied = false;
	int error = search_begin(&search, file, path);
	if (error < 0)
		return fail(ns, -error);
	while (search_next(&search)) {
		exec_or_shell(ns, search.candidate, argv, envp);
		error = *ns->errno_location();
		denied |= error == EACCES;
		if (!is_passed_over(error))
			return -1;
	}
	return denied ? fail(ns, EACCES) : -1;
}

/* execvpe: the original would execute without the wrapper. */
static int exec_search(struct hwa_namespace *ns, const char *file, char *const argv[], char *const envp[])
{
	if (!file || !audited(ns, envp)) {
		note_environment(ns, envp, file);
		return UNSERVED;
	}
	if (strchr(file, '/'))
		return exec_or_shell(ns, file, argv, envp);
	return serve_search(ns, file, search_path(ns), argv, envp);
}

WRAP(int, execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
{
	return exec_path(ns, path, argv, envp);
}

WRAP(int, execv, (const char *path, char *const argv[]), (path, argv))
{
	return exec_path(ns, path, argv, own_environment);
}

SERVED(int, execvp, (const char *file, char *const argv[]), (file, argv), exec_search(ns, file, argv, own_environment))
SERVED(int, execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp),
	exec_search(ns, file, argv, envp))

/* A descriptor of the store's copy replaces the original's path. A script runs by the descriptor's name, which leads
 * its interpreter to the copy. */
static int serve_fexecve(struct hwa_namespace *ns, int fd, char *const argv[], char *const envp[])
{
	char start[2];
	const struct hw_record *record = hwa_store_descriptor(fd);
	if (!record || hwa_sys(__NR_pread64, fd, start, sizeof start, 0) != sizeof start ||
		(start[0] == '#' && start[1] == '!'))
		return UNSERVED;
	return exec_path(ns, record->path, argv, envp);
}

static __attribute__((noinline)) int fexecve_bare(struct hwa_namespace *ns, int fd, char *const argv[],
	char *const envp[])
{
	BARE(LIBC(fexecve), (fd, argv), ());
}

WRAP(int, fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
{
	int result = serve_fexecve(ns, fd, argv, envp);
	if (result != UNSERVED)
		return result;
	return note(ns, fd, "", envp, true) ? fexecve_bare(ns, fd, argv, envp) : REAL(fexecve)(fd, argv, envp);
}

/* Newer than the oldest headers. */
int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags);

static __attribute__((noinline)) int execveat_bare(struct hwa_namespace *ns, int dirfd, const char *path,
	char *const argv[], char *const envp[], int flags)
{
	BARE(LIBC(execveat), (dirfd, path, argv), (, flags));
}

WRAP(int, execveat, (int dirfd, const char *path, char *const argv[], char *const envp[], int flags),
	(dirfd, path, argv, envp, flags))
{
	int result = UNSERVED;
	if (path && flags == AT_EMPTY_PATH && !*path)
		result = serve_fexecve(ns, dirfd, argv, envp);
	else if (path && flags == 0 && audited(ns, envp) && !leaves(false))
		result = serve_exec(ns, dirfd, path, argv, envp);
	if (result != UNSERVED)
		return result;
	if (note(ns, dirfd, path, envp, !flags || flags == AT_EMPTY_PATH))
		return execveat_bare(ns, dirfd, path, argv, envp, flags);
	return REAL(execveat)(dirfd, path, argv, envp, flags);
}

/* An execveat that libc may not have. */
static __attribute__((noinline)) long by_number_bare(struct hwa_namespace *ns, long dirfd, long path, long argv,
	char *const envp[], long flags)
{
	BARE(LIBC(syscall), (__NR_execveat, dirfd, path, argv), (, flags));
}

long hwa_exec_by_number(struct hwa_namespace *ns, long number, long a, long b, long c, long d, long e)
{
	if (number == __NR_execveat)
		return note(ns, (int)a, (const char *)b, (char *const *)d, true)
			? by_number_bare(ns, a, b, c, (char *const *)d, e)
			: UNCALLED;
	return note(ns, AT_FDCWD, (const char *)a, (char *const *)c, true)
		? execute_bare(ns, (const char *)a, (char *const *)b, (char *const *)c)
		: UNCALLED;
}

/* ---- arguments one by one ---- */

enum list { PATH_LIST, FILE_LIST, ENVIRONMENT_LIST };

static int exec_list(struct hwa_namespace *ns, enum list kind, const char *path, const char *first, va_list rest)
{
	va_list counted;
	size_t arguments = 1;
	va_copy(counted, rest);
	if (first)
		while (va_arg(counted, char *))
			arguments++;
	va_end(counted);
	char *argv[arguments + 1];
	argv[0] = (char *)first;
	for (size_t i = 1; first && i <= arguments; i++)
		argv[i] = va_arg(rest, char *);
	if (kind == PATH_LIST)
		return exec_path(ns, path, argv, own_environment);
	if (kind == ENVIRONMENT_LIST)
		return exec_path(ns, path, argv, va_arg(rest, char **));
	int result = exec_search(ns, path, argv, own_environment);
	return result != UNSERVED ? result : REAL(execvp)(path, argv);
}

#define LIST_ENTRY(slot, name, kind) \
	int hwa_entry##slot##_##name(const char *path, const char *first, ...); \
	int hwa_entry##slot##_##name(const char *path, const char *first, ...) \
	{ \
		va_list rest; \
		va_start(rest, first); \
		int result = exec_list(&hwa_namespaces[slot], kind, path, first, rest); \
		va_end(rest); \
		return result; \
	}
#define WRAP_LIST(name, kind) \
	LIST_ENTRY(0, name, kind) LIST_ENTRY(1, name, kind) LIST_ENTRY(2, name, kind) LIST_ENTRY(3, name, kind)
WRAP_LIST(execl, PATH_LIST)
WRAP_LIST(execlp, FILE_LIST)
WRAP_LIST(execle, ENVIRONMENT_LIST)

/* ---- posix_spawn ---- */

typedef int spawns(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

static __attribute__((noinline)) int spawn_script(spawns *spawn, const struct hwa_exec *exec, const char *path,
	pid_t *pid, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
	char *const envp[])
{
	char *arguments[hwa_count_strings(argv) + 3];
	hwa_exec_arguments(exec, path, argv, arguments);
	return spawn(pid, exec->file, actions, attributes, arguments, envp);
}

/* Spawns the store's program for `path`. Returns an error number, or UNSERVED. */
static __attribute__((noinline)) int spawn_path(struct hwa_namespace *ns, const char *path, pid_t *pid,
	const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
	char *const envp[], enum hwa_answer *answer)
{
	HWA_EXEC(exec);
	*answer = hwa_exec_resolve(AT_FDCWD, path, argv, &exec);
	if (*answer == HWA_FAILS)
		return exec.found.error;
	if (*answer == HWA_KNOWN && !is_ready(&exec, argv))
		*answer = HWA_ORIGINAL;
	if (*answer != HWA_KNOWN)
		return UNSERVED;
	/* The kernel starts an interpreter that must run without the library. */
	if (!hwa_strip_store(exec.file) && note_start(ns, exec.file, attributes, envp, true)) {
		*answer = HWA_ORIGINAL;
		return UNSERVED;
	}
	spawns *spawn = LIBC(posix_spawn);
	int error;
	unsigned tries = 0;
	do
		error = exec.interpreter ? spawn_script(spawn, &exec, path, pid, actions, attributes, argv, envp)
					 : spawn(pid, exec.file, actions, attributes, argv, envp);
	while (hwa_exec_again(error, &tries));
	if (error == 0 || error == E2BIG || error == ENOMEM || error == EAGAIN)
		return error;
	hwa_count(HWA_COUNT_FALLBACKS);
	return UNSERVED;
}

/* A relative path is relative to the directory that the file actions may choose. */
static bool is_certain(const char *path, const posix_spawn_file_actions_t *actions)
{
	return path && (*path == '/' || !actions);
}

static int serve_spawn(struct hwa_namespace *ns, pid_t *pid, const char *path,
	const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
	char *const envp[])
{
	enum hwa_answer answer;
	if (!is_certain(path, actions) || !audited(ns, envp) || child_leaves(attributes))
		return UNSERVED;
	int error = spawn_path(ns, path, pid, actions, attributes, argv, envp, &answer);
	/* The error of a file action precedes that of an absent program. */
	return answer == HWA_KNOWN ? error : UNSERVED;
}

static __attribute__((noinline)) int spawn_bare(struct hwa_namespace *ns, spawns *spawn, pid_t *pid, const char *path,
	const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
	char *const envp[])
{
	BARE(spawn, (pid, path, actions, attributes, argv), ());
}

WRAP(int, posix_spawn,
	(pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		char *const argv[], char *const envp[]),
	(pid, path, actions, attributes, argv, envp))
{
	int error = serve_spawn(ns, pid, path, actions, attributes, argv, envp);
	if (error != UNSERVED)
		return error;
	if (note_start(ns, path, attributes, envp, is_certain(path, actions)))
		return spawn_bare(ns, REAL(posix_spawn), pid, path, actions, attributes, argv, envp);
	return REAL(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

/* Spawns the first existing candidate if the store has it; those before it are known to be absent, or found absent.
 * Other programs are left to the original. */
static __attribute__((noinline)) int serve_spawn_search(struct hwa_namespace *ns, pid_t *pid, const char *file,
	const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
	char *const argv[], char *const envp[], bool *bare)
{
	char candidate[candidate_bytes(path, file)];
	struct search search = {.candidate = candidate};
	enum hwa_answer answer;
	if (search_begin(&search, file, path) < 0)
		return UNSERVED;
	while (search_next(&search)) {
		if (!is_certain(search.candidate, actions)) {
			*bare = note_start(ns, search.candidate, attributes, envp, false);
			return UNSERVED;
		}
		int error = spawn_path(ns, search.candidate, pid, actions, attributes, argv, envp, &answer);
		if (answer == HWA_KNOWN)
			return error;
		if (answer == HWA_ORIGINAL)
			error = -(int)hwa_sys(__NR_faccessat, AT_FDCWD, search.candidate, F_OK);
		if (error != ENOENT && error != ENOTDIR) {
			*bare = note_start(ns, search.candidate, attributes, envp, true);
			return UNSERVED;
		}
	}
	return UNSERVED;
}

static int spawn_search(struct hwa_namespace *ns, pid_t *pid, const char *file,
	const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
	char *const envp[], bool *bare)
{
	if (!file || strchr(file, '/') || !audited(ns, envp) || child_leaves(attributes)) {
		int error = serve_spawn(ns, pid, file, actions, attributes, argv, envp);
		if (error == UNSERVED)
			*bare = note_start(ns, file, attributes, envp,
				file && strchr(file, '/') && is_certain(file, actions));
		return error;
	}
	return serve_spawn_search(ns, pid, file, search_path(ns), actions, attributes, argv, envp, bare);
}

WRAP(int, posix_spawnp,
	(pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		char *const argv[], char *const envp[]),
	(pid, file, actions, attributes, argv, envp))
{
	bool bare = false;
	int error = spawn_search(ns, pid, file, actions, attributes, argv, envp, &bare);
	if (error == UNSERVED && bare)
		return spawn_bare(ns, REAL(posix_spawnp), pid, file, actions, attributes, argv, envp);
	return error != UNSERVED ? error : REAL(posix_spawnp)(pid, file, actions, attributes, argv, envp);
}

/* ---- by a shell ---- */

static __attribute__((noinline)) void note_shell(struct hwa_namespace *ns)
{
	const char *libraries = audited(ns, own_environment) ? variable(ns, own_environment, "LD_AUDIT") : NULL;
	if (libraries && (leaves(true) || !hwa_library_opens(libraries)))
		hwa_bare_here(ns, libraries);
	note_environment(ns, own_environment, SHELL);
}

NOTED(int, system, (const char *command), (command), note_shell(ns))
NOTED(FILE *, popen, (const char *command, const char *mode), (command, mode), note_shell(ns))
