/* sources: table.c path.c resolve.c request.c sys.c view.c wrap/calls.c */
/* Threads that switch interception off: each has its own count, none leaves it to another. */
#include "wrap/wrap.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "headwater/calls.h"

#define THREADS 300
#define AT_ONCE 256

/* What the others of the library need. */
struct hwa_namespace hwa_namespaces[HWA_NAMESPACES];

static pthread_barrier_t all;

static void *switch_off(void *refused)
{
	CHECK(!hwa_is_off());
	long count = hwa_calls.shift(-1);
	pthread_barrier_wait(&all);
	CHECK(hwa_is_off() == (count == -1));
	CHECK(count == -1 || count == LONG_MIN);
	if (count == LONG_MIN)
		__atomic_fetch_add((unsigned *)refused, 1, __ATOMIC_RELAXED);
	else
		CHECK(hwa_calls.shift(-2) == -3 && hwa_calls.shift(4) == 1 && !hwa_is_off() &&
			hwa_calls.shift(-1) == 0);
	return NULL;
}

static void *leave_off(void *unused)
{
	(void)unused;
	CHECK(hwa_calls.shift(0) == 0 && hwa_calls.shift(-1) == -1 && hwa_is_off());
	return NULL;
}

static void in_thread(void *run(void *))
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void *fork_on(void *unused)
{
	int status = 0;
	(void)unused;
	CHECK(hwa_calls.shift(-1) == -1);
	pid_t child = fork();
	if (child == 0) {
		/* A thread of the child may get the thread pointer of one that the parent has lost. */
		bool is_right = hwa_is_off() && hwa_calls.shift(1) == 0 && !hwa_is_off();
		_exit(is_right ? 0 : 1);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	CHECK(hwa_is_off() && hwa_calls.shift(1) == 0);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	unsigned refused = 0;

	CHECK(hwa_calls.version == 1 && hwa_calls.serves(NULL) == 0 && hwa_calls.serves("/") == 0);
	CHECK(hwa_calls.shift(0) == 0 && hwa_shifted == 0);
	pthread_barrier_init(&all, NULL, THREADS);
	for (int number = 0; number < THREADS; number++)
		CHECK(pthread_create(&threads[number], NULL, switch_off, &refused) == 0);
	for (int number = 0; number < THREADS; number++)
		pthread_join(threads[number], NULL);
	CHECK(refused == THREADS - AT_ONCE && hwa_shifted == 0);
	/* glibc gives the same stack, and so the same thread pointer, again. */
	for (int number = 0; number < 4; number++)
		in_thread(leave_off);
	CHECK(hwa_shifted == 1 && !hwa_is_off());
	in_thread(fork_on);
	return 0;
}
