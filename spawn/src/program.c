/* Finds a program as execvp() does, and examines it as the kernel does. */
#include "../core/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINE_BYTES 256

/* The result for a file that may be executed but not read. */
#define UNREADABLE (-0x10000)

/* Opens what may be run. The descriptor, -errno, or UNREADABLE. */
static int open_program(const char *path, struct stat *file)
{
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS))
		return -errno;
	if (stat(path, file))
		return -errno;
	if (!S_ISREG(file->st_mode))
		return -EACCES;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == EACCES)
		return UNREADABLE;
	if (fd >= 0 && fstat(fd, file)) {
		close(fd);
		return -EIO;
	}
	return fd < 0 ? -errno : fd;
}

/* A line "#!interpreter argument". */
static int read_script(const char *line, size_t bytes, struct hwsp_program *program, char **interpreter)
{
	char text[LINE_BYTES];
	size_t length = bytes < sizeof text ? bytes : sizeof text - 1;
	memcpy(text, line, length);
	text[length] = 0;
	char *end = strchr(text, '\n');
	if (!end && length == sizeof text - 1) {
		/* The kernel may cut it off, or refuse it. */
		hwsp_add_reason(program->refusal, "its first line is too long");
		return 0;
	}
	if (end)
		*end = 0;
	char *name = text + 2 + strspn(text + 2, " \t");
	char *after = name + strcspn(name, " \t");
	char *argument = after + strspn(after, " \t");
	for (size_t last = strlen(argument); last && strchr(" \t", argument[last - 1]); last--)
		argument[last - 1] = 0;
	*after = 0;
	if (!*name)
		return ENOEXEC;
	*interpreter = strdup(name);
	program->argument = *argument ? strdup(argument) : NULL;
	return *interpreter && (!*argument || program->argument) ? 0 : ENOMEM;
}

/* True if the kernel may be able to run a file that is neither a program nor a script. */
static bool kernel_knows_more(void)
{
	return access("/proc/sys/fs/binfmt_misc/register", F_OK) == 0;
}

static int examine_program(int fd, bool script_allowed, struct hwsp_program *program, char **interpreter)
{
	char line[LINE_BYTES];
	ssize_t got = pread(fd, line, sizeof line, 0);

	if (got < 0)
		return errno;
	if (got > 2 && !memcmp(line, "#!", 2)) {
		if (script_allowed)
			return read_script(line, (size_t)got, program, interpreter);
		hwsp_add_reason(program->refusal, "its interpreter is a script");
		return 0;
	}
	bool is_elf = got >= 4 && !memcmp(line, "\177ELF", 4);
	if (!is_elf && got && kernel_knows_more()) {
		hwsp_add_reason(program->refusal, "the kernel alone knows how to run it");
		return 0;
	}
	return hwsp_elf(fd, program->refusal);
}

static int examine(struct hwsp_program *program, bool script_allowed)
{
	struct stat file;
	char *interpreter = NULL;
	int fd = open_program(program->path, &file);

	if (fd == UNREADABLE) {
		hwsp_add_reason(program->refusal, "it can't be read");
		return 0;
	}
	if (fd < 0)
		return -fd;
	bool privileged = file.st_mode & (S_ISUID | S_ISGID) || fgetxattr(fd, "security.capability", NULL, 0) > 0;
	int error = examine_program(fd, script_allowed, program, &interpreter);
	close(fd);
	if (!error && privileged)
		hwsp_add_reason(program->refusal, "it runs with other privileges than its caller");
	if (error || !interpreter)
		return error;
	program->script = program->path;
	program->path = interpreter;
	return examine(program, false);
}

/* As execvp(): the first that may be run, EACCES if there was one that may not. */
static int search(const char *name, char **found)
{
	const char *list = getenv("PATH");
	char path[PATH_MAX];
	int error = ENOENT;

	for (list = list ? list : "/bin:/usr/bin"; list; list = strchr(list, ':') ? strchr(list, ':') + 1 : NULL) {
		int length = (int)strcspn(list, ":");
		int wrote = snprintf(path, sizeof path, "%.*s%s%s", length, list, length ? "/" : "", name);
		struct stat file;
		errno = 0;
		if (wrote < 0 || (size_t)wrote >= sizeof path)
			continue;
		if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0) {
			*found = strdup(path);
			return *found ? 0 : ENOMEM;
		}
		if (errno == EACCES)
			error = EACCES;
	}
	return error;
}

bool hwsp_identify(const char *path, struct hwsp_identity *identity)
{
	struct stat file;
	if (stat(path, &file))
		return false;
	*identity = (struct hwsp_identity){file.st_dev, file.st_ino, file.st_size, file.st_mtim, file.st_ctim};
	return true;
}

bool hwsp_is_same(const struct hwsp_identity *a, const struct hwsp_identity *b)
{
	return a->device == b->device && a->number == b->number && a->bytes == b->bytes &&
		a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
		a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

char *hwsp_program_name(const struct hwsp_program *program)
{
	return program->script ? program->script : program->path;
}

int hwsp_program(const char *name, struct hwsp_program *program)
{
	int error = 0;

	memset(program, 0, sizeof *program);
	if (!name || !*name)
		return ENOENT;
	if (strchr(name, '/'))
		error = (program->path = strdup(name)) ? 0 : ENOMEM;
	else
		error = search(name, &program->path);
	/* Before it is read: what changes meanwhile is another file. */
	if (!error && !hwsp_identify(program->path, &program->file))
		error = errno;
	if (!error)
		error = examine(program, true);
	if (error)
		hwsp_program_free(program);
	return error;
}

void hwsp_program_free(struct hwsp_program *program)
{
	free(program->path);
	free(program->script);
	free(program->argument);
	memset(program, 0, sizeof *program);
}
