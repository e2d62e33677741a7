/* siblings DIR SEGMENT FILE, started twice: each finds the other in DIR, reads its memory with process_vm_readv,
 * synchronizes with it in the shared memory SEGMENT, and prints FILE from there. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

struct meeting {
	atomic_int count, is_written, done;
	char text[64];
};

static char secret[64];

/* The other's name in DIR: its process and the address of its secret. */
static int other(const char *dir, int *pid, void **address)
{
	DIR *stream = opendir(dir);
	struct dirent *entry;
	int found = 0;
	while (stream && (entry = readdir(stream)))
		if (sscanf(entry->d_name, "%d-%p", pid, address) == 2 && *pid != getpid())
			found = 1;
	if (stream)
		closedir(stream);
	/* The loop may have ended on another name. */
	for (stream = found ? opendir(dir) : NULL; stream && (entry = readdir(stream));)
		if (sscanf(entry->d_name, "%d-%p", pid, address) == 2 && *pid != getpid())
			break;
	if (stream)
		closedir(stream);
	return found;
}

int main(int argc, char **argv)
{
	char name[4096], back[64] = "", line[64] = "", expected[64];
	void *address;
	int pid;
	if (argc != 4)
		return 2;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	snprintf(secret, sizeof secret, "secret of %d", getpid());
	snprintf(name, sizeof name, "%s/%d-%p", argv[1], getpid(), (void *)secret);
	close(open(name, O_CREAT | O_WRONLY, 0600));
	for (int i = 0; i < 1000 && !other(argv[1], &pid, &address); i++)
		usleep(10000);

	struct iovec mine = {back, sizeof back}, theirs = {address, sizeof back};
	snprintf(expected, sizeof expected, "secret of %d", pid);
	int is_read = process_vm_readv(pid, &mine, 1, &theirs, 1, 0) == sizeof back && !strcmp(back, expected);

	int fd = shm_open(argv[2], O_CREAT | O_RDWR, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct meeting)))
		return perror("shm_open"), 1;
	struct meeting *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int file = open(argv[3], O_RDONLY);
	if (shared == MAP_FAILED || file < 0 || read(file, line, sizeof line - 1) <= 0)
		return perror(argv[3]), 1;
	/* The first writes what both print. */
	if (atomic_fetch_add(&shared->count, 1) == 0) {
		strcpy(shared->text, line);
		atomic_store(&shared->is_written, 1);
	}
	for (int i = 0; i < 1000 && (atomic_load(&shared->count) < 2 || !atomic_load(&shared->is_written)); i++)
		usleep(10000);
	int is_shared = atomic_load(&shared->count) == 2 && atomic_load(&shared->is_written);
	printf("%s, %s, %s", is_read ? "read" : "not read", is_shared ? "shared" : "not shared", shared->text);
	fflush(stdout);
	/* The other may still read this one's memory. */
	int last = atomic_fetch_add(&shared->done, 1);
	for (int i = 0; i < 1000 && atomic_load(&shared->done) < 2; i++)
		usleep(10000);
	if (last)
		shm_unlink(argv[2]);
	return !(is_read && is_shared);
}
