/* Other processes and threads of the program: what is deferred completes before they begin. */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "intercept/effects.h"
#include "memory/deferred.h"
#include "memory/lease.h"
#include "memory/memory_map.h"
#include "base/signals.h"
#include "mpi/control.h"
#include "mpi/threads.h"
#include "transfer/incoming.h"
#include "real.h"
#include "variant.h"

void hwio_before_fork(void)
{
	hwio_settle_everything();
	/* Under the lock, so that no other thread holds it in the child. */
	hwio_enter();
}

/* The child of an MPI process can't use MPI; nothing is deferred in it. */
void hwio_after_fork(pid_t child)
{
	int saved = errno;
	if (child == 0) {
		hwio_mode = HWIO_OFF;
		hwio_is_busy = 0;
		hwio_quick.is_watchful = 0;
	}
	hwio_leave();
	errno = saved;
}

/* MPI's own threads block the program's signals. Otherwise its handlers would run there while the program's thread has
 * them blocked within the library. */
static int create_mpi_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
	void *argument)
{
	sigset_t all, before;
	hwio_signals_block(&all);
	hwio_libc.pthread_sigmask(SIG_BLOCK, &all, &before);
	int result = hwio_libc.pthread_create(thread, attributes, start, argument);
	hwio_libc.pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

void hwio_before_thread(void)
{
	int saved = errno;
	/* MPI's own threads don't touch the program's memory by themselves. */
	if (hwio_depth > 0)
		return;
	/* Only the thread that has called MPI until now may fetch what is pending. */
	if (!hwio_is_threaded() && hwio_is_busy) {
		hwio_incoming_fetch_all();
		hwio_incoming_wait();
		hwio_deferred_fill_partial();
	}
	if (hwio_threads_are_noted())
		hwio_threads_begin();
	errno = saved;
}

void hwio_before_notification(const struct sigevent *event)
{
	if (event && event->sigev_notify == SIGEV_THREAD)
		hwio_before_thread();
}

int hwio_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	if (hwio_depth > 0)
		return create_mpi_thread(thread, attributes, start, argument);
	hwio_before_thread();
	return hwio_libc.pthread_create(thread, attributes, start, argument);
}

/* The process ends with the program's last thread; the library's own thread must not prolong it. */
void hwio_pthread_exit(void *value)
{
	if (hwio_depth == 0 && hwio_libc.syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) == getpid()) {
		hwio_settle_everything();
		hwio_lease_stop();
	}
	hwio_libc.pthread_exit(value);
}
