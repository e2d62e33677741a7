/* Threads from before MPI. Libraries that an MPI needs start such ones in constructors and end them soon: only those that
 * are there after MPI_Init, too, are the program's. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/memory_map.h"
#include "real.h"
#include "mpi/threads.h"

#define EARLIER_MAX 16

static pid_t earlier[EARLIER_MAX];
static unsigned int earlier_count;
static bool is_noted;

bool hwio_threads_are_noted(void)
{
	return __atomic_load_n(&is_noted, __ATOMIC_ACQUIRE);
}

/* Returns false if there are too many, or they can't be listed. */
static bool list_earlier(void)
{
	DIR *tasks = opendir("/proc/self/task");
	bool is_fit = tasks != NULL;
	for (struct dirent *task; is_fit && (task = readdir(tasks)) != NULL;) {
		pid_t thread = (pid_t)atol(task->d_name);
		if (thread == 0 || thread == getpid())
			continue;
		is_fit = earlier_count < EARLIER_MAX;
		if (is_fit)
			earlier[earlier_count++] = thread;
	}
	if (tasks)
		closedir(tasks);
	return is_fit;
}

void hwio_threads_note(void)
{
	/* What is created from now on is known as it is created. */
	__atomic_store_n(&is_noted, true, __ATOMIC_RELEASE);
	if (!list_earlier())
		hwio_threads_begin();
}

void hwio_threads_check(void)
{
	for (unsigned int i = 0; i < earlier_count; i++) {
		if (hwio_libc.syscall(SYS_tgkill, getpid(), earlier[i], 0, 0, 0, 0) == 0)
			hwio_threads_begin();
	}
}
