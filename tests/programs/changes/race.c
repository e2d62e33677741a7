/*
 * race PORT DIR: carries out the lines of a connection to this machine, an operation each, and answers with a line.
 * Paths are relative to DIR. "look PATH..." shows what is there: type, mode and links, then the names of a directory,
 * or the size of a file and a sum of its bytes.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 1 << 16, WORDS = 64, NAMES = 256 };

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(FILE *to, const char *path)
{
	char *names[NAMES];
	size_t count = 0;
	DIR *dir = opendir(path);
	if (!dir) {
		fprintf(to, " error %d", errno);
		return;
	}
	for (struct dirent *entry; (entry = readdir(dir)) && count < NAMES;)
		if (entry->d_name[0] != '.')
			names[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(names, count, sizeof *names, by_name);
	for (size_t n = 0; n < count; n++) {
		fprintf(to, " %s", names[n]);
		free(names[n]);
	}
}

static void sum(FILE *to, const char *path)
{
	unsigned char bytes[1 << 14];
	unsigned long size = 0, sum = 5381;
	int fd = open(path, O_RDONLY);
	if (fd < 0) {
		fprintf(to, " error %d", errno);
		return;
	}
	for (ssize_t count; (count = read(fd, bytes, sizeof bytes)) > 0; size += (unsigned long)count)
		for (ssize_t n = 0; n < count; n++)
			sum = sum * 33 + bytes[n];
	close(fd);
	fprintf(to, " %lu %lx", size, sum);
}

static void look(FILE *to, const char *path)
{
	struct stat st;
	if (lstat(path, &st)) {
		fprintf(to, "%s: error %d; ", path, errno);
		return;
	}
	/* Kinds of file systems count the links and bytes of directories differently. */
	int is_dir = S_ISDIR(st.st_mode);
	fprintf(to, "%s: %o %ld", path, st.st_mode, is_dir ? 0 : (long)st.st_nlink);
	if (is_dir)
		list(to, path);
	else
		sum(to, path);
	fputs("; ", to);
}

/* Ten bytes that show the number. */
static int put(int fd, const char *number)
{
	char text[16];
	snprintf(text, sizeof text, "%09lu\n", strtoul(number, NULL, 10) % 1000000000);
	return write(fd, text, 10) == 10 ? 0 : -1;
}

static int fill(const char *path, int flags, const char *number, const char *times)
{
	int result = 0, fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
	if (fd < 0)
		return -1;
	for (int n = atoi(times); n > 0 && !result; n--)
		result = put(fd, number);
	return close(fd) ? -1 : result;
}

/* Other bytes, with the size and the time of modification of the ones before. */
static int swap(const char *path, const char *number)
{
	struct stat st;
	int fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	int result = fstat(fd, &st);
	if (!result && st.st_size >= 10)
		result = put(fd, number);
	if (!result)
		result = futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim});
	return close(fd) ? -1 : result;
}

static int change(char **word)
{
	if (!strcmp(word[0], "write"))
		return fill(word[1], O_TRUNC, word[2], word[3]);
	if (!strcmp(word[0], "append"))
		return fill(word[1], O_APPEND, word[2], word[3]);
	if (!strcmp(word[0], "swap"))
		return swap(word[1], word[2]);
	if (!strcmp(word[0], "truncate"))
		return truncate(word[1], atol(word[2]));
	if (!strcmp(word[0], "chmod"))
		return chmod(word[1], (mode_t)strtol(word[2], NULL, 8));
	if (!strcmp(word[0], "rename"))
		return rename(word[1], word[2]);
	if (!strcmp(word[0], "link"))
		return link(word[1], word[2]);
	if (!strcmp(word[0], "unlink"))
		return unlink(word[1]);
	if (!strcmp(word[0], "mkdir"))
		return mkdir(word[1], 0755);
	if (!strcmp(word[0], "rmdir"))
		return rmdir(word[1]);
	errno = ENOSYS;
	return -1;
}

int main(int argc, char **argv)
{
	static char line[LINE_BYTES];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (argc != 3 || chdir(argv[2]))
		return 2;
	to.sin_port = htons((in_port_t)atoi(argv[1]));
	if (connect(fd, (struct sockaddr *)&to, sizeof to) || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
		return 3;
	FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
	while (in && out && fgets(line, sizeof line, in)) {
		char *word[WORDS + 1] = {0};
		size_t count = 0;
		for (char *w = strtok(line, " \n"); w && count < WORDS; w = strtok(NULL, " \n"))
			word[count++] = w;
		if (!count)
			continue;
		if (!strcmp(word[0], "look")) {
			for (size_t n = 1; n < count; n++)
				look(out, word[n]);
		} else if (count > 1 && !change(word)) {
			fputs("done", out);
		} else {
			fprintf(out, "error %d", errno);
		}
		fputc('\n', out);
		if (fflush(out))
			return 4;
	}
	return 0;
}
