/* open, fopen and their relatives for reading: opens DIR. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "show.h"

int __open_2(const char *path, int flags);
int __openat_2(int fd, const char *path, int flags);

static void show_content(const char *what, const char *path, int fd)
{
	char bytes[8192];
	show(what, path, fd);
	if (fd < 0)
		return;
	ssize_t count = read(fd, bytes, sizeof bytes);
	unsigned sum = 0;
	for (ssize_t i = 0; i < count; i++)
		sum = sum * 31 + (unsigned char)bytes[i];
	int flags = fcntl(fd, F_GETFL);
	printf("  %zd bytes, sum %u, flags %o, close on exec %d\n", count, sum, flags, fcntl(fd, F_GETFD));
	char link[64], target[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, target, sizeof target);
	printf("  is %.*s\n", (int)length, target);
	length = readlink(link, target, 9);
	printf("  begins %.*s\n", (int)length, target);
	close(fd);
}

static void show_stream(const char *path, const char *mode)
{
	char line[64] = "";
	MARK();
	FILE *file = fopen(path, mode);
	show("fopen", path, file ? 0 : -1);
	if (!file)
		return;
	const char *read = fgets(line, sizeof line, file);
	printf("  %s: %.5s, close on exec %d\n", mode, read ? line : "nothing", fcntl(fileno(file), F_GETFD));
	fclose(file);
}

static void by_path(int dirfd, const char *name, const char *path)
{
	static const int flags[] = {O_RDONLY | O_NONBLOCK, O_NONBLOCK | O_CLOEXEC, O_NONBLOCK | O_NOFOLLOW,
		O_NONBLOCK | O_DIRECTORY, O_NONBLOCK | O_NOFOLLOW | O_DIRECTORY, O_PATH, O_PATH | O_NOFOLLOW,
		O_NONBLOCK | O_NOATIME, O_NONBLOCK | O_APPEND, O_NONBLOCK | O_EXCL};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		MARK();
		show_content("open", path, open(path, flags[i]));
		MARK();
		show_content("open64", path, open64(path, flags[i]));
		MARK();
		show_content("openat", name, openat(dirfd, name, flags[i]));
		MARK();
		show_content("__open_2", path, __open_2(path, flags[i]));
		MARK();
		show_content("__openat_2", name, __openat_2(dirfd, name, flags[i]));
	}
	if (strcmp(name, "lib/fifo") == 0)
		return;
	static const char *const modes[] = {"r", "rb", "re", "rm", "r,ccs=UTF-8", "rx"};
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		show_stream(path, modes[i]);
	char text[16] = "";
	FILE *again = freopen(path, "r", fopen("/dev/null", "r"));
	printf("freopen %s: %s\n", path, again && fgets(text, sizeof text, again) ? text : "nothing");
	if (again)
		fclose(again);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	int dirfd = open(argv[1], O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < NAME_COUNT; i++)
		by_path(dirfd, NAMES[i], join(argv[1], NAMES[i]));
	MARK();
	show("open", "of a bad descriptor", openat(4711, "plain", O_RDONLY));
	MARK();
	const char *volatile nothing = NULL;
	show("open", "of a null path", open(nothing, O_RDONLY));
	if (chdir(argv[1]) == 0) {
		for (size_t i = 0; i < NAME_COUNT; i++)
			by_path(AT_FDCWD, NAMES[i], NAMES[i]);
	}
	return 0;
}
