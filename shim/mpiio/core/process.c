/* Other processes and threads of the program: what is put off is done before they begin. */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files/change.h"
#include "memory/deferred.h"
#include "memory/lease.h"
#include "memory/private.h"
#include "memory/signals.h"
#include "mpi/control.h"
#include "patterns/incoming.h"
#include "real.h"
#include "variant.h"

void hw_before_vfork(void)
{
	hw_settle_everything();
}

/* A child of an MPI process can't use MPI, and there is nothing left to look after. */
pid_t hw_fork(void)
{
	hw_settle_everything();
	/* No other thread has the lock in the child. */
	hw_enter();
	pid_t child = hw_libc.fork();
	int saved = errno;
	if (child == 0) {
		hw_mode = HW_OFF;
		hw_is_busy = 0;
		hw_quick.is_watchful = 0;
	}
	hw_leave();
	errno = saved;
	return child;
}

void hw__exit(int status)
{
	hw_settle_for_others();
	hw_libc._exit(status);
}

int hw_system(const char *command)
{
	hw_settle_everything();
	return hw_libc.system(command);
}

FILE *hw_popen(const char *command, const char *mode)
{
	hw_settle_everything();
	return hw_libc.popen(command, mode);
}

int hw_posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
		   const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
	hw_settle_everything();
	return hw_libc.posix_spawn(process, path, actions, attributes, arguments, environment);
}

int hw_posix_spawnp(pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
		    const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
	hw_settle_everything();
	return hw_libc.posix_spawnp(process, file, actions, attributes, arguments, environment);
}

int hw_execve(const char *path, char *const arguments[], char *const environment[])
{
	hw_settle_everything();
	return hw_libc.execve(path, arguments, environment);
}

int hw_execv(const char *path, char *const arguments[])
{
	hw_settle_everything();
	return hw_libc.execv(path, arguments);
}

int hw_execvp(const char *file, char *const arguments[])
{
	hw_settle_everything();
	return hw_libc.execvp(file, arguments);
}

int hw_execvpe(const char *file, char *const arguments[], char *const environment[])
{
	hw_settle_everything();
	return hw_libc.execvpe(file, arguments, environment);
}

int hw_fexecve(int descriptor, char *const arguments[], char *const environment[])
{
	hw_settle_everything();
	return hw_libc.fexecve(descriptor, arguments, environment);
}

int hw_daemon(int stays, int keeps_open)
{
	hw_settle_everything();
	return hw_libc.daemon(stays, keeps_open);
}

/*
 * MPI's own threads take none of the program's signals, which would come to them while the program's thread has them
 * blocked within the library: its handlers would run there.
 */
static int create_apart(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	sigset_t all, before;
	hw_signals_block(&all);
	hw_libc.pthread_sigmask(SIG_BLOCK, &all, &before);
	int result = hw_libc.pthread_create(thread, attributes, start, argument);
	hw_libc.pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

int hw_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	/* MPI's own threads don't touch the program's memory by themselves. */
	if (hw_depth > 0)
		return create_apart(thread, attributes, start, argument);
	/* Messages are the business of the thread that has called MPI until now. */
	if (!hw_private_is_threaded() && hw_is_busy) {
		hw_incoming_fetch_all();
		hw_incoming_wait();
		hw_deferred_round();
	}
	hw_private_threads_begin();
	return hw_libc.pthread_create(thread, attributes, start, argument);
}

/* The process ends with the last thread of the program; that of the library must not keep it. */
void hw_pthread_exit(void *value)
{
	if (hw_depth == 0 && hw_libc.syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) == getpid()) {
		hw_settle_everything();
		hw_lease_stop();
	}
	hw_libc.pthread_exit(value);
}
