/*
 * System calls are made directly: by number, and by the program's own instructions, as some run times and libraries do;
 * and by functions that were looked up in the C library alone.
 */
#define _GNU_SOURCE
#include "safety.h"

#include <dlfcn.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define STEP(name) static void name(struct work *work)

static long instruction(long number, const long a[6])
{
#if defined(__x86_64__)
	register long d __asm__("r10") = a[3], e __asm__("r8") = a[4], f __asm__("r9") = a[5];
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(d), "r"(e), "r"(f)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, result __asm__("x0") = a[0], x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2], x3 __asm__("x3") = a[3], x4 __asm__("x4") = a[4],
			 x5 __asm__("x5") = a[5];

	__asm__ volatile("svc 0" : "+r"(result) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
#else
#error "which instruction calls the kernel?"
#endif
	return result;
}

static int can_be_seen;

/* Whether this kernel lets others see such calls: PR_SET_SYSCALL_USER_DISPATCH, which this switches off. */
__attribute__((constructor)) static void find_out(void)
{
	can_be_seen = prctl(59, 0, 0, 0, 0) == 0;
}

/* A call that the C library doesn't see; where no other interposer can see it either, one that it sees. */
static long direct(long number, long a, long b, long c, long d, long e, long f)
{
	const long all[6] = {a, b, c, d, e, f};

	if (can_be_seen)
		return instruction(number, all);
	long result = syscall(number, a, b, c, d, e, f);
	return result == -1 ? -errno : result;
}

static int made(const char *name, size_t bytes)
{
	make(path(name), bytes, 5);
	int fd = open(path(name), O_RDWR);
	must(fd >= 0, name);
	return fd;
}

static int target(void)
{
	int fd = open(path("copy"), O_RDWR | O_CREAT | O_TRUNC, 0644);

	must(fd >= 0, "copy");
	return fd;
}

STEP(read_by_number)
{
	if (rank == 0) {
		struct iovec two[2] = {{work->data + 50000, 9000}, {work->data + 20000, 5000}};
		int fd = made("other", 90000);

		note_result("readv", syscall(SYS_readv, fd, two, 2));
		note_result("pread", syscall(SYS_pread64, fd, work->data + 65000, 9000, 100));
		close(fd);
	}
}

static void *of_libc(const char *name)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	must(libc != NULL, "libc.so.6");
	void *function = dlsym(libc, name);
	dlclose(libc);
	return function;
}

STEP(written_by_a_handle)
{
	if (rank == 0) {
		ssize_t (*put)(int, const void *, size_t);
		int fd = target();

		*(void **)&put = of_libc("write");
		note_result("write", put(fd, work->data + 4097, 90000));
		close(fd);
		note_file(path("copy"));
	}
}

STEP(read_by_a_handle)
{
	if (rank == 0) {
		ssize_t (*get)(int, void *, size_t, off_t);
		int fd = open(path("copy"), O_RDONLY | O_CREAT, 0644);

		*(void **)&get = of_libc("pread");
		note_result("pread", get(fd, work->data + 50000, 20000, 7));
		close(fd);
	}
}

STEP(direct_write)
{
	if (rank == 0) {
		int fd = target();

		note_result("write", direct(SYS_write, fd, (long)(work->data + 4097), 90000, 0, 0, 0));
		note_result("no file", direct(SYS_write, -1, (long)work->data, 90000, 0, 0, 0));
		close(fd);
		note_file(path("copy"));
	}
}

STEP(direct_writev)
{
	if (rank == 0) {
		struct iovec two[2] = {{work->data + 50001, 40000}, {work->data, 30000}};
		int fd = target();

		note_result("writev", direct(SYS_writev, fd, (long)two, 2, 0, 0, 0));
		close(fd);
		note_file(path("copy"));
	}
}

STEP(direct_read)
{
	if (rank == 0) {
		int fd = made("other", 90000);

		note_result("pread", direct(SYS_pread64, fd, (long)(work->data + 50000), 20000, 7, 0, 0));
		note_result("read", direct(SYS_read, fd, (long)work->data, 90000, 0, 0, 0));
		close(fd);
	}
}

/* The file is changed from which the data is. */
STEP(direct_change)
{
	if (rank == 0) {
		note_result("pwrite", direct(SYS_pwrite64, writable(work), (long)TEXT, sizeof TEXT, 40000, 0, 0));
		note_result("truncate", direct(SYS_ftruncate, work->fd, 90000, 0, 0, 0, 0));
	}
}

STEP(direct_child)
{
	if (rank == 0) {
		int pair[2], status = 0;
		uint64_t got = 0;

		must(!pipe(pair), "pipe");
		long child = direct(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);

		if (child == 0) {
			got = sum(work->data, work->bytes);
			_exit(write(pair[1], &got, sizeof got) != sizeof got);
		}
		close(pair[1]);
		note_result("read", read(pair[0], &got, sizeof got));
		note("child's %016llx", (unsigned long long)got);
		note_result("waitpid", waitpid((pid_t)child, &status, 0) == child);
		note("status %d", status);
		close(pair[0]);
	}
}

static volatile int handled;

static void count(int signal)
{
	handled += signal;
}

/* The kernel's idea of the mask is eight bytes. */
STEP(direct_mask)
{
	if (rank == 0) {
		uint64_t one = UINT64_C(1) << (SIGUSR1 - 1), before = 0;
		void (*old)(int) = signal(SIGUSR1, count);

		handled = 0;
		note_result("block", direct(SYS_rt_sigprocmask, SIG_BLOCK, (long)&one, (long)&before, 8, 0, 0));
		note_result("kill", direct(SYS_tgkill, getpid(), gettid(), SIGUSR1, 0, 0, 0));
		note("handled %d", handled);
		note_result("unblock", direct(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&one, 0, 8, 0, 0));
		note("handled %d, byte %d", handled, work->data[60000]);
		signal(SIGUSR1, old);
	}
}

static void *mapped(int ring, off_t what, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);

	must(memory != MAP_FAILED, "io_uring");
	return memory;
}

static unsigned int *word(void *ring, unsigned int offset)
{
	return (unsigned int *)((char *)ring + offset);
}

/* One write by a ring. */
static int by_ring(int fd, const void *data, unsigned int bytes)
{
	struct io_uring_params sizes;

	memset(&sizes, 0, sizeof sizes);
	int ring = (int)direct(SYS_io_uring_setup, 1, (long)&sizes, 0, 0, 0, 0);
	if (ring < 0)
		return (int)pwrite(fd, data, bytes, 9);
	char *submissions = mapped(ring, IORING_OFF_SQ_RING, 4096), *done = mapped(ring, IORING_OFF_CQ_RING, 4096);
	struct io_uring_sqe *entry = mapped(ring, IORING_OFF_SQES, 4096);

	memset(entry, 0, sizeof *entry);
	entry->opcode = IORING_OP_WRITE;
	entry->fd = fd;
	entry->addr = (uintptr_t)data;
	entry->len = bytes;
	entry->off = 9;
	*word(submissions, sizes.sq_off.array) = 0;
	__atomic_store_n(word(submissions, sizes.sq_off.tail), 1, __ATOMIC_RELEASE);
	must(direct(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) == 1, "io_uring_enter");
	int result = ((struct io_uring_cqe *)(void *)(done + sizes.cq_off.cqes))->res;
	munmap(submissions, 4096);
	munmap(done, 4096);
	munmap(entry, 4096);
	close(ring);
	return result;
}

STEP(written_by_a_ring)
{
	if (rank == 0) {
		int fd = target();

		note("ring %d", by_ring(fd, work->data + 1000, 90000));
		close(fd);
		note_file(path("copy"));
	}
}

STEP(own_handler)
{
	if (rank == 0) {
		struct sigaction now;
		sigset_t all, old_mask;
		void (*old)(int) = signal(SIGSYS, count);

		handled = 0;
		note_result("raise", raise(SIGSYS));
		direct_write(work);
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, &old_mask);
		direct_read(work);
		sigprocmask(SIG_SETMASK, NULL, &all);
		note("blocked %d", sigismember(&all, SIGSYS));
		sigprocmask(SIG_SETMASK, &old_mask, NULL);
		sigaction(SIGSYS, NULL, &now);
		note("handled %d, own handler %d", handled, now.sa_handler == count);
		signal(SIGSYS, old);
	}
}

/* clang-format off */
#define STEPS(X) \
	X(read_by_number) X(written_by_a_handle) X(read_by_a_handle) X(direct_write) X(direct_writev) X(direct_read) \
	X(direct_change) X(direct_child) X(direct_mask) X(written_by_a_ring) X(own_handler)
/* clang-format on */

#define ALL(name) \
	READ_SCATTER(name##_read, name, NULL) \
	READ_SCATTER(name##_scattered, NULL, name) \
	GATHER_WRITE(name##_gathered, name, NULL) \
	GATHER_WRITE(name##_written, NULL, name)
STEPS(ALL)

#define ROWS(name) \
	{#name "_read", name##_read, 0}, {#name "_scattered", name##_scattered, 0}, \
		{#name "_gathered", name##_gathered, 0}, {#name "_written", name##_written, 0},

/* clang-format off */
const struct test kernel_tests[] = {
	STEPS(ROWS)
	{NULL, NULL, 0},
};
/* clang-format on */
