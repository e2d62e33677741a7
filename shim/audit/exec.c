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

/* The record's file may be executed by anyone, keeps its user, and is in the store. */
static bool may_run(const struct hw_found *found)
{
	uint64_t needed = HW_ATTR | HW_EXECUTABLE | HW_WHOLE;
	return HW_KIND(found->state) == HW_FILE && (found->state & needed) == needed &&
	       (found->record->attr.mode & 06111) == 0111;
}

/* Opens the store's copy, that of this memory domain if it has one, and puts its path into `file`. */
static long open_copy(const struct hw_found *found, char file[2 * HW_PATH_MAX])
{
	long fd = -1;
	if (hw_replicated(found->state, HW_REPLICATED_WHOLE) && hw_replica_path(found->path, found->path_bytes, file) > 0)
		fd = hw_sys(__NR_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && hw_store_path(found->path, found->path_bytes, file) > 0)
		fd = hw_sys(__NR_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	return fd;
}

/* Puts the path of the store's copy into `file`, and looks what it is; a script's first line, and a
 * NUL, into `line`. */
static enum hw_format look(const struct hw_found *found, char file[2 * HW_PATH_MAX], char line[HW_LINE_BYTES])
{
	long fd = open_copy(found, file);
	if (fd < 0)
		return HW_IS_FOREIGN;
	enum hw_format format = hw_format(fd, line);
	hw_sys(__NR_close, fd);
	return format;
}

/* Sets exec->file to what runs the script; false if the kernel must decide. An interpreter that is a
 * script itself is left where it is. */
static bool find_interpreter(const char *interpreter, struct hw_found *found, struct hw_exec *exec)
{
	char line[HW_LINE_BYTES];
	enum hw_answer answer = hw_resolve(AT_FDCWD, interpreter, HW_WANT_EXECUTE, found);
	if (answer == HW_FAILS || (answer == HW_KNOWN && !may_run(found)))
		return false;
	if (answer != HW_KNOWN || look(found, exec->file, line) != HW_IS_PROGRAM)
		memcpy(exec->file, interpreter, strlen(interpreter) + 1);
	return true;
}

/* A script runs its interpreter, with the script's original name behind the line's argument. */
static enum hw_answer resolve_script(int dirfd, const char *path, char *const argv[], struct hw_found *found,
	struct hw_exec *exec, char **argv_out)
{
	char *interpreter, *argument;
	size_t bytes = strlen(path) + 1;
	if (!argv || !argv[0] || !argv_out || (dirfd != AT_FDCWD && *path != '/'))
		return HW_ORIGINAL;
	if (!hw_parse_line(exec->line, &interpreter, &argument) ||
	    !find_interpreter(interpreter, found, exec))
		return HW_ORIGINAL;
	memcpy(exec->script, path, bytes);
	*argv_out++ = interpreter;
	if (argument)
		*argv_out++ = argument;
	*argv_out++ = exec->script;
	while ((*argv_out++ = *++argv))
		;
	return HW_KNOWN;
}

enum hw_answer hw_exec_resolve(int dirfd, const char *path, char *const argv[], struct hw_exec *exec,
	char **argv_out, int *error)
{
	struct hw_found found;
	switch (hw_resolve(dirfd, path, HW_WANT_EXECUTE, &found)) {
	case HW_FAILS:
		*error = found.error;
		return HW_FAILS;
	case HW_KNOWN:
		break;
	default:
		return HW_ORIGINAL;
	}
	if (!may_run(&found))
		return HW_ORIGINAL;
	switch (look(&found, exec->file, exec->line)) {
	case HW_IS_SCRIPT:
		return resolve_script(dirfd, path, argv, &found, exec, argv_out);
	case HW_IS_PROGRAM:
		break;
	default:
		return HW_ORIGINAL;
	}
	if (argv && argv_out)
		while ((*argv_out++ = *argv++))
			;
	return HW_KNOWN;
}
