/* Directory streams and scandir: dirs DIR. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "show.h"

static void list(DIR *dir)
{
	const struct dirent *entry;
	MARK();
	while ((entry = readdir(dir))) {
		/* The mount point above is another file system's. */
		printf("  %s ino %lu type %d length %d\n", entry->d_name,
			strcmp(entry->d_name, "..") ? entry->d_ino : 0, entry->d_type, entry->d_reclen);
	}
	if (errno != 4444)
		printf("  ends with %s\n", strerror(errno));
}

static void positions(DIR *dir)
{
	char second[256] = "", again[256] = "";
	rewinddir(dir);
	if (!readdir(dir))
		return;
	long place = telldir(dir);
	const struct dirent *entry = readdir(dir);
	if (entry)
		strcpy(second, entry->d_name);
	while (readdir(dir))
		;
	seekdir(dir, place);
	entry = readdir(dir);
	if (entry)
		strcpy(again, entry->d_name);
	printf("  seek finds the same: %d\n", strcmp(second, again) == 0);
	rewinddir(dir);
	unsigned count = 0;
	while (readdir64(dir))
		count++;
	printf("  %u entries after rewinding\n", count);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void reentrant(DIR *dir)
{
	struct dirent entry, *result;
	unsigned count = 0, bytes = 0;
	rewinddir(dir);
	while (readdir_r(dir, &entry, &result) == 0 && result)
		count++, bytes += (unsigned)strlen(result->d_name);
	printf("  %u entries of %u bytes\n", count, bytes);
}

static void descriptor(DIR *dir, const char *path)
{
	struct stat st, by_path;
	int fd = dirfd(dir);
	if (fd < 0 || fstat(fd, &st) != 0 || stat(path, &by_path) != 0)
		printf("  no descriptor\n");
	else
		printf("  descriptor of the same directory: %d, again the same: %d, flags %d\n",
			st.st_ino == by_path.st_ino, fd == dirfd(dir), fcntl(fd, F_GETFD));
	MARK();
	show("  fstatat", "one", fstatat(fd, "one", &st, 0));
}

static int starts_with_t(const struct dirent *entry)
{
	return entry->d_name[0] == 't';
}

static int none(const struct dirent *entry)
{
	return !entry;
}

static void scan(const char *path, int (*select)(const struct dirent *),
	int (*compare)(const struct dirent **, const struct dirent **))
{
	struct dirent **names = NULL;
	MARK();
	int count = scandir(path, &names, select, compare);
	show("scandir", path, count);
	for (int i = 0; i < count; i++) {
		printf("  %s type %d\n", names[i]->d_name, names[i]->d_type);
		free(names[i]);
	}
	free(names);
}

static void show_listing(int base, const char *name, const char *path)
{
	MARK();
	DIR *dir = opendir(path);
	show("opendir", path, dir ? 0 : -1);
	if (dir) {
		list(dir);
		positions(dir);
		reentrant(dir);
		descriptor(dir, path);
		MARK();
		show("closedir", path, closedir(dir));
	}
	int fd = openat(base, name, O_RDONLY | O_NONBLOCK);
	MARK();
	dir = fdopendir(fd);
	show("fdopendir", name, dir ? 0 : -1);
	if (dir) {
		printf("  keeps the descriptor: %d\n", dirfd(dir) == fd);
		list(dir);
		closedir(dir);
		printf("  and closes it: %d\n", fcntl(fd, F_GETFD) < 0);
	} else if (fd >= 0) {
		close(fd);
	}
	scan(path, NULL, NULL);
	scan(path, NULL, alphasort);
	scan(path, starts_with_t, versionsort);
	scan(path, none, alphasort);
	struct dirent **names;
	MARK();
	int count = scandirat(base, name, &names, NULL, alphasort);
	show("scandirat", name, count);
	for (int i = 0; i < count; i++)
		free(names[i]);
	if (count >= 0)
		free(names);
}

/* A stream starts at its descriptor's position. */
static void midway(const char *path)
{
	char entries[4096];
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	while (getdents64(fd, entries, sizeof entries) > 0)
		;
	DIR *dir = fdopendir(fd);
	printf("midway in %s: %s\n", path, dir && readdir(dir) ? "an entry" : "the end");
	closedir(dir);
}

/* More streams at once than anyone should have. */
static void many(const char *path)
{
	static DIR *open[1200];
	unsigned entries = 0;
	for (size_t i = 0; i < 1200; i++) {
		open[i] = opendir(path);
		entries += open[i] && readdir(open[i]);
	}
	for (size_t i = 0; i < 1200; i++)
		entries += open[i] ? !closedir(open[i]) : 0;
	printf("many: %u\n", entries);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	int base = open(argv[1], O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < NAME_COUNT; i++)
		show_listing(base, NAMES[i], join(argv[1], NAMES[i]));
	midway(join(argv[1], "lib/deep"));
	many(join(argv[1], "lib/deep"));
	MARK();
	show("fdopendir", "of nothing", fdopendir(-1) ? 0 : -1);
	return 0;
}
