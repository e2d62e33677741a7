/* The program's own code leaves a call for good: a handler by longjmp, a thread because it is cancelled. */
#define _GNU_SOURCE
#include "safety.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#define STEP(name) static void name(struct work *work)

static jmp_buf back;
static struct work *seen;

static void write_it(const char *name)
{
	if (rank == 0) {
		int fd = open(path(name), O_RDWR | O_CREAT | O_TRUNC, 0644);

		note_result("write", write(fd, seen->data + 5000, 70000));
		note_result("pread", pread(fd, seen->data + 90000, 60000, 10));
		close(fd);
		note_file(path(name));
	}
}

/* MPICH, initialized here for threads, keeps its lock where a handler doesn't return. */
static void leave_mpi(MPI_Comm *comm, int *error, ...)
{
	(void)comm;
	note("error %d", class_of(*error) == MPI_ERR_RANK);
	write_it("handled");
#ifdef OPEN_MPI
	longjmp(back, 1);
#endif
}

/* There is no such rank. */
static void send_to_no_rank(MPI_Comm comm)
{
	char byte = 0;

	if (!setjmp(back))
		MPI_Send(&byte, 1, MPI_BYTE, 5, 3, comm);
	else
		note("left");
}

/* The thread's actions after that are its own again: deferred data is completed, and more may be deferred. */
STEP(error_handler_leaves)
{
	MPI_Errhandler handler;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_SELF, &comm);
	MPI_Comm_create_errhandler(leave_mpi, &handler);
	MPI_Comm_set_errhandler(comm, handler);
	seen = work;
	send_to_no_rank(comm);
	write_it("copy");
	MPI_Comm_free(&comm);
	MPI_Errhandler_free(&handler);
}

static sigjmp_buf outside;
static pthread_t expected;
static volatile int elsewhere;

static void leave_call(int signal)
{
	(void)signal;
	if (!pthread_equal(pthread_self(), expected))
		elsewhere = 1;
	else
		siglongjmp(outside, 1);
}

static void start_timer(long us)
{
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, us}}, NULL);
}

/* A timer ends a long row of reads and writes, wherever the program then is. */
STEP(timer_leaves)
{
	if (rank != 0)
		return;
	struct sigaction action = {.sa_handler = leave_call}, old;
	int null = open("/dev/null", O_WRONLY), in;
	char *other = pages(150000);

	expected = pthread_self();
	sigaction(SIGALRM, &action, &old);
	make(path("other"), 150000, 9);
	in = open(path("other"), O_RDONLY);
	for (volatile int round = 0; round < 30; round++) {
		if (sigsetjmp(outside, 1))
			continue;
		start_timer(100 + 17 * round);
		for (;;) {
			ssize_t got = pread(in, other, 150000, 0), put = write(null, other + round, 100000);

			if (got != 150000 || put != 100000)
				note("read %zd, written %zd", got, put);
		}
	}
	start_timer(0);
	sigaction(SIGALRM, &old, NULL);
	note_result("pread", pread(in, other, 150000, 0));
	note_sum("other", other, 150000);
	note_sum("data", work->data, 50000);
	note("elsewhere %d", elsewhere);
	munmap(other, 150000);
	close(in);
	close(null);
}

static void *reads_and_is_cancelled(void *name)
{
	char *mine = pages(100000);
	int fd = open(name, O_RDONLY);

	pthread_cancel(pthread_self());
	note_result("read", read(fd, mine, 100000));
	return NULL;
}

/* It was about to read. */
STEP(thread_is_cancelled)
{
	pthread_t thread;
	void *got;

	if (rank == 0) {
		must(!pthread_create(&thread, NULL, reads_and_is_cancelled, work->path), "thread");
		pthread_join(thread, &got);
		note("cancelled %d", got == PTHREAD_CANCELED);
	}
}

static void *writes_until_it_is_cancelled(void *memory)
{
	int null = open("/dev/null", O_WRONLY);

	while (write(null, memory, 100000) == 100000)
		;
	return NULL;
}

/* The thread may be anywhere, and so may its writes. */
STEP(writing_thread_is_cancelled)
{
	pthread_t threads[4];
	void *got;

	if (rank == 0) {
		for (int i = 0; i < 4; i++) {
			must(!pthread_create(&threads[i], NULL, writes_until_it_is_cancelled, work->data + i * 20000),
				"thread");
			pthread_cancel(threads[i]);
		}
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], &got);
			note("cancelled %d", got == PTHREAD_CANCELED);
		}
	}
}

#define LEAVE(X) X(error_handler_leaves) X(timer_leaves)
#define PERSISTENT(X) X(thread_is_cancelled) X(writing_thread_is_cancelled)

#define BOTH(name) READ_SCATTER(name##_before, name, NULL) READ_SCATTER(name##_after, NULL, name)
LEAVE(BOTH)
PERSISTENT(BOTH)

#define ROWS(name) {#name "_before", name##_before, 0}, {#name "_after", name##_after, 0},
#define LATER(name) {#name "_before", name##_before, LASTS}, {#name "_after", name##_after, LASTS},

const struct test leaves_tests[] = {
	LEAVE(ROWS) PERSISTENT(LATER){NULL, NULL, 0},
};
