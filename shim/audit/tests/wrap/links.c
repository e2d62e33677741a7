/* readlink and realpath: links DIR. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "show.h"

ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

static void show_link(const char *what, const char *path, ssize_t bytes, const char *target)
{
	show(what, path, bytes);
	if (bytes >= 0)
		printf("  %.*s\n", (int)bytes, target);
}

static void show_path(const char *what, const char *path, const char *result)
{
	/* libc's own realpath leaves a mark on errno even if it succeeds. */
	if (result)
		MARK();
	show(what, path, result ? 0 : -1);
	printf("  %s\n", result ? result : "-");
}

static void show_links(int dirfd, const char *name, const char *path)
{
	char target[PATH_MAX];
	static const size_t sizes[] = {sizeof target, 4, 0};
	for (size_t i = 0; i < 3; i++) {
		MARK();
		show_link("readlink", path, readlink(path, target, sizes[i]), target);
		MARK();
		show_link("readlinkat", name, readlinkat(dirfd, name, target, sizes[i]), target);
		MARK();
		show_link("readlinkat by number", name, syscall(SYS_readlinkat, dirfd, name, target, sizes[i]), target);
#ifdef SYS_readlink
		MARK();
		show_link("readlink by number", path, syscall(SYS_readlink, path, target, sizes[i]), target);
#endif
		MARK();
		show_link("__readlink_chk", path, __readlink_chk(path, target, sizes[i], sizeof target), target);
	}
	MARK();
	show_path("realpath", path, realpath(path, target));
	MARK();
	show_path("__realpath_chk", path, __realpath_chk(path, target, sizeof target));
	MARK();
	char *result = realpath(path, NULL);
	show_path("realpath allocated", path, result);
	free(result);
	MARK();
	result = canonicalize_file_name(path);
	show_path("canonicalize_file_name", path, result);
	free(result);
}

int main(int argc, char **argv)
{
	char target[PATH_MAX];
	if (argc != 2)
		return 2;
	int dirfd = open(argv[1], O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < NAME_COUNT; i++)
		show_links(dirfd, NAMES[i], join(argv[1], NAMES[i]));
	show_path("realpath", "of itself", realpath("/proc/self/exe", target));
	show_link("readlink", "of itself", readlink("/proc/self/exe", target, sizeof target), target);
	long bytes = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", target, sizeof target);
	show_link("readlinkat by number", "of itself", bytes, target);
#ifdef SYS_readlink
	show_link("readlink by number", "of itself", syscall(SYS_readlink, "/proc/self/exe", target, sizeof target),
		target);
#endif
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", open(join(argv[1], "lib/large"), O_RDONLY));
	show_path("realpath", "of a descriptor", realpath(link, target));
	if (chdir(argv[1]) == 0)
		for (size_t i = 0; i < NAME_COUNT; i++)
			show_links(AT_FDCWD, NAMES[i], NAMES[i]);
	return 0;
}
