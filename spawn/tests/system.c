/* sources: core/system.c */
/* Closing descriptors on kernels with close_range() and, by a filter, without. */
#include "core/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define FIRST 200
/* More than one piece of the process's list names. */
#define COUNT 300

static void open_all(void)
{
	for (int fd = FIRST; fd < FIRST + COUNT; fd++)
		CHECK(dup2(1, fd) == fd, "%d", fd);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void closes(int first, int last)
{
	open_all();
	hwsp_close_range(first, last);
	for (int fd = FIRST; fd < FIRST + COUNT; fd++)
		CHECK(is_open(fd) == (fd < first || fd > last), "%d after %d to %d", fd, first, last);
	CHECK(is_open(0) && is_open(1) && is_open(2), "%d to %d", first, last);
}

static void closes_ranges(void)
{
	closes(FIRST, FIRST + COUNT - 1);
	closes(FIRST + 7, FIRST + 7);
	closes(FIRST + 100, INT_MAX);
	closes(FIRST + 5, FIRST + 4);
	/* No descriptor has been opened there. */
	open_all();
	hwsp_close_range(-1, INT_MAX);
	CHECK(is_open(0) && is_open(FIRST), "%s", "a negative number");
}

static void hide_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof code[0], code};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%d", errno);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
		printf("skipped: no filter: %s\n", strerror(errno));
		exit(77);
	}
	CHECK(syscall(SYS_close_range, 1000, 1001, 0) == -1 && errno == ENOSYS, "%d", errno);
}

int main(void)
{
	closes_ranges();
	hide_close_range();
	closes_ranges();
	return 0;
}
