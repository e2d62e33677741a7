/* What a program's execve would run, found in the store: shared by the wrappers and by the
 * `headwater exec` command.
 *
 * The kernel must come to the same end as with the original, so whatever is not plainly in order (a
 * damaged `#!` line, a script's script, permissions that depend on who asks) is left to it.
 *
 * Only what runs audited is redirected: a static program, one of another architecture or of another
 * C library would see the store's paths and nothing would map them back. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "shim.h"
#include "sys.h"

#define HEADERS_MAX 16
#define LINE_BYTES sizeof(((struct hw_exec *)0)->line)

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* The record's file may be executed by anyone, keeps its user, and is in the store. */
static bool may_run(const struct hw_found *found)
{
	uint64_t needed = HW_ATTR | HW_EXECUTABLE | HW_WHOLE;
	return HW_KIND(found->state) == HW_FILE && (found->state & needed) == needed &&
	       (found->record->attr.mode & 06111) == 0111;
}

/* True if the interpreter is glibc's loader, which obeys LD_AUDIT. */
static bool is_glibc_loader(const char *path)
{
	const char *name = path, *at;
	while ((at = strchr(name, '/')))
		name = at + 1;
	return strlen(name) > 8 && memcmp(name, "ld-linux", 8) == 0;
}

/* True if the ELF file starts with a header of this machine and asks for glibc's loader. */
static bool runs_audited(long fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr segments[HEADERS_MAX];
	char loader[256];
	size_t count = header->e_phnum;
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE ||
	    header->e_phentsize != sizeof *segments || count > HEADERS_MAX)
		return false;
	long bytes = (long)(count * sizeof *segments);
	if (hw_sys(__NR_pread64, fd, segments, bytes, header->e_phoff) != bytes)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (segments[i].p_type != PT_INTERP)
			continue;
		bytes = (long)segments[i].p_filesz;
		if (bytes <= 0 || bytes > (long)sizeof loader ||
		    hw_sys(__NR_pread64, fd, loader, bytes, segments[i].p_offset) != bytes)
			return false;
		return loader[bytes - 1] == 0 && is_glibc_loader(loader);
	}
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Splits a script's first line as the kernel's binfmt_script does: the interpreter, and all the rest
 * as one argument (NULL if none). False if the kernel must decide. */
static bool parse_line(char line[LINE_BYTES], char **interpreter, char **argument)
{
	char *end = line + 2, *cut = line + LINE_BYTES - 1;
	while (end < cut && *end != '\n' && *end != 0)
		end++;
	if (end == cut)
		return false;
	while (end > line + 2 && is_blank(end[-1]))
		end--;
	*end = 0;
	char *at = line + 2;
	while (is_blank(*at))
		at++;
	*interpreter = at;
	while (*at && !is_blank(*at))
		at++;
	*argument = NULL;
	if (*at) {
		*at++ = 0;
		while (is_blank(*at))
			at++;
		*argument = *at ? at : NULL;
	}
	/* A relative interpreter depends on the directory in which the program will stand. */
	return **interpreter == '/';
}

enum format { FOREIGN, PROGRAM, SCRIPT };

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
static enum format look(const struct hw_found *found, char file[2 * HW_PATH_MAX], char line[LINE_BYTES])
{
	Elf64_Ehdr header;
	enum format format = FOREIGN;
	long fd = open_copy(found, file);
	if (fd < 0)
		return FOREIGN;
	memset(line, 0, LINE_BYTES);
	long bytes = hw_sys(__NR_pread64, fd, line, LINE_BYTES - 1, 0);
	if (bytes > 2 && line[0] == '#' && line[1] == '!') {
		format = SCRIPT;
	} else if (bytes >= (long)sizeof header) {
		memcpy(&header, line, sizeof header);
		if (memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && runs_audited(fd, &header))
			format = PROGRAM;
	}
	hw_sys(__NR_close, fd);
	return format;
}

/* Sets exec->file to what runs the script; false if the kernel must decide. An interpreter that is a
 * script itself is left where it is. */
static bool find_interpreter(const char *interpreter, struct hw_found *found, struct hw_exec *exec)
{
	char line[LINE_BYTES];
	enum hw_answer answer = hw_resolve(AT_FDCWD, interpreter, HW_WANT_EXECUTE, found);
	if (answer == HW_FAILS || (answer == HW_KNOWN && !may_run(found)))
		return false;
	if (answer != HW_KNOWN || look(found, exec->file, line) != PROGRAM)
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
	if (!parse_line(exec->line, &interpreter, &argument) ||
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
	case SCRIPT:
		return resolve_script(dirfd, path, argv, &found, exec, argv_out);
	case PROGRAM:
		break;
	default:
		return HW_ORIGINAL;
	}
	if (argv && argv_out)
		while ((*argv_out++ = *argv++))
			;
	return HW_KNOWN;
}
