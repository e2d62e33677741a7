/* The engine's lock, output and clock. */
#include "base/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/signals.h"
#include "real.h"

size_t hwio_page_bytes;
enum hwio_mode hwio_mode = HWIO_OFF;
size_t hwio_bytes_min = 65536;
int64_t hwio_file_bytes_max = INT64_MAX;
volatile int hwio_is_busy;
struct hwio_quick hwio_quick;
__thread int hwio_depth, hwio_is_exposed;

static bool is_threaded;
static void (*watch_busy)(bool is_busy);
static void (*protect_again)(void);

/* 0 free, 1 held, 2 held and waited for. Source: Drepper, "Futexes are tricky", mutex 2. */
static atomic_int lock;
static __thread int nesting __attribute__((tls_model("initial-exec")));
static __thread sigset_t mask_before __attribute__((tls_model("initial-exec")));
static __thread int cancel_before __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void find_page_bytes(void)
{
	hwio_page_bytes = getauxval(AT_PAGESZ);
#ifdef HWIO_PRETEND_PAGES
	/* Protecting several pages at once is as good as one page of their size. */
	const char *pretended = getenv("HEADWATER_TEST_PAGE_BYTES");
	if (pretended)
		hwio_page_bytes = strtoul(pretended, NULL, 10);
#endif
}

void hwio_enter(void)
{
	if (nesting > 0) {
		nesting++;
		return;
	}
	sigset_t all, before;
	hwio_signals_block(&all);
	/* A handler that runs before this acquires and releases the lock by itself. */
	hwio_libc.pthread_sigmask(SIG_SETMASK, &all, &before);
	mask_before = before;
	/* A thread that is cancelled inside would never release the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
	nesting = 1;
	int state = 0;
	if (atomic_compare_exchange_strong(&lock, &state, 1))
		return;
	while (atomic_exchange(&lock, 2) != 0)
		hwio_libc.syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL);
}

bool hwio_is_inside(void)
{
	return nesting > 0;
}

void hwio_leave(void)
{
	if (--nesting > 0)
		return;
	int cancel = cancel_before;
	if (atomic_exchange(&lock, 0) == 2)
		hwio_libc.syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1);
	pthread_setcancelstate(cancel, NULL);
	hwio_libc.pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
}

/* A byte that the kernel clears in copies of the process; NULL before Linux 4.14. */
static const volatile char *original;

void hwio_copies_start(void)
{
	char *page = hwio_libc.mmap(NULL, hwio_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || hwio_libc.syscall(SYS_madvise, page, hwio_page_bytes, MADV_WIPEONFORK) != 0)
		return;
	*page = 1;
	original = page;
}

bool hwio_is_copy(void)
{
	return original && !*original;
}

void hwio_refuse_copy(void)
{
	if (!hwio_is_copy())
		return;
	hwio_log("this process was made by a system call past the C library, and reads memory for which a message is "
		 "awaited by the process that it is a copy of; run the job with HEADWATER_IO=off");
	/* MPI handles the signal of abort(), and would use its connections there. */
	hwio_libc.syscall(SYS_kill, hwio_libc.syscall(SYS_getpid), SIGKILL);
}

bool hwio_status_untimed(int descriptor, const char *path, struct stat *status)
{
	struct statx now;
	unsigned int wanted = STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE;
	if (statx(descriptor, path ? path : "", path ? 0 : AT_EMPTY_PATH, wanted, &now) != 0)
		return errno == ENOSYS &&
			(path ? fstatat(descriptor, path, status, 0) : fstat(descriptor, status)) == 0;
	*status = (struct stat){.st_dev = makedev(now.stx_dev_major, now.stx_dev_minor),
		.st_ino = now.stx_ino,
		.st_mode = now.stx_mode,
		.st_size = (off_t)now.stx_size};
	return true;
}

void hwio_note_busy(enum hwio_part part, bool (*is_any)(void))
{
	static unsigned int busy_parts;
	/* Under the lock, so that a concurrent change by another thread isn't lost. */
	hwio_enter();
	busy_parts = is_any() ? busy_parts | 1U << part : busy_parts & ~(1U << part);
	hwio_is_busy = busy_parts != 0;
	hwio_quick.is_watchful = hwio_is_busy || is_threaded;
	if (watch_busy)
		watch_busy((busy_parts & ~(1U << HWIO_PART_LATE)) != 0);
	hwio_leave();
}

void hwio_busy_watch(void (*watch)(bool is_busy))
{
	watch_busy = watch;
}

void hwio_threads_begin(void)
{
	is_threaded = true;
	hwio_quick.is_watchful = 1;
}

bool hwio_is_threaded(void)
{
	return is_threaded;
}

void hwio_expose(void (*protect)(void))
{
	protect_again = protect;
	hwio_is_exposed = 1;
}

void hwio_reprotect(void)
{
	protect_again();
}

void hwio_log(const char *format, ...)
{
	char line[600] = "headwater: ";
	size_t length = strlen(line);
	va_list arguments;
	va_start(arguments, format);
	int more = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
	va_end(arguments);
	length += more < 0 ? 0 : (size_t)more;
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	hwio_libc.write(STDERR_FILENO, line, length);
}

double hwio_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t hwio_hash(uint64_t hash, const void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		hash = (hash ^ ((const unsigned char *)data)[at]) * 0x100000001b3;
	return hash;
}
