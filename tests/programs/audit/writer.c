/* writer DIRECTORY: changes a directory's contents by every call. Linked without a loader it reports to no session. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, int flags, const char *text)
{
	int fd = open(path, flags | O_WRONLY | O_CREAT, 0755);
	if (fd < 0 || dprintf(fd, "%s", text) < 0 || close(fd) < 0)
		perror(path);
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1]) < 0)
		return 2;
	put("new", O_TRUNC, "#!/bin/sh\necho executed $0\n");
	put("overwritten", O_TRUNC, "NEW CONTENT\n");
	put("longer", O_APPEND, "more\n");
	put("other", O_TRUNC, "replacement\n");
	int failed = rename("other", "replaced") | unlink("removed") | unlink("current") | symlink("v2", "current");
	failed |= mkdir("made", 0755) | rename("moved", "there") | chmod("mode", 0600);
	put("made/inner", O_TRUNC, "inner\n");
	return failed ? 1 : 0;
}
