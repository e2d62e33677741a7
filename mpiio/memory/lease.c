/* The kernel sends the signal to this thread alone, which has it blocked and waits for it: the program may use the
 * signal itself. */
#include "memory/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory/file.h"
#include "base/handler.h"
#include "base/waits.h"
#include "memory/deferred.h"
#include "memory/memory_map.h"
#include "real.h"
#include "base/signals.h"

#define LEASE_SIGNAL (SIGRTMAX - 3)
#define STACK_BYTES (128UL << 10)
#define STACK_BYTES_MAX (128UL << 20)

/* 0: the thread isn't running. */
static volatile pid_t server;
static volatile bool is_stopping;
static sem_t has_begun;
static void (*preserve_requested)(const struct hwio_file *file);
static __thread bool is_server __attribute__((tls_model("initial-exec")));

void hwio_lease_set_preserve(void (*function)(const struct hwio_file *file))
{
	preserve_requested = function;
}

bool hwio_lease_is_thread(void)
{
	return is_server;
}

/* One signal may report several files; the kernel sends SIGIO if its queue is full. */
static void release_broken(void)
{
	struct timespec tick = {0, HWIO_TICK_NS};
	struct hwio_file *file;
	hwio_enter();
	while ((file = hwio_file_with_broken_lease())) {
		hwio_file_retain(file);
		hwio_deferred_fill_now(file, 0, INT64_MAX);
		if (preserve_requested)
			preserve_requested(file);
		/* Ranks that read the file for this one recognise the change by its times. */
		nanosleep(&tick, NULL);
		hwio_file_unlease(file);
		hwio_file_release(file);
	}
	hwio_leave();
}

static void *serve_leases(void *unused)
{
	sigset_t notifications;
	siginfo_t about;
	(void)unused;
	sigemptyset(&notifications);
	sigaddset(&notifications, LEASE_SIGNAL);
	sigaddset(&notifications, SIGIO);
	/* None of this thread's calls is the program's. */
	hwio_step_in();
	is_server = true;
	hwio_handler_begins();
	prctl(PR_SET_NAME, "headwater-io");
	server = (pid_t)hwio_libc.syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	sem_post(&has_begun);
	while (!is_stopping)
		if (sigwaitinfo(&notifications, &about) >= 0)
			release_broken();
	server = 0;
	is_stopping = false;
	return NULL;
}

/* Starts the thread. The caller holds the lock, so all signals are blocked, and stay so in the thread. */
static bool start_thread(void)
{
	static bool is_prepared;
	pthread_attr_t attributes;
	pthread_t thread;
	if (server != 0)
		return true;
	/* Memory is filled while other threads access it. */
	if (!hwio_memory_map_can_fill_protected() || (!is_prepared && sem_init(&has_begun, 0, 0) != 0) ||
		pthread_attr_init(&attributes) != 0)
		return false;
	is_prepared = true;
	sigset_t all, before;
	hwio_signals_block(&all);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	hwio_libc.pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = EINVAL;
	/* The C library takes the guard's page from it, and the program's variables of each thread: EINVAL if these need
	 * more. */
	for (size_t bytes = STACK_BYTES; error == EINVAL && bytes <= STACK_BYTES_MAX; bytes *= 4) {
		pthread_attr_setstacksize(&attributes, bytes + hwio_page_bytes);
		error = hwio_libc.pthread_create(&thread, &attributes, serve_leases, NULL);
	}
	hwio_libc.pthread_sigmask(SIG_SETMASK, &before, NULL);
	bool is_good = error == 0;
	pthread_attr_destroy(&attributes);
	while (is_good && sem_wait(&has_begun) != 0)
		;
	return is_good;
}

bool hwio_lease_acquire(int descriptor)
{
	if (!start_thread()) {
		errno = EAGAIN;
		return false;
	}
	struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = server};
	return fcntl(descriptor, F_SETSIG, LEASE_SIGNAL) == 0 && fcntl(descriptor, F_SETOWN_EX, &owner) == 0 &&
		fcntl(descriptor, F_SETLEASE, F_RDLCK) == 0;
}

void hwio_lease_release(int descriptor)
{
	fcntl(descriptor, F_SETLEASE, F_UNLCK);
}

bool hwio_lease_is_broken(int descriptor)
{
	return fcntl(descriptor, F_GETLEASE) != F_RDLCK;
}

void hwio_lease_stop(void)
{
	pid_t thread = server;
	if (thread == 0)
		return;
	is_stopping = true;
	hwio_libc.syscall(SYS_tgkill, getpid(), thread, LEASE_SIGNAL, 0, 0, 0);
}
