/* What a program's execve would run, found in the store: shared by the wrappers and by the
 * `headwater exec` command.
 *
 * The kernel must come to the same end as with the original, so whatever is not plainly in order (a
 * damaged `#!` line, a script's script, permissions that depend on who asks) is left to it.
 *
 * Only what runs audited is redirected: a static program, one of another architecture or of another
 * C library would see the store's paths and nothing would map them back. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "shim.h"
#include "sys.h"

/* True if one of the process's groups, beside the one that it has now, is this one. */
static __attribute__((noinline)) bool is_member(uint32_t group)
{
	long count = hw_sys(__NR_getgroups, 0, NULL);
	uint32_t *groups = count > 0 ? hw_map((size_t)count * sizeof *groups) : NULL;
	bool is = false;
	if (!groups)
		return false;
	if (hw_sys(__NR_getgroups, count, groups) == count)
		for (long i = 0; i < count; i++)
			is |= groups[i] == group;
	hw_sys(__NR_munmap, groups, (size_t)count * sizeof *groups);
	return is;
}

/* True if the mode lets this process execute the file. What lists and capabilities allow beyond it is the daemon's to
 * say, which has found that this user may. */
static bool is_allowed(const struct hw_attr *attr)
{
	long user;
	if ((attr->mode & 0111) == 0111)
		return true;
	user = hw_sys(__NR_geteuid);
	if (user == 0 || user == (long)attr->uid)
		return attr->mode & (user ? 0100 : 0111);
	if (hw_sys(__NR_getegid) == (long)attr->gid || is_member(attr->gid))
		return attr->mode & 0010;
	return attr->mode & 0001;
}

/* The record's file may be executed by this process, keeps its user, and is in the store. */
static bool may_run(const struct hw_found *found)
{
	uint64_t needed = HW_ATTR | HW_EXECUTABLE | HW_WHOLE;
	return HW_KIND(found->state) == HW_FILE && (found->state & needed) == needed &&
	       !(found->record->attr.mode & 06000) && is_allowed(&found->record->attr);
}

/* Opens the store's copy, that of this memory domain if it has one, and says where that is. */
static long open_copy(struct hw_found *found, const char **file)
{
	long fd = -1;
	*file = hw_replicated(found->state, HW_REPLICATED_WHOLE) ? hw_copy_of(&found->path, true) : NULL;
	if (*file)
		fd = hw_sys(__NR_openat, AT_FDCWD, *file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (*file = hw_copy_of(&found->path, false)))
		fd = hw_sys(__NR_openat, AT_FDCWD, *file, O_RDONLY | O_CLOEXEC);
	return fd;
}

/* Finds the store's copy, and looks what it is; a script's first line, and a NUL, into `line`, unless that is NULL. */
static enum hw_format look(struct hw_exec *exec, char *line)
{
	long fd = open_copy(&exec->found, &exec->file);
	if (fd < 0)
		return HW_IS_FOREIGN;
	enum hw_format format = hw_format(fd, line);
	hw_sys(__NR_close, fd);
	return format;
}

/* Sets exec->file to what runs the script; false if the kernel must decide. An interpreter that is a
 * script itself is left where it is. */
static bool find_interpreter(struct hw_exec *exec)
{
	enum hw_answer answer = hw_resolve(AT_FDCWD, exec->interpreter, HW_WANT_EXECUTE, &exec->found);
	if (answer == HW_FAILS || (answer == HW_KNOWN && !may_run(&exec->found)))
		return false;
	if (answer != HW_KNOWN || look(exec, NULL) != HW_IS_PROGRAM)
		exec->file = exec->interpreter;
	return true;
}

/* What the file of the scope that has been found is executed as; HW_ORIGINAL if it is not the store's. */
static enum hw_answer choose(int dirfd, const char *path, char *const argv[], struct hw_exec *exec)
{
	struct hw_path *file = &exec->found.path;
	if (!may_run(&exec->found) || !(file->apart || hw_path_widen(file)))
		return HW_ORIGINAL;
	exec->line = exec->found.path.memory;
	switch (look(exec, exec->line)) {
	case HW_IS_SCRIPT:
		/* Its interpreter is given its path, which counts from the working directory there. */
		if (!argv || !argv[0] || (dirfd != AT_FDCWD && *path != '/') ||
		    !hw_parse_line(exec->line, &exec->interpreter, &exec->argument))
			return HW_ORIGINAL;
		return find_interpreter(exec) ? HW_KNOWN : HW_ORIGINAL;
	case HW_IS_PROGRAM:
		return HW_KNOWN;
	default:
		return HW_ORIGINAL;
	}
}

enum hw_answer hw_exec_resolve(int dirfd, const char *path, char *const argv[], struct hw_exec *exec)
{
	exec->interpreter = NULL;
	enum hw_answer answer = hw_resolve(dirfd, path, HW_WANT_EXECUTE, &exec->found);
	if (answer != HW_KNOWN)
		return answer;
	answer = hw_reads_programs(path) ? HW_ORIGINAL : choose(dirfd, path, argv, exec);
	if (answer == HW_ORIGINAL)
		hw_count(HW_COUNT_FALLBACKS);
	return answer;
}

void hw_exec_arguments(const struct hw_exec *exec, const char *path, char *const argv[], char **out)
{
	*out++ = exec->interpreter;
	if (exec->argument)
		*out++ = exec->argument;
	*out++ = (char *)path;
	while ((*out++ = *++argv))
		;
}

enum hw_answer hw_exec_copy(const char *path, char *const argv[], char file[2 * HW_PATH_MAX], char line[HW_LINE_BYTES],
	char **interpreter, char **argument, int *error)
{
	HW_EXEC(exec);
	enum hw_answer answer = hw_exec_resolve(AT_FDCWD, path, argv, &exec);
	*error = answer == HW_FAILS ? exec.found.error : 0;
	*interpreter = *argument = NULL;
	if (answer != HW_KNOWN)
		return answer;
	memcpy(file, exec.file, strlen(exec.file) + 1);
	memcpy(line, exec.line, HW_LINE_BYTES);
	if (exec.interpreter) {
		*interpreter = line + (exec.interpreter - exec.line);
		*argument = exec.argument ? line + (exec.argument - exec.line) : NULL;
	}
	return HW_KNOWN;
}
