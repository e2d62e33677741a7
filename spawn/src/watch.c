/* What a zygote is made of: whether it can be faithful, and whether its files are still those on the disk. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Changes made by this machine are told at once. Those of others, on a shared file system, and names that mean another
 * file now, are looked for so often. */
#define LOOK_MS 1000
/* Replaced, removed, written to or given other permissions. */
#define CHANGES (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define PATH_BYTES 64

struct hw_seen {
	char *path;
	dev_t device;
	ino_t number;
	off_t bytes;
	struct timespec modified, changed;
};

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool refuse(char reason[HW_REASON_BYTES], const char *what, const char *detail)
{
	snprintf(reason, HW_REASON_BYTES, "before main, %s%.100s", what, detail);
	return false;
}

/* One thread; descriptors that it was given, and no others. */
static bool check_process(pid_t pid, const struct hw_inherited *inherited, int boundary, char reason[HW_REASON_BYTES])
{
	char path[PATH_BYTES], target[PATH_MAX];
	struct dirent *entry;
	int tasks = 0;

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		tasks += entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	if (tasks != 1)
		return refuse(reason, "it has started threads", "");
	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	directory = opendir(path);
	if (!directory)
		return refuse(reason, "it has become unreadable", "");
	while ((entry = readdir(directory))) {
		int fd = atoi(entry->d_name);
		bool known = entry->d_name[0] == '.' || fd >= boundary;
		for (uint32_t i = 0; !known && i < inherited->fd_count; i++)
			known = inherited->fds[i] == fd;
		if (known)
			continue;
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
		target[length > 0 ? length : 0] = 0;
		closedir(directory);
		return refuse(reason, "it has opened ", target);
	}
	closedir(directory);
	return true;
}

static bool remember(struct hw_watch *watch, const char *path)
{
	struct stat file;

	if (watch->count && !strcmp(watch->seen[watch->count - 1].path, path))
		return true;
	if (stat(path, &file))
		return false;
	struct hw_seen *grown = realloc(watch->seen, (watch->count + 1) * sizeof *grown);
	char *copy = strdup(path);
	if (grown)
		watch->seen = grown;
	if (!grown || !copy) {
		free(copy);
		return false;
	}
	grown[watch->count++] =
		(struct hw_seen){copy, file.st_dev, file.st_ino, file.st_size, file.st_mtim, file.st_ctim};
	/* Without room for a watch, looking is what is left. */
	if (watch->inotify >= 0)
		inotify_add_watch(watch->inotify, path, CHANGES);
	return true;
}

/* Files, and memory of its own; nothing that it shares with a device or with others. */
static bool check_memory(struct hw_watch *watch, pid_t pid, char reason[HW_REASON_BYTES])
{
	char path[PATH_BYTES], line[PATH_MAX + 128], permissions[5];
	bool good = true;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return refuse(reason, "it has become unreadable", "");
	while (good && fgets(line, sizeof line, maps)) {
		int name = 0;
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%*s %4s %*s %*s %*s %n", permissions, &name) != 1)
			continue;
		const char *file = name ? line + name : "";
		bool own = !strncmp(file, "/memfd:headwater-spawn", 22);
		if (!strncmp(file, "/dev/", 5) || (permissions[1] == 'w' && permissions[3] == 's' && !own))
			good = refuse(reason, "it shares memory with ", *file ? file : "others");
		else if (file[0] == '/' && !own && !remember(watch, file))
			good = refuse(reason, "it has loaded what is no longer there: ", file);
	}
	fclose(maps);
	return good;
}

bool hw_watch_begin(struct hw_watch *watch, pid_t pid, const struct hw_inherited *inherited, int boundary,
                    char reason[HW_REASON_BYTES])
{
	*watch = (struct hw_watch){.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .looked_ms = now_ms()};
	if (check_process(pid, inherited, boundary, reason) && check_memory(watch, pid, reason))
		return true;
	hw_watch_end(watch);
	return false;
}

static bool is_as_seen(const struct hw_seen *seen)
{
	struct stat file;
	return stat(seen->path, &file) == 0 && file.st_dev == seen->device && file.st_ino == seen->number &&
	       file.st_size == seen->bytes && file.st_mtim.tv_sec == seen->modified.tv_sec &&
	       file.st_mtim.tv_nsec == seen->modified.tv_nsec && file.st_ctim.tv_sec == seen->changed.tv_sec &&
	       file.st_ctim.tv_nsec == seen->changed.tv_nsec;
}

bool hw_watch_unchanged(struct hw_watch *watch)
{
	_Alignas(struct inotify_event) char event[sizeof(struct inotify_event) + NAME_MAX + 1];

	if (watch->inotify >= 0 && read(watch->inotify, event, sizeof event) > 0)
		return false;
	long now = now_ms();
	if (now - watch->looked_ms < LOOK_MS)
		return true;
	watch->looked_ms = now;
	for (size_t i = 0; i < watch->count; i++)
		if (!is_as_seen(&watch->seen[i]))
			return false;
	return true;
}

void hw_watch_end(struct hw_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		free(watch->seen[i].path);
	free(watch->seen);
	if (watch->inotify >= 0)
		close(watch->inotify);
	*watch = (struct hw_watch){.inotify = -1};
}
