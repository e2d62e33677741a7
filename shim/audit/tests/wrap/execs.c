/* exec in all its forms: execs DIR. Each is tried in a child, whose output and exit status are shown.
 * `execs -report …`, or under any other name than execs, reports how it was started. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../tests/programs/older.h"
#include "show.h"

extern char **environ;

static int report(int argc, char **argv)
{
	char target[4096];
	ssize_t bytes = readlink("/proc/self/exe", target, sizeof target);
	for (int i = 0; i < argc; i++)
		printf("  argument %s\n", argv[i]);
	printf("  is %.*s\n", (int)bytes, target);
	printf("  variable %s\n", getenv("EXECS") ? getenv("EXECS") : "none");
	return 7;
}

enum form { EXECVE, EXECV, EXECVP, EXECVPE, EXECL, EXECLP, EXECLE, EXECVEAT, FEXECVE, VFORK, SPAWN, SPAWNP, FORMS };
static const char *const FORM_NAMES[] = {
	"execve",
	"execv",
	"execvp",
	"execvpe",
	"execl",
	"execlp",
	"execle",
	"execveat",
	"fexecve",
	"vfork",
	"posix_spawn",
	"posix_spawnp",
};

static void run(enum form form, int dirfd, const char *path, char **argv)
{
	switch (form) {
	case EXECVE:
	case VFORK:
		execve(path, argv, environ);
		break;
	case EXECV:
		execv(path, argv);
		break;
	case EXECVP:
		execvp(path, argv);
		break;
	case EXECVPE:
		execvpe(path, argv, environ);
		break;
	case EXECL:
		execl(path, argv[0], argv[1], argv[2], (char *)NULL);
		break;
	case EXECLP:
		execlp(path, argv[0], argv[1], argv[2], (char *)NULL);
		break;
	case EXECLE:
		execle(path, argv[0], argv[1], argv[2], (char *)NULL, environ);
		break;
	case EXECVEAT:
		execveat(dirfd, path, argv, environ, 0);
		break;
	default:
		fexecve(open(path, O_RDONLY), argv, environ);
	}
}

static void show_child(pid_t child)
{
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	printf("  exit %d signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
}

static void try(enum form form, int dirfd, const char *path)
{
	char *argv[] = {"zero", "first", "second word", NULL};
	pid_t child;
	printf("%s %s\n", FORM_NAMES[form], path);
	fflush(stdout);
	if (form == SPAWN || form == SPAWNP) {
		int error = (form == SPAWN ? posix_spawn : posix_spawnp)(&child, path, NULL, NULL, argv, environ);
		if (error)
			printf("  %s\n", strerror(error));
		else
			show_child(child);
		return;
	}
	if (form == VFORK) {
		volatile int error = 0;
		child = vfork();
		if (child == 0) {
			run(form, dirfd, path, argv);
			error = errno;
			_exit(99);
		}
		show_child(child);
		if (error)
			printf("  %s\n", strerror(error));
		return;
	}
	child = fork();
	if (child == 0) {
		run(form, dirfd, path, argv);
		printf("  %s\n", strerror(errno));
		fflush(stdout);
		_exit(99);
	}
	show_child(child);
}

static const char *const PROGRAMS[] = {"bin/program", "bin/alias", "bin/suid", "bin/script", "bin/argument",
	"bin/nested", "bin/orphan", "bin/rootshell", "bin/interpreted", "bin/plainscript", "bin/forbidden",
	"bin/absent", "bin", "bin/script/", "bin/script/x", "absent/x", "dangling", "loop", "lib/../bin/script",
	"plain", "closed/inside"};
static const char *const FILES[] = {
	"program", "script", "forbidden", "absent", "plainscript", "orphan", "true", "", "inside", "large"};

static void search(const char *top, const char *value)
{
	char path[16384];
	snprintf(path, sizeof path, value, top, top, top);
	setenv("PATH", path, 1);
	printf("PATH %s\n", path);
	for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
		try(EXECVP, AT_FDCWD, FILES[i]);
		try(EXECVPE, AT_FDCWD, FILES[i]);
		try(EXECLP, AT_FDCWD, FILES[i]);
		try(SPAWNP, AT_FDCWD, FILES[i]);
	}
}

static void bare(const char *path)
{
	char *argv[] = {"bare", NULL}, *none[] = {NULL};
	printf("bare %s\n", path);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		execve(path, argv, none);
		_exit(99);
	}
	show_child(child);
}

int main(int argc, char **argv)
{
	if (argc != 2 || strcmp(basename(argv[0]), "execs") || argv[1][0] != '/')
		return report(argc, argv);
	setenv("EXECS", "passed on", 1);
	int dirfd = open(argv[1], O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++) {
		for (enum form form = EXECVE; form < FORMS; form++)
			try(form, dirfd, join(argv[1], PROGRAMS[i]));
		try(EXECVEAT, dirfd, PROGRAMS[i]);
	}
	bare(join(argv[1], "bin/program"));
	bare(join(argv[1], "bin/script"));
	search(argv[1], "%s/absent:%s/bin:/usr/bin:/bin");
	search(argv[1], "/usr/bin:/bin:%s/bin");
	search(argv[1], "%s/plain:%s/lib:%s/bin");
	search(argv[1], "");
	if (chdir(join(argv[1], "bin")) == 0) {
		search(argv[1], ":/bin");
		try(EXECVE, AT_FDCWD, "script");
		try(SPAWN, AT_FDCWD, "./program");
	}
	unsetenv("PATH");
	try(EXECVP, AT_FDCWD, "true");
	return 0;
}
