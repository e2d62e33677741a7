/* Ranks 0 and 1 on two nodes. exchange DIR MEETING: rank 0 writes below DIR, which is in the scope; rank 1 has read
 * before, waits for it, and reads. MEETING is a directory beside, to take turns. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char path_buffer[4][4096];

static const char *in(const char *dir, const char *name)
{
	static int turn;
	char *path = path_buffer[turn++ % 4];
	snprintf(path, 4096, "%s/%s", dir, name);
	return path;
}

static void wait_for(const char *path)
{
	for (int i = 0; i < 2000 && access(path, F_OK); i++)
		usleep(10000);
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file))
		printf("write %s: %s\n", path, strerror(errno));
}

static const char *read_text(const char *path)
{
	static char text[256];
	FILE *file = fopen(path, "r");
	if (!file)
		return strerror(errno);
	size_t bytes = fread(text, 1, sizeof text - 1, file);
	text[bytes] = 0;
	fclose(file);
	return text;
}

static int names(const char *path)
{
	DIR *stream = opendir(path);
	int count = 0;
	while (stream && readdir(stream))
		count++;
	if (stream)
		closedir(stream);
	return count;
}

static void writer(const char *dir, const char *meeting)
{
	struct timespec times[2] = {{1000, 0}, {2000, 0}};
	printf("0 before %s", read_text(in(dir, "existing")));
	wait_for(in(meeting, "checked"));
	write_text(in(dir, "new"), "new text\n");
	write_text(in(dir, "existing"), "changed text\n");
	if (mkdir(in(dir, "__pycache__"), 0755))
		printf("mkdir: %s\n", strerror(errno));
	write_text(in(dir, "__pycache__/part"), "cached text\n");
	if (rename(in(dir, "__pycache__/part"), in(dir, "__pycache__/mod.pyc")))
		printf("rename: %s\n", strerror(errno));
	unlink(in(dir, "removed"));
	rename(in(dir, "old-dir"), in(dir, "new-dir"));
	symlink("new", in(dir, "link"));
	utimensat(AT_FDCWD, in(dir, "timed"), times, 0);
	chmod(in(dir, "timed"), 0600);
	truncate(in(dir, "short"), 3);
	int fd = open(in(dir, "appended"), O_WRONLY | O_APPEND);
	if (write(fd, "more\n", 5) != 5)
		printf("append: %s\n", strerror(errno));
	close(fd);
	printf("0 after %s", read_text(in(dir, "existing")));
	printf("0 names %d\n", names(dir));
	write_text(in(meeting, "written"), "");
}

static void reader(const char *dir, const char *meeting)
{
	struct stat s;
	printf("1 before %s", read_text(in(dir, "existing")));
	printf("1 new %s\n", read_text(in(dir, "new")));
	printf("1 cache %s\n", read_text(in(dir, "__pycache__/mod.pyc")));
	printf("1 removed %s", read_text(in(dir, "removed")));
	printf("1 inner %s", read_text(in(dir, "old-dir/inner")));
	printf("1 appended %s", read_text(in(dir, "appended")));
	printf("1 timed %d\n", stat(in(dir, "timed"), &s));
	printf("1 short %d\n", stat(in(dir, "short"), &s));
	printf("1 names %d\n", names(dir));
	write_text(in(meeting, "checked"), "");
	wait_for(in(meeting, "written"));
	/* Another node's writes are seen after a moment: the message about them travels beside. */
	wait_for(in(dir, "new"));
	wait_for(in(dir, "__pycache__/mod.pyc"));
	for (int i = 0;
		i < 500 && (names(dir) != 10 || access(in(dir, "link"), F_OK) || !access(in(dir, "removed"), F_OK));
		i++)
		usleep(10000);
	usleep(300000);
	printf("1 new %s", read_text(in(dir, "new")));
	printf("1 cache %s", read_text(in(dir, "__pycache__/mod.pyc")));
	printf("1 existing %s", read_text(in(dir, "existing")));
	printf("1 removed %s\n", read_text(in(dir, "removed")));
	printf("1 inner %s\n", read_text(in(dir, "old-dir/inner")));
	printf("1 moved %s", read_text(in(dir, "new-dir/inner")));
	printf("1 link %s", read_text(in(dir, "link")));
	printf("1 appended %s", read_text(in(dir, "appended")));
	printf("1 timed %d", stat(in(dir, "timed"), &s));
	printf(" %ld %o\n", (long)s.st_mtime, s.st_mode);
	printf("1 short %d", stat(in(dir, "short"), &s));
	printf(" %ld %s\n", (long)s.st_size, read_text(in(dir, "short")));
	printf("1 names %d\n", names(dir));
}

int main(int argc, char **argv)
{
	const char *rank = getenv("HEADWATER_RANK");
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (argc > 3)
		rank = argv[3];
	if (rank && rank[0] == '1')
		reader(argv[1], argv[2]);
	else
		writer(argv[1], argv[2]);
	return 0;
}
