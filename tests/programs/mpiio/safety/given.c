/*
 * Memory that the kernel reads, or writes into, while a function of the C library is at work: names, numbers and tables
 * of all kinds may lie in what was read from a file.
 */
#define _GNU_SOURCE
#include "safety.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <time.h>

#include "../../older.h"

/* Each call has memory of its own, some pages from the others', and not at the start of one. */
#define APART 14336
#define SLOTS 13

static char *at(struct work *work, int slot)
{
	must(slot < SLOTS && (size_t)(slot + 1) * APART <= work->bytes, "a slot for each");
	return work->data + slot * APART + 100;
}

/* The bytes that a call has written there need not be the same in all runs. */
static void same_again(char *memory)
{
	memset(memory, 'x', APART - 200);
}

#define STEP(name) static void name(struct work *work)

/* No file has such a name: it is looked up, or too long, but never out of reach. */
STEP(paths)
{
	struct stat status;
	struct statfs system;
	char value[10];

	note_result("stat", stat(at(work, 0), &status));
	note_result("lstat", lstat(at(work, 1), &status));
	note_result("access", access(at(work, 2), R_OK));
	note_result("open", open(at(work, 3), O_RDONLY));
	note_result("open to write", open(at(work, 4), O_WRONLY));
	note_result("unlink", unlink(at(work, 5)));
	note_result("rename", rename(at(work, 6), "/nowhere/at all"));
	note_result("statfs", statfs(at(work, 7), &system));
	note_result("chmod", chmod(at(work, 8), 0600));
	note_result("getxattr", getxattr(at(work, 9), "user.none", value, sizeof value));
	note_result("truncate", truncate(at(work, 10), 5));
	note_result("readlink", readlink(at(work, 11), value, sizeof value));
	FILE *stream = fopen(at(work, 12), "r");
	note_result("fopen", stream ? 0 : -1);
}

STEP(answers)
{
	note_result("getrandom", getrandom(at(work, 0), 9000, 0));
	same_again(at(work, 0));
	note_result("getcwd", getcwd(at(work, 1), 5000) ? 0 : -1);
	same_again(at(work, 1));
	note_result("fstat", fstat(0, (void *)at(work, 2)));
	same_again(at(work, 2));
	note_result("uname", uname((void *)at(work, 3)));
	note_result("readlink", readlink("/proc/self/exe", at(work, 4), 5000));
	note_result("getrlimit", getrlimit(RLIMIT_STACK, (void *)at(work, 5)));
	note_result("getrusage", getrusage(RUSAGE_SELF, (void *)at(work, 6)));
	same_again(at(work, 6));
	note_result("statfs", statfs("/proc", (void *)at(work, 7)));
	note_result("getaffinity", sched_getaffinity(0, sizeof(cpu_set_t), (void *)at(work, 8)));
	note_result("sigprocmask", sigprocmask(SIG_BLOCK, NULL, (void *)at(work, 9)));
	same_again(at(work, 9));
	note_result("getgroups", getgroups(200, (void *)at(work, 10)) >= 0);
	same_again(at(work, 10));
#if __GLIBC_PREREQ(2, 36)
	arc4random_buf(at(work, 11), 9000);
#endif
	same_again(at(work, 11));
}

STEP(tables)
{
	int two[2], *pair = (void *)at(work, 0);
	struct timespec *none = (void *)at(work, 5);

	note_result("pipe", pipe(pair));
	memcpy(two, pair, sizeof two);
	same_again(at(work, 0));
	note_result("write", write(two[1], "123", 3));
	note_result("ioctl", ioctl(two[0], FIONREAD, at(work, 1)));
	same_again(at(work, 2));
	struct pollfd *polled = (void *)at(work, 2);
	polled[0] = (struct pollfd){.fd = two[0], .events = POLLIN};
	note_result("poll", poll(polled, 1, 0));
	fd_set *set = (void *)at(work, 3);
	int queue = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	note_result("add", epoll_ctl(queue, EPOLL_CTL_ADD, two[0], &event));
	note_result("epoll_wait", epoll_wait(queue, (void *)at(work, 4), 5, 0));
	struct timeval now = {0, 0};
	note_result("select", select(0, set, NULL, NULL, &now) >= 0);
	/* Any bytes: no second has so many nanoseconds, or it is no time at all. */
	note("nanosleep %d", nanosleep(none, NULL) == 0 || errno == EINVAL);
	close(queue);
	close(two[0]);
	close(two[1]);
}

STEP(children)
{
	pid_t child = fork();

	if (child == 0)
		_exit(7);
	int *status = (void *)at(work, 0);
	note_result("waitpid", waitpid(child, status, 0) == child);
	note("status %x", (unsigned int)*status);
	int queue = msgget(IPC_PRIVATE, 0600);
	must(queue >= 0, "msgget");
	long *message = (void *)at(work, 1);
	*message = 5;
	note_result("msgsnd", msgsnd(queue, message, 4000, 0));
	note_result("msgrcv", msgrcv(queue, at(work, 2), 8000, 0, 0));
	msgctl(queue, IPC_RMID, NULL);
}

/* Further names, of which no file has one either. */
STEP(names)
{
	char value[10];
	struct file_handle handle = {.handle_bytes = 0};
	int mount;

	note_result("lutimes", lutimes(at(work, 0), NULL));
	note_result("euidaccess", euidaccess(at(work, 1), R_OK));
	note_result("llistxattr", llistxattr(at(work, 2), value, sizeof value));
	note_result("lremovexattr", lremovexattr(at(work, 3), "user.none"));
	int watcher = inotify_init1(0);
	note_result("inotify_add_watch", inotify_add_watch(watcher, at(work, 4), IN_MODIFY));
	close(watcher);
	note_result("name_to_handle_at", name_to_handle_at(AT_FDCWD, at(work, 5), &handle, &mount, 0));
	note_result("pathconf", pathconf(at(work, 6), _PC_NAME_MAX));
	note_result("ftok", ftok(at(work, 7), 1));
	char *name = at(work, 8);
	name[20] = 0;
	int file = memfd_create(name, MFD_CLOEXEC);
	note_result("memfd_create", file >= 0);
	note_result("futimens", futimens(file, (void *)at(work, 9)) == 0 || errno == EINVAL);
	close(file);
}

STEP(states)
{
	struct rlimit *limit = (void *)at(work, 0);
	uid_t *user = (void *)at(work, 1);
	char *name = at(work, 4);

	note_result("prlimit", prlimit(0, RLIMIT_CORE, NULL, limit));
	note_result("getresuid", getresuid(user, user + 1, (void *)at(work, 2)));
	note_result("sched_getparam", sched_getparam(0, (void *)at(work, 3)));
	note_result("PR_GET_NAME", prctl(PR_GET_NAME, name));
	note_result("PR_SET_NAME", prctl(PR_SET_NAME, name));
	note_result("sched_rr_get_interval", sched_rr_get_interval(0, (void *)at(work, 5)));
	same_again(at(work, 5));
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	note_result("timerfd_gettime", timerfd_gettime(timer, (void *)at(work, 6)));
	close(timer);
}

/* A stream's buffer is the C library's from then on. */
STEP(stream_buffer)
{
	FILE *stream = fopen(path("copy"), "w+");

	must(stream != NULL, "copy");
	note_result("setvbuf", setvbuf(stream, at(work, 0), _IOFBF, 8192));
	for (int i = 0; i < 5000; i++)
		fprintf(stream, "%d ", i);
	note_result("flush", fflush(stream));
	rewind(stream);
	note_result("fgetc", fgetc(stream));
	note_result("fclose", fclose(stream));
	note_file(path("copy"));
}

/* Protected memory is accessible afterwards, and what has been read is there. */
STEP(protection_by_key)
{
	char *first = (char *)((uintptr_t)at(work, 1) & ~4095UL);

	note_result("pkey_mprotect", pkey_mprotect(first, 20480, PROT_READ | PROT_WRITE, -1));
	note_sum("there", first, 20480);
	first += 40960;
	note_result("by number", syscall(SYS_pkey_mprotect, first, 20480, PROT_READ | PROT_WRITE, -1));
	note_sum("there", first, 20480);
}

/* A program may close numbers that it never had, but only as a range of all. */
STEP(closed_by_number)
{
	int null = open("/dev/null", O_RDONLY);

	for (int fd = 512; fd < 700; fd++)
		syscall(SYS_close, fd);
	note_sum("closed", at(work, 0), 9000);
	for (int fd = 512; fd < 700; fd++)
		syscall(SYS_dup3, null, fd, 0);
	note_sum("copied over", at(work, 3), 9000);
	note_result("close_range", syscall(SYS_close_range, 512, 700, 0));
	note_sum("closed at once", at(work, 6), 9000);
	close(null);
}

#define AT_ROOT(name) \
	static void name##_at_root(struct work *work) \
	{ \
		if (rank == 0) \
			name(work); \
	}
#define STEPS(X) \
	X(paths) \
	X(answers) X(tables) X(children) X(names) X(states) X(stream_buffer) X(protection_by_key) X(closed_by_number)
STEPS(AT_ROOT)

#define ALL(name) \
	READ_SCATTER(given_##name##_read, name##_at_root, NULL) \
	READ_SCATTER(given_##name##_scattered, NULL, name##_at_root) \
	GATHER_WRITE(given_##name##_gathered, name##_at_root, NULL)
STEPS(ALL)

#define ROWS(name) \
	{"given_" #name "_read", given_##name##_read, 0}, {"given_" #name "_scattered", given_##name##_scattered, 0}, \
		{"given_" #name "_gathered", given_##name##_gathered, 0},

/* clang-format off */
const struct test given_tests[] = {
	STEPS(ROWS)
	{NULL, NULL, 0},
};
/* clang-format on */
