/* Finds in the store what a program's execve would run. Shared by the wrappers and the `headwater exec` command.
 *
 * The result must be that of the original call. All that is not plainly in order (a damaged `#!` line, a script's
 * script, permissions that depend on the caller) is left to the kernel.
 *
 * Only audited programs are redirected. A static program, or one of another architecture or C library, would use the
 * store's paths, and nothing would map them back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "shim.h"
#include "sys.h"

/* A thread of the daemon may close what it has written just after its content is published. */
#define BUSY_TRIES_MAX 50
#define BUSY_PAUSE_NS 1000000

/* Returns true if one of the process's supplementary groups is this one. */
static __attribute__((noinline)) bool is_member(uint32_t group)
{
	long count = hwa_sys(__NR_getgroups, 0, NULL);
	uint32_t *groups = count > 0 ? hwa_map((size_t)count * sizeof *groups) : NULL;
	bool is = false;
	if (!groups)
		return false;
	if (hwa_sys(__NR_getgroups, count, groups) == count)
		for (long i = 0; i < count; i++)
			is |= groups[i] == group;
	hwa_sys(__NR_munmap, groups, (size_t)count * sizeof *groups);
	return is;
}

/* Returns true if the mode lets this process execute the file. The daemon decides about access lists and capabilities:
 * it has found that this user may. */
static bool is_allowed(const struct hw_attr *attr)
{
	long user;
	if ((attr->mode & 0111) == 0111)
		return true;
	user = hwa_sys(__NR_geteuid);
	if (user == 0 || user == (long)attr->uid)
		return attr->mode & (user ? 0100 : 0111);
	if (hwa_sys(__NR_getegid) == (long)attr->gid || is_member(attr->gid))
		return attr->mode & 0010;
	return attr->mode & 0001;
}

/* True if this process may execute the record's file, the file does not change the user, and the store has it. */
static bool may_run(const struct hwa_found *found)
{
	uint64_t needed = HW_ATTR | HW_EXECUTABLE | HW_WHOLE;
	return HW_KIND(found->state) == HW_FILE && (found->state & needed) == needed &&
		!(found->record->attr.mode & 06000) && is_allowed(&found->record->attr);
}

/* Opens the store's copy, preferably that of this memory domain, and sets its path. */
static long open_store_copy(struct hwa_found *found, const char **file)
{
	long fd = -1;
	*file = hwa_replicated(found->state, HW_REPLICATED_WHOLE) ? hwa_copy_of(&found->path, HWA_IN_DOMAIN) : NULL;
	if (*file)
		fd = hwa_sys(__NR_openat, AT_FDCWD, *file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (*file = hwa_copy_of(&found->path, HWA_IN_STORE)))
		fd = hwa_sys(__NR_openat, AT_FDCWD, *file, O_RDONLY | O_CLOEXEC);
	return fd;
}

/* Opens the store's copy and returns its format. Writes a script's first line and a NUL into `line`, unless that is
 * NULL. */
static enum hwa_format read_format(struct hwa_exec *exec, char *line)
{
	long fd = open_store_copy(&exec->found, &exec->file);
	if (fd < 0)
		return HWA_IS_FOREIGN;
	/* The program could not open the store, nor the audit library. */
	enum hwa_format format = hwa_only_by_capability(fd) ? HWA_IS_FOREIGN : hwa_format(fd, line);
	hwa_sys(__NR_close, fd);
	return format;
}

/* Sets exec->file to the script's interpreter; false if the kernel must decide. An interpreter that is a script itself
 * is not redirected. */
static bool find_interpreter(struct hwa_exec *exec)
{
	enum hwa_answer answer = hwa_resolve(AT_FDCWD, exec->interpreter, HW_WANT_EXECUTE, &exec->found);
	if (answer == HWA_FAILS || (answer == HWA_KNOWN && !may_run(&exec->found)))
		return false;
	if (answer != HWA_KNOWN || read_format(exec, NULL) != HWA_IS_PROGRAM)
		exec->file = exec->interpreter;
	return true;
}

/* Determines what a file of the scope is executed as; HWA_ORIGINAL if the store can't provide it. */
static enum hwa_answer choose_executable(int dirfd, const char *path, char *const argv[], struct hwa_exec *exec)
{
	struct hwa_path *file = &exec->found.path;
	if (!may_run(&exec->found) || !(file->apart || hwa_path_widen(file)))
		return HWA_ORIGINAL;
	exec->line = exec->found.path.memory;
	switch (read_format(exec, exec->line)) {
	case HWA_IS_SCRIPT:
		/* The interpreter gets the path, which is relative to the working directory there. */
		if (!argv || !argv[0] || (dirfd != AT_FDCWD && *path != '/') ||
			!hwa_parse_line(exec->line, &exec->interpreter, &exec->argument))
			return HWA_ORIGINAL;
		return find_interpreter(exec) ? HWA_KNOWN : HWA_ORIGINAL;
	case HWA_IS_PROGRAM:
		return HWA_KNOWN;
	default:
		return HWA_ORIGINAL;
	}
}

bool hwa_exec_again(int error, unsigned *tries)
{
	struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};

	if (error != ETXTBSY || (*tries)++ == BUSY_TRIES_MAX)
		return false;
	hwa_sys(__NR_nanosleep, &pause, NULL);
	return true;
}

enum hwa_answer hwa_exec_resolve(int dirfd, const char *path, char *const argv[], struct hwa_exec *exec)
{
	exec->interpreter = NULL;
	enum hwa_answer answer = hwa_resolve(dirfd, path, HW_WANT_EXECUTE, &exec->found);
	if (answer != HWA_KNOWN)
		return answer;
	answer = hwa_reads_programs(path) ? HWA_ORIGINAL : choose_executable(dirfd, path, argv, exec);
	if (answer == HWA_ORIGINAL)
		hwa_count(HWA_COUNT_FALLBACKS);
	return answer;
}

void hwa_exec_arguments(const struct hwa_exec *exec, const char *path, char *const argv[], char **out)
{
	*out++ = exec->interpreter;
	if (exec->argument)
		*out++ = exec->argument;
	*out++ = (char *)path;
	while ((*out++ = *++argv))
		;
}

enum hwa_answer hwa_exec_copy(const char *path, char *const argv[], char file[2 * HWA_PATH_MAX],
	char line[HWA_LINE_BYTES], char **interpreter, char **argument, int *error)
{
	HWA_EXEC(exec);
	enum hwa_answer answer = hwa_exec_resolve(AT_FDCWD, path, argv, &exec);
	*error = answer == HWA_FAILS ? exec.found.error : 0;
	*interpreter = *argument = NULL;
	if (answer != HWA_KNOWN)
		return answer;
	memcpy(file, exec.file, strlen(exec.file) + 1);
	memcpy(line, exec.line, HWA_LINE_BYTES);
	if (exec.interpreter) {
		*interpreter = line + (exec.interpreter - exec.line);
		*argument = exec.argument ? line + (exec.argument - exec.line) : NULL;
	}
	return HWA_KNOWN;
}
