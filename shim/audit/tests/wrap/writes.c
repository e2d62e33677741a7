/* Every call that changes the tree, and what is seen afterwards: writes DIR (which is changed). */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "show.h"

static const char *top;

static void show_file(const char *name)
{
	struct stat st;
	char bytes[32] = "";
	const char *path = join(top, name);
	if (lstat(path, &st) != 0) {
		printf("  %s: %s\n", name, strerror(errno));
		return;
	}
	int fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY) : -1;
	ssize_t count = fd < 0 ? 0 : read(fd, bytes, sizeof bytes - 1);
	close(fd);
	printf("  %s: mode %o links %lu size %ld: %.*s\n", name, st.st_mode, st.st_nlink,
		S_ISDIR(st.st_mode) ? 0 : st.st_size, (int)count, bytes);
}

static void show_names(const char *name)
{
	DIR *dir = opendir(join(top, name));
	const struct dirent *entry;
	unsigned count = 0;
	while (dir && (entry = readdir(dir)))
		count++;
	printf("  %s holds %u\n", name, count);
	if (dir)
		closedir(dir);
}

#define DO(call, name) \
	do { \
		MARK(); \
		show(#call, name, (long)(call)); \
		show_file(name); \
	} while (0)

static void files(int fd)
{
	int made = open(join(top, "lib/new"), O_WRONLY | O_CREAT | O_EXCL, 0640);
	show("create", "lib/new", write(made, "new\n", 4));
	close(made);
	show_file("lib/new");
	show_names("lib");
	close(openat(fd, "plain", O_RDWR | O_TRUNC));
	show_file("plain");
	close(creat(join(top, "lib/created"), 0600));
	show_file("lib/created");
	FILE *file = fopen(join(top, "lib/appended"), "a");
	fputs("one", file);
	fclose(file);
	file = fopen(join(top, "lib/appended"), "r+");
	fputs("two", file);
	fclose(file);
	show_file("lib/appended");
	DO(truncate(join(top, "lib/large"), 10), "lib/large");
	DO(chmod(join(top, "lib/nothing"), 0751), "lib/nothing");
	DO(fchmodat(fd, "lib/nothing", 0750, 0), "lib/nothing");
	DO(link(join(top, "lib/nothing"), join(top, "lib/linked")), "lib/linked");
	show_file("lib/nothing");
	DO(symlink("nothing", join(top, "lib/symlinked")), "lib/symlinked");
	DO(rename(join(top, "lib/linked"), join(top, "lib/renamed")), "lib/renamed");
	show_file("lib/linked");
	DO(unlink(join(top, "lib/renamed")), "lib/renamed");
	DO(unlinkat(fd, "link", 0), "link");
	DO(mkfifo(join(top, "lib/pipe"), 0600), "lib/pipe");
	DO(remove(join(top, "lib/pipe")), "lib/pipe");
}

static void directories(int fd)
{
	DO(mkdir(join(top, "made"), 0750), "made");
	DO(mkdirat(fd, "made/inner", 0700), "made/inner");
	DO(rename(join(top, "lib/deep"), join(top, "made/deep")), "made/deep/one");
	show_file("lib/deep/one");
	show_file("lib/deep");
	DO(rmdir(join(top, "empty")), "empty");
	DO(unlinkat(fd, "made/inner", AT_REMOVEDIR), "made/inner");
	show_names(".");
	show_names("made");
	char name[4096];
	snprintf(name, sizeof name, "%s/tempXXXXXX", top);
	int made = mkstemp(name);
	show("mkstemp", "", made);
	show("again", "", access(name, F_OK));
	unlink(name);
	snprintf(name, sizeof name, "%s/tempXXXXXX", top);
	show("mkdtemp", "", mkdtemp(name) ? 0 : -1);
	show("rmdir", "", rmdir(name));
}

/* A descriptor that was opened for reading only still names the original. */
static void descriptors(void)
{
	const struct timespec times[2] = {{1000, 5}, {2000, 6}};
	struct stat st;
	int fd = open(join(top, "lib/private"), O_RDONLY);
	DO(fchmod(fd, 0644), "lib/private");
	show("futimens", "", futimens(fd, times));
	stat(join(top, "lib/private"), &st);
	printf("  mtime %ld.%ld\n", st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	show("fchown", "", fchown(fd, getuid(), getgid()));
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	int again = open(link, O_WRONLY | O_TRUNC);
	show("reopen", "", write(again, "again", 5));
	show_file("lib/private");
	MARK();
	show("ftruncate", "", ftruncate(fd, 3));
	char value[16];
	show("fsetxattr", "", fsetxattr(fd, "user.mark", "x", 1, 0));
	show("fgetxattr", "", fgetxattr(fd, "user.mark", value, sizeof value));
}

/* A stream that was opened before its directory changed shows the change once rewound. */
static void rewound(void)
{
	DIR *dir = opendir(join(top, "bin"));
	unsigned before = 0, after = 0;
	while (readdir(dir))
		before++;
	close(open(join(top, "bin/later"), O_WRONLY | O_CREAT, 0600));
	rewinddir(dir);
	while (readdir(dir))
		after++;
	printf("rewound: %u more\n", after - before);
	closedir(dir);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	top = argv[1];
	int fd = open(top, O_RDONLY | O_DIRECTORY);
	descriptors();
	rewound();
	files(fd);
	directories(fd);
	show_names(".");
	show_names("lib");
	return 0;
}
