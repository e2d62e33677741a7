/* Prints its arguments, and whether it was forked from a zygote or exec'd. Given ORIGIN_DESCRIPTORS, it prints before
 * that its open descriptors, with "c" behind those that exec closes. Given MILLISECONDS as ORIGIN_STAY, it stays
 * so long before. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char maps[1 << 20];
	const char *stay = getenv("ORIGIN_STAY"), *status = getenv("ORIGIN_STATUS");
	FILE *file = fopen("/proc/self/maps", "r");
	size_t length = file ? fread(maps, 1, sizeof maps - 1, file) : 0;

	if (!length)
		return 99;
	if (stay)
		usleep((useconds_t)atoi(stay) * 1000);
	for (int i = 1; i < argc; i++)
		printf("%s ", argv[i]);
	fclose(file);
	for (int fd = 0; getenv("ORIGIN_DESCRIPTORS") && fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (flags >= 0)
			printf("%d%s ", fd, flags & FD_CLOEXEC ? "c" : "");
	}
	printf("by %s\n", strstr(maps, "/libheadwater-zygote.so") ? "zygote" : "exec");
	fflush(stdout);
	return status ? atoi(status) : 0;
}
