/* Reaches the C library by paths that the loader's symbol binding does not see: through pointers in data, and, built
 * with -fno-plt, through the global offset table. by_pointer FILE DIR LIBRARY */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct operations {
	FILE *(*fopen)(const char *, const char *);
	int (*open)(const char *, int, ...);
	int (*stat)(const char *, struct stat *);
	DIR *(*opendir)(const char *);
	int (*access)(const char *, int);
};

/* Constant: lies in RELRO. */
static const struct operations constant = {fopen, open, stat, opendir, access};
/* Writable, and compared with what the program itself calls. */
struct operations writable = {fopen, open, stat, opendir, access};
int (*const volatile stat_pointer)(const char *, struct stat *) = stat;

static long all(const struct operations *with, char **argv)
{
	char bytes[100];
	struct stat s;
	FILE *file = with->fopen(argv[1], "r");
	long sum = file ? (long)fread(bytes, 1, sizeof bytes, file) : -1;
	if (file)
		fclose(file);
	int fd = with->open(argv[1], O_RDONLY);
	sum += read(fd, bytes, sizeof bytes);
	close(fd);
	sum += with->stat(argv[1], &s) ? -1 : s.st_size;
	sum += with->stat(argv[2], &s) ? -1 : (long)s.st_nlink;
	DIR *stream = with->opendir(argv[2]);
	while (stream && readdir(stream))
		sum += 1000;
	if (stream)
		closedir(stream);
	return sum + with->access(argv[1], R_OK) + with->access("/nonexistent", R_OK);
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
	(void)argc;
	struct operations direct = {fopen, open, stat, opendir, access};
	printf("constant %ld\n", all(&constant, argv));
	printf("writable %ld\n", all(&writable, argv));
	printf("direct %ld\n", all(&direct, argv));
	printf("equal %d %d\n", stat_pointer == stat, constant.fopen == direct.fopen);
	void *library = dlopen(argv[3], RTLD_NOW);
	long (*in_library)(char **) = library ? (long (*)(char **))dlsym(library, "in_library") : NULL;
	printf("library %ld\n", in_library ? in_library(argv) : -1);
	void *other = dlmopen(LM_ID_NEWLM, argv[3], RTLD_NOW);
	long (*elsewhere)(char **) = other ? (long (*)(char **))dlsym(other, "in_library") : NULL;
	printf("namespace %ld\n", elsewhere ? elsewhere(argv) : -1);
	return 0;
}
#else
long in_library(char **argv);
long in_library(char **argv)
{
	return all(&constant, argv) + all(&writable, argv);
}
#endif
