/*
 * Reads files after it has confined itself to a list of system calls: any other ends it. Usage: confined prctl|seccomp
 * DIRECTORY, where `text` is a file and `absent` none. It checks some of it before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system calls of libc's functions below. */
static const int allowed[] = {
	SYS_read,
	SYS_write,
	SYS_openat,
	SYS_close,
	SYS_fstat,
	SYS_newfstatat,
	SYS_lseek,
	SYS_mmap,
	SYS_munmap,
	SYS_brk,
	SYS_exit_group,
	SYS_faccessat,
	SYS_getdents64,
	SYS_getcwd,
	SYS_ioctl,
#if defined(__x86_64__)
	SYS_open,
	SYS_stat,
	SYS_lstat,
	SYS_access,
	SYS_readlink,
#else
	SYS_readlinkat,
#endif
};
enum { ALLOWED = sizeof allowed / sizeof *allowed };

static void confine(const char *method)
{
	struct sock_filter filter[2 * ALLOWED + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {2 * ALLOWED + 2, filter};
	int failed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

	for (int i = 0; i < ALLOWED; i++) {
		filter[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
		filter[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	filter[2 * ALLOWED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	if (!strcmp(method, "prctl"))
		failed |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	else
		failed |= (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	if (failed) {
		perror("seccomp");
		exit(9);
	}
}

static void check(const char *directory)
{
	char path[4096], line[256] = "nothing";
	struct stat st;
	int names = 0;

	snprintf(path, sizeof path, "%s/text", directory);
	printf("stat %d\n", stat(path, &st));
	FILE *file = fopen(path, "re");
	printf("%s\n", file && fgets(line, sizeof line, file) ? line : strerror(errno));
	if (file)
		fclose(file);
	snprintf(path, sizeof path, "%s/absent", directory);
	if (access(path, R_OK))
		printf("absent: %s\n", strerror(errno));
	DIR *all = opendir(directory);
	while (all && readdir(all))
		names++;
	if (all)
		closedir(all);
	printf("%d names, %s\n", names, realpath(directory, path));
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
	printf("%.*s\n", (int)bytes, path);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	char path[4096];
	struct stat st;

	snprintf(path, sizeof path, "%s/text", argv[2]);
	int file = open(path, O_RDONLY);
	chmod(path, 0644);
	check(argv[2]);
	confine(argv[1]);
	if (fstat(file, &st) == 0)
		printf("mode %o\n", st.st_mode);
	check(argv[2]);
	return 0;
}
