/* The state of a zygote: whether it can be faithful, and whether its files are still those on the disk. */
#include "../core/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* inotify reports changes by this machine at once. Changes by others on a shared file system, and names that refer
 * to another file now, are checked at this interval. */
#define CHECK_MS 1000
/* Replaced, removed, written to, or changed in its permissions. */
#define CHANGES (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define PATH_BYTES 64

struct hwsp_seen {
	char *path;
	struct hwsp_identity file;
};

static bool add_refusal(char reason[HWSP_REASON_BYTES], const char *what, const char *detail)
{
	hwsp_add_reason(reason, "%s%.100s", what, detail);
	return false;
}

/* The target of a process's descriptor, as text. */
static void target_of(const char *process, int fd, char target[PATH_MAX])
{
	char path[PATH_BYTES];
	snprintf(path, sizeof path, "/proc/%s/fd/%d", process, fd);
	hwsp_read_link(path, target, PATH_MAX);
}

/* Checks that inherited descriptors still have their targets. */
static bool check_given(const char *process, const struct hwsp_inherited *inherited, char reason[HWSP_REASON_BYTES])
{
	char own[PATH_MAX], its[PATH_MAX];

	for (uint32_t i = 0; i < inherited->fd_count; i++) {
		target_of("self", inherited->fds[i], own);
		target_of(process, inherited->fds[i], its);
		if (strcmp(own, its))
			return add_refusal(reason, *its ? "it has replaced " : "it has closed ", own);
	}
	return true;
}

/* libffi keeps its own file open, to map more of it, from the first call back on: under the same number in each
 * process. */
static bool is_libffi(const char *target)
{
	const char *slash = strrchr(target, '/');
	return slash && !strncmp(slash + 1, "libffi", 6);
}

/* Checks that it has one thread, and no descriptors but those that it has inherited. */
static bool check_process(pid_t pid, const struct hwsp_inherited *inherited, int boundary,
	char reason[HWSP_REASON_BYTES])
{
	char path[PATH_BYTES], target[PATH_MAX], number[16];
	struct dirent *entry;
	bool good = true;
	int tasks = 0;

	snprintf(number, sizeof number, "%d", pid);

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		tasks += entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	if (tasks != 1)
		good = add_refusal(reason, "it has started threads", "");
	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	directory = opendir(path);
	if (!directory)
		return add_refusal(reason, "it has become unreadable", "");
	while ((entry = readdir(directory))) {
		int fd = atoi(entry->d_name);
		bool known = entry->d_name[0] == '.' || fd >= boundary;
		for (uint32_t i = 0; !known && i < inherited->fd_count; i++)
			known = inherited->fds[i] == fd;
		if (known)
			continue;
		target_of(number, fd, target);
		if (is_libffi(target))
			continue;
		good = add_refusal(reason, "it has opened ", target);
	}
	closedir(directory);
	return check_given(number, inherited, reason) && good;
}

static bool remember(struct hwsp_watch *watch, const char *path)
{
	struct hwsp_identity file;

	if (watch->count && !strcmp(watch->seen[watch->count - 1].path, path))
		return true;
	if (!hwsp_identify(path, &file))
		return false;
	struct hwsp_seen *grown = realloc(watch->seen, (watch->count + 1) * sizeof *grown);
	char *copy = strdup(path);
	if (grown)
		watch->seen = grown;
	if (!grown || !copy) {
		free(copy);
		return false;
	}
	grown[watch->count++] = (struct hwsp_seen){copy, file};
	/* Without a free watch, files are polled. */
	if (watch->inotify < 0 || inotify_add_watch(watch->inotify, path, CHANGES) < 0)
		watch->is_notified = false;
	return true;
}

/* Files in memory lie there too. */
static bool is_device(const char *path)
{
	struct stat file;
	return !strncmp(path, "/dev/", 5) && (stat(path, &file) || !S_ISREG(file.st_mode));
}

/* Returns the rest of a path behind the directory of the session's table; NULL if it lies elsewhere, or there is no
 * session. */
static const char *in_session(const char *path, char *const *envp)
{
	static const char variable[] = "HEADWATER_TABLE=", name[] = "/table";
	char table[PATH_MAX];

	while (*envp && strncmp(*envp, variable, sizeof variable - 1))
		envp++;
	if (!*envp || !realpath(*envp + sizeof variable - 1, table))
		return NULL;
	size_t length = strlen(table), directory = length - (sizeof name - 1);
	bool is_table = length > sizeof name && !strcmp(table + directory, name);
	return is_table && !strncmp(path, table, directory) ? path + directory : NULL;
}

/* The counters of the session whose table the zygote uses: the audit library supports forks. */
static bool is_counters(const char *path, char *const *envp)
{
	const char *rest = in_session(path, envp);
	return rest && !strcmp(rest, "/counters");
}

/* Returns the source path of a copy that the session has made of it, or the path. Copies on a RAM disk of the session's
 * own, which is mounted nowhere, have names that resolve to nothing. */
static const char *source_path(const char *path, char *const *envp)
{
	static const char mirror[] = "/root";
	const char *rest = in_session(path, envp);

	if (!rest || strncmp(rest, mirror, sizeof mirror - 1))
		return path;
	rest += sizeof mirror - 1;
	rest += strspn(rest, "0123456789");
	return *rest == '/' ? rest : path;
}

/* Files and private memory; nothing that is shared with a device or another process. */
static bool check_memory(struct hwsp_watch *watch, pid_t pid, char *const *envp, char reason[HWSP_REASON_BYTES])
{
	char path[PATH_BYTES], line[PATH_MAX + 128], permissions[5];
	bool good = true;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return add_refusal(reason, "it has become unreadable", "");
	while (good && fgets(line, sizeof line, maps)) {
		int name = 0;
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%*s %4s %*s %*s %*s %n", permissions, &name) != 1)
			continue;
		const char *file = source_path(name ? line + name : "", envp);
		bool own = !strncmp(file, "/memfd:headwater-spawn", 22) || is_counters(file, envp);
		if (is_device(file) || (permissions[1] == 'w' && permissions[3] == 's' && !own))
			good = add_refusal(reason, "it shares memory with ", *file ? file : "others");
		else if (file[0] == '/' && !own && !remember(watch, file))
			good = add_refusal(reason, "it has loaded what is no longer there: ", file);
	}
	fclose(maps);
	return good;
}

/* A signal that is never sent marks the descriptor: the program may have closed it, and opened another of this number,
 * which is not to be read or closed. */
#define MARK (SIGRTMAX - 3)

static bool is_open(const struct hwsp_watch *watch)
{
	return watch->inotify >= 0 && fcntl(watch->inotify, F_GETSIG) == MARK;
}

bool hwsp_watch_begin(struct hwsp_watch *watch, pid_t pid, const struct hwsp_start *start, int boundary,
	char reason[HWSP_REASON_BYTES])
{
	*watch = (struct hwsp_watch){.inotify = hwsp_move_high(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
		.checked_ms = hwsp_now_ms(),
		.is_notified = true};
	if (watch->inotify >= 0)
		fcntl(watch->inotify, F_SETSIG, MARK);
	char found[HWSP_REASON_BYTES] = "";
	bool process = check_process(pid, start->inherited, boundary, found);
	if (check_memory(watch, pid, start->envp, found) && process)
		return true;
	static const char *const when[] = {
		[PSPAWN_STOP_LOAD] = "as it was loaded",
		[PSPAWN_STOP_MAIN] = "before main",
		[PSPAWN_STOP_CALL] = "before it stopped",
		[PSPAWN_STOP_PYTHON] = "during its imports",
	};
	hwsp_add_reason(reason, "%s, %s", when[start->options->stop], found);
	hwsp_watch_end(watch);
	return false;
}

static bool is_as_seen(const struct hwsp_seen *seen)
{
	struct hwsp_identity now;
	return hwsp_identify(seen->path, &now) && hwsp_is_same(&now, &seen->file);
}

bool hwsp_watch_unchanged(struct hwsp_watch *watch)
{
	_Alignas(struct inotify_event) char event[sizeof(struct inotify_event) + NAME_MAX + 1];

	bool is_notified = watch->is_notified && is_open(watch);
	if (is_notified && read(watch->inotify, event, sizeof event) > 0)
		return false;
	long now = hwsp_now_ms();
	if (is_notified && now - watch->checked_ms < CHECK_MS)
		return true;
	watch->checked_ms = now;
	for (size_t i = 0; i < watch->count; i++)
		if (!is_as_seen(&watch->seen[i]))
			return false;
	return true;
}

void hwsp_watch_end(struct hwsp_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		free(watch->seen[i].path);
	free(watch->seen);
	if (is_open(watch))
		close(watch->inotify);
	*watch = (struct hwsp_watch){.inotify = -1};
}
