/* Maps a file with all flags, and reads it by calls that bypass the page cache or the process. maps FILE: a file of at
 * least two pages. "write" as a second argument: its permissions allow writing, which is tried as well. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "older.h"

static sigjmp_buf beyond;

static const char *error(int failed)
{
	return failed ? strerrorname_np(errno) : "ok";
}

static unsigned long checksum(const volatile unsigned char *bytes, size_t count)
{
	unsigned long sum = 5381;
	for (size_t i = 0; i < count; i++)
		sum = sum * 33 + bytes[i];
	return sum;
}

static void on_sigbus(int number)
{
	siglongjmp(beyond, number);
}

/* A map with these rights; the sum of its bytes, and of those after one of them changed. */
static void map(const char *how, int fd, size_t bytes, int rights, int flags)
{
	unsigned char *at = mmap(NULL, bytes, rights, flags, fd, 0);
	printf("%s: %s", how, error(at == MAP_FAILED));
	if (at != MAP_FAILED) {
		printf(" %lx", checksum(at, bytes));
		if (rights & PROT_WRITE && flags & MAP_PRIVATE) {
			at[bytes / 2] ^= 1;
			printf(" changed %lx", checksum(at, bytes));
		}
		printf(" protect %s", error(mprotect(at, bytes, PROT_READ | PROT_WRITE)));
		printf(" advise %s", error(madvise(at, bytes, MADV_WILLNEED)));
		printf(" sync %s", error(msync(at, bytes, MS_SYNC)));
		munmap(at, bytes);
	}
	printf("\n");
}

/* Touches the page behind the file's last. */
static void past_the_end(int fd, size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
	unsigned char *at = mmap(NULL, (pages + 1) * page, PROT_READ, MAP_SHARED, fd, 0);
	signal(SIGBUS, on_sigbus);
	int number = sigsetjmp(beyond, 1);
	if (!number) {
		printf("rest of the last page: %lx\n", checksum(at + bytes, pages * page - bytes));
		printf("behind it: %d\n", *(volatile unsigned char *)(at + pages * page));
	} else {
		printf("behind it: signal %s\n", sigabbrev_np(number));
	}
	signal(SIGBUS, SIG_DFL);
}

static void around(const char *path, int fd, size_t bytes)
{
	void *aligned;
	if (posix_memalign(&aligned, 4096, 8192))
		exit(1);
	int direct = open(path, O_RDONLY | O_DIRECT);
	ssize_t got = direct < 0 ? -1 : pread(direct, aligned, 8192, 0);
	printf("O_DIRECT: %s %zd %lx\n", error(got < 0), got, got > 0 ? checksum(aligned, got) : 0);
	got = direct < 0 ? -1 : pread(direct, aligned, 4096, 4096);
	printf("O_DIRECT behind: %s %zd %lx\n", error(got < 0), got, got > 0 ? checksum(aligned, got) : 0);

	int pipes[2], to = memfd_create("to", 0);
	if (pipe(pipes))
		exit(1);
	got = splice(fd, &(off_t){100}, pipes[1], NULL, 4000, 0);
	printf("splice: %s %zd", error(got < 0), got);
	got = read(pipes[0], aligned, 4000);
	printf(" %lx\n", checksum(aligned, got > 0 ? got : 0));
	got = sendfile(to, fd, &(off_t){4096}, 4096);
	printf("sendfile: %s %zd", error(got < 0), got);
	got = pread(to, aligned, 4096, 0);
	printf(" %lx\n", checksum(aligned, got > 0 ? got : 0));
	got = copy_file_range(fd, &(off_t){1}, to, &(off_t){0}, 5000, 0);
	printf("copy_file_range: %s %zd\n", got < 0 && errno == EXDEV ? "EXDEV or ok" : "EXDEV or ok",
		got < 0 ? 5000 : got);
	struct iovec parts[2] = {{aligned, 10}, {(char *)aligned + 100, 20}};
	printf("preadv: %zd %lx\n", preadv(fd, parts, 2, 4090), checksum(aligned, 10));
	printf("readahead: %s fadvise: %d\n", error(readahead(fd, 0, bytes) < 0),
		posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
}

static void locks(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	printf("locks: flock %s posix %s", error(flock(fd, LOCK_SH | LOCK_NB) < 0),
		error(fcntl(fd, F_SETLK, &lock) < 0));
	printf(" open file %s", error(fcntl(fd, F_OFD_SETLK, &lock) < 0));
	lock.l_type = F_WRLCK;
	printf(" exclusive %s\n", error(fcntl(fd, F_SETLK, &lock) < 0));
}

/* A child shares the map, and finds the file's bytes there. */
static void shared_with_a_child(int fd, size_t bytes)
{
	unsigned char *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(checksum(at, bytes) & 127);
	int status = -1;
	waitpid(child, &status, 0);
	printf("child: %s\n", WEXITSTATUS(status) == (int)(checksum(at, bytes) & 127) ? "the same" : "something else");
}

int main(int argc, char **argv)
{
	int writes = argc > 2 && !strcmp(argv[2], "write");
	int fd = open(argv[1], O_RDONLY);
	struct stat s;
	if (fd < 0 || fstat(fd, &s))
		return printf("%s: %s\n", argv[1], error(1)), 1;
	size_t bytes = s.st_size;
	map("shared", fd, bytes, PROT_READ, MAP_SHARED);
	map("private", fd, bytes, PROT_READ, MAP_PRIVATE);
	map("private to write", fd, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	map("shared to write", fd, bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
	map("populated", fd, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE);
	map("to execute", fd, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	map("shared again", fd, bytes, PROT_READ, MAP_SHARED);
	past_the_end(fd, bytes);
	shared_with_a_child(fd, bytes);
	around(argv[1], fd, bytes);
	locks(fd);
	printf("ino %lu size %zu\n", (long)s.st_ino, bytes);
	if (writes) {
		int both = open(argv[1], O_RDWR);
		printf("to write: %s\n", error(both < 0));
		map("written", both, bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
	}
	return 0;
}
