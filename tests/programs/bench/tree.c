/* Times what programs do to trees of files. tree ACTIONS ROUNDS PROCESSES LIST DIR...
 *
 * LIST contains paths of files below each DIR, a line for each; a file begins with its own path.
 * ACTIONS, separated by commas: walk (list every directory, and stat every name), find (the same by
 * find(1)), stat, read (open, read, compare, close), mixed (the same in no order), absent (stat what is
 * not there), big and map (read DIR/big, or touch its pages), run (run.sh of DIR).
 * Each action is done on each DIR in turn, ROUNDS times, by PROCESSES at once, which share the paths
 * among them. A line for each: ACTION DIR ROUND NANOSECONDS LONGEST, the last being the longest single
 * operation. Exit status 1 if anything failed or had other bytes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char **paths;
static int path_count, process, processes;
static long longest_ns;

static long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void fail(const char *action, const char *path)
{
	fprintf(stderr, "tree: %s %s: %s\n", action, path, strerror(errno));
	exit(1);
}

static void load(const char *list)
{
	FILE *file = fopen(list, "r");
	char line[4096];
	if (!file)
		fail("open", list);
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = 0;
		paths = realloc(paths, (path_count + 1) * sizeof *paths);
		paths[path_count++] = strdup(line);
	}
	fclose(file);
}

static void do_stat(int dir, const char *path)
{
	struct stat s;
	if (fstatat(dir, path, &s, AT_SYMLINK_NOFOLLOW))
		fail("stat", path);
}

static void do_absent(int dir, const char *path)
{
	char name[4096];
	struct stat s;
	snprintf(name, sizeof name, "%s.none", path);
	if (!fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) || errno != ENOENT)
		fail("absent", path);
}

static void do_read(int dir, const char *path)
{
	char bytes[64 << 10];
	int fd = openat(dir, path, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
	if (got < 0)
		fail("read", path);
	errno = 0;
	if (strncmp(bytes, path, strlen(path)) || got < (ssize_t)strlen(path))
		fail("other bytes in", path);
	close(fd);
}

/* `stride`: 1, or a number that has no divisor in common with the paths' count. */
static void each(int dir, void (*action)(int, const char *), long stride)
{
	for (int i = process; i < path_count; i += processes) {
		long start = now_ns();
		action(dir, paths[i * stride % path_count]);
		long took = now_ns() - start;
		if (took > longest_ns)
			longest_ns = took;
	}
}

static void walk(int dir)
{
	DIR *stream = fdopendir(dir);
	struct dirent *entry;
	struct stat s;
	if (!stream)
		fail("opendir", "");
	while ((entry = readdir(stream))) {
		if (entry->d_name[0] == '.')
			continue;
		if (fstatat(dirfd(stream), entry->d_name, &s, AT_SYMLINK_NOFOLLOW))
			fail("stat", entry->d_name);
		if (S_ISDIR(s.st_mode))
			walk(openat(dirfd(stream), entry->d_name, O_RDONLY | O_DIRECTORY));
	}
	closedir(stream);
}

static void big(int dir)
{
	size_t bytes = 1 << 20;
	char *buffer = malloc(bytes);
	int fd = openat(dir, "big", O_RDONLY);
	ssize_t got;
	if (fd < 0)
		fail("open", "big");
	while ((got = read(fd, buffer, bytes)) > 0)
		;
	if (got < 0)
		fail("read", "big");
	close(fd);
	free(buffer);
}

static void map(int dir)
{
	struct stat s;
	unsigned long sum = 0;
	int fd = openat(dir, "big", O_RDONLY);
	if (fd < 0 || fstat(fd, &s))
		fail("open", "big");
	volatile unsigned char *at = mmap(NULL, s.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		fail("map", "big");
	for (off_t i = 0; i < s.st_size; i += 4096)
		sum += at[i];
	munmap((void *)at, s.st_size);
	close(fd);
	errno = (int)(sum & 1);
}

static void start(int dir, char *const *argv)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);
		if (fchdir(dir) || dup2(null, 1) < 0)
			_exit(126);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0 || status)
		fail("run", argv[0]);
}

static void act(const char *action, int dir)
{
	if (!strcmp(action, "stat"))
		each(dir, do_stat, 1);
	else if (!strcmp(action, "read"))
		each(dir, do_read, 1);
	else if (!strcmp(action, "mixed"))
		each(dir, do_read, 7919);
	else if (!strcmp(action, "absent"))
		each(dir, do_absent, 1);
	else if (!strcmp(action, "walk"))
		walk(openat(dir, ".", O_RDONLY | O_DIRECTORY));
	else if (!strcmp(action, "find"))
		start(dir, (char *[]){"find", ".", "-size", "-0", NULL});
	else if (!strcmp(action, "big"))
		big(dir);
	else if (!strcmp(action, "map"))
		map(dir);
	else if (!strcmp(action, "run"))
		start(dir, (char *[]){"/bin/sh", "run.sh", NULL});
	else
		fail("no action", action);
}

/* All processes at once: each reports that it is there, and begins when all are. */
static void together(const char *action, int number, const char *name, int round)
{
	struct {
		int ready, go;
		long longest_ns[64];
	} volatile *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int failed = 0, status, dir = open(name, O_RDONLY | O_DIRECTORY);
	if (dir < 0)
		fail("open", name);
	for (process = 0; process < processes; process++) {
		if (fork())
			continue;
		__atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
		while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST))
			usleep(100);
		act(action, dir);
		shared->longest_ns[process] = longest_ns;
		_exit(0);
	}
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < processes)
		usleep(100);
	long start_ns = now_ns(), most = 0;
	__atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
	while (wait(&status) > 0)
		failed |= status;
	long took = now_ns() - start_ns;
	for (int i = 0; i < processes; i++)
		if (shared->longest_ns[i] > most)
			most = shared->longest_ns[i];
	if (failed)
		exit(1);
	printf("%s %d %d %ld %ld\n", action, number, round, took, most);
	fflush(stdout);
	munmap((void *)shared, sizeof *shared);
	close(dir);
}

static void alone(const char *action, int number, const char *name, int round)
{
	longest_ns = 0;
	int dir = open(name, O_RDONLY | O_DIRECTORY);
	if (dir < 0)
		fail("open", name);
	long start_ns = now_ns();
	act(action, dir);
	printf("%s %d %d %ld %ld\n", action, number, round, now_ns() - start_ns, longest_ns);
	fflush(stdout);
	close(dir);
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	int rounds = atoi(argv[2]);
	processes = atoi(argv[3]);
	if (processes < 1 || processes > 64)
		return 2;
	load(argv[4]);
	for (int round = 0; round < rounds; round++) {
		char *actions = strdup(argv[1]);
		for (char *action = strtok(actions, ","); action; action = strtok(NULL, ","))
			for (int number = 0; number < argc - 5; number++)
				(processes > 1 ? together : alone)(action, number, argv[5 + number], round);
		free(actions);
	}
	return 0;
}
