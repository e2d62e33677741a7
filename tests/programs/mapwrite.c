/* mapwrite FILE: writes into a shared map of FILE, and reads it back by a descriptor of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stat s;
	char back[8] = "";
	int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	if (fd < 0 || fstat(fd, &s))
		return perror("open"), 1;
	char *at = mmap(NULL, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return perror("mmap"), 1;
	memcpy(at + 50000, "written", 7);
	if (msync(at, s.st_size, MS_SYNC))
		return perror("msync"), 1;
	int again = open(argv[1], O_RDONLY);
	if (pread(again, back, 7, 50000) != 7 || strcmp(back, "written"))
		return printf("read back: %s\n", back), 1;
	munmap(at, s.st_size);
	return 0;
}
