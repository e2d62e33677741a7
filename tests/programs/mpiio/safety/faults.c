/* The program's own handling of faults continues, and real faults reach it at the right address. */
#define _GNU_SOURCE
#include "safety.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define STEP(name) static void name(struct work *work)

static sigjmp_buf back;
static char *volatile fault_at;
static volatile int fault_code, faults;
static char *volatile guard;

static void leave(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	fault_at = info->si_addr;
	fault_code = info->si_code;
	faults = faults + 1;
	siglongjmp(back, 1);
}

static void leave_plainly(int signal)
{
	(void)signal;
	faults = faults + 1;
	siglongjmp(back, 1);
}

/* Makes the guard page usable, so that the access is done again. */
static void mend(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	fault_at = info->si_addr;
	faults = faults + 1;
	mprotect(guard, 4096, PROT_READ | PROT_WRITE);
}

static struct sigaction install(void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags}, old;

	sigemptyset(&action.sa_mask);
	must(!sigaction(SIGSEGV, &action, &old), "sigaction");
	return old;
}

/* Touches an address of which a fault is expected. */
static void touch(volatile char *at, const char *what)
{
	faults = 0;
	fault_at = NULL;
	if (!sigsetjmp(back, 1)) {
		char byte = *at;

		note("%s: read %d", what, byte);
	} else {
		note("%s: %d faults at %+td, code %d", what, faults, fault_at ? fault_at - (char *)at : 1, fault_code);
	}
}

STEP(handler_with_address)
{
	if (rank == 0) {
		struct sigaction old = install(leave, 0), now;
		char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		touch((char *)24, "near null");
		touch(none + 100, "protected");
		note("byte %d", work->data[50000]);
		touch(none + 4000, "protected");
		munmap(none, 4096);
		touch(none + 5, "unmapped");
		sigaction(SIGSEGV, NULL, &now);
		note("own handler %d", now.sa_sigaction == leave);
		sigaction(SIGSEGV, &old, NULL);
	}
}

STEP(handler_by_signal)
{
	if (rank == 0) {
		void (*old)(int) = signal(SIGSEGV, leave_plainly);

		note("byte %d", work->data[70000]);
		touch((char *)32, "near null");
		note("own handler %d", signal(SIGSEGV, old) == leave_plainly);
	}
}

/* The page behind the buffer is the program's to guard. */
STEP(handler_that_mends)
{
	if (rank == 0) {
		struct sigaction old = install(mend, 0);
		volatile char *at;

		guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		at = guard + 17;
		faults = 0;
		*at = 'g';
		volatile char *data = work->data;
		int own = *at, others = data[50000];
		note("bytes %d %d, %d faults, at %td", own, others, faults, fault_at - guard);
		munmap(guard, 4096);
		sigaction(SIGSEGV, &old, NULL);
	}
}

/* A page of the buffer itself becomes the program's guard. */
STEP(guard_in_the_buffer)
{
	if (rank == 0) {
		struct sigaction old = install(mend, 0);

		guard = work->data + 5 * 4096;
		faults = 0;
		note_result("mprotect", mprotect(guard, 4096, PROT_NONE));
		volatile char *data = work->data;
		int below = data[4 * 4096 + 9], none = faults, at = data[5 * 4096 + 11], above = data[6 * 4096 + 9];
		note("bytes %d %d %d, %d and %d faults, at %td", below, at, above, none, faults, fault_at - guard);
		sigaction(SIGSEGV, &old, NULL);
	}
}

STEP(read_only)
{
	if (rank == 0) {
		struct sigaction old = install(leave, 0);

		note_result("mprotect", mprotect(work->data, 65536, PROT_READ));
		note("byte %d", work->data[5000]);
		if (!sigsetjmp(back, 1)) {
			((volatile char *)work->data)[6000] = 'z';
			note("written");
		} else {
			note("fault at %td, code %d", fault_at - work->data, fault_code);
		}
		note_result("mprotect", mprotect(work->data, 65536, PROT_READ | PROT_WRITE));
		sigaction(SIGSEGV, &old, NULL);
	}
}

STEP(signal_blocked)
{
	if (rank == 0) {
		sigset_t all, old;

		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, &old);
		note("byte %d", work->data[60000]);
		sigprocmask(SIG_SETMASK, NULL, &all);
		note("blocked %d", sigismember(&all, SIGSEGV));
		sigprocmask(SIG_SETMASK, &old, NULL);
	}
}

/* By the kernel's own call. */
STEP(signal_blocked_by_number)
{
	if (rank == 0) {
		sigset_t all, old, now;

		sigfillset(&all);
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
		note("byte %d", work->data[60000]);
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &now, 8);
		note("blocked %d %d", sigismember(&now, SIGSEGV), sigismember(&now, SIGUSR1));
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
	}
}

static ucontext_t outside, inside;
static struct work *work_inside;

static void touch_inside(void)
{
	note("byte %d", work_inside->data[60000]);
	setcontext(&outside);
}

/* In a context with a mask of its own, as those of coroutines may have. */
STEP(signal_blocked_in_a_context)
{
	static char stack[65536];

	if (rank == 0) {
		work_inside = work;
		must(getcontext(&inside) == 0, "getcontext");
		inside.uc_stack.ss_sp = stack;
		inside.uc_stack.ss_size = sizeof stack;
		sigfillset(&inside.uc_sigmask);
		makecontext(&inside, touch_inside, 0);
		note_result("swapcontext", swapcontext(&outside, &inside));
	}
}

STEP(signal_ignored)
{
	if (rank == 0) {
		void (*old)(int) = signal(SIGSEGV, SIG_IGN);

		note("byte %d", work->data[60000]);
		raise(SIGSEGV);
		note("ignored %d", signal(SIGSEGV, old) == SIG_IGN);
	}
}

STEP(signal_sent)
{
	if (rank == 0) {
		struct sigaction old = install(leave, SA_NODEFER);

		if (!sigsetjmp(back, 1))
			kill(getpid(), SIGSEGV);
		else
			note("code %d", fault_code);
		note("byte %d", work->data[40000]);
		sigaction(SIGSEGV, &old, NULL);
	}
}

STEP(handler_on_a_stack_of_its_own)
{
	if (rank == 0) {
		char *stack = pages(65536);
		stack_t own = {.ss_sp = stack, .ss_size = 65536}, before;
		struct sigaction old = install(leave, SA_ONSTACK | SA_RESETHAND), now;

		sigaltstack(&own, &before);
		note("byte %d", work->data[80000]);
		touch((char *)40, "near null");
		sigaction(SIGSEGV, NULL, &now);
		note("reset %d", now.sa_handler == SIG_DFL);
		sigaction(SIGSEGV, &old, NULL);
		sigaltstack(&before, NULL);
		munmap(stack, 65536);
	}
}

static char *volatile touched_in_handler;
static volatile int byte_in_handler;

static void touches(int signal)
{
	(void)signal;
	byte_in_handler = *touched_in_handler;
}

/* A handler of another signal touches the buffer, while all signals are blocked. */
STEP(touched_in_a_handler)
{
	if (rank == 0) {
		struct sigaction action = {.sa_handler = touches}, old;

		sigfillset(&action.sa_mask);
		touched_in_handler = work->data + 55555;
		sigaction(SIGUSR1, &action, &old);
		raise(SIGUSR1);
		note("byte %d", byte_in_handler);
		sigaction(SIGUSR1, &old, NULL);
	}
}

static void *touches_blocked(void *at)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	return (void *)(uintptr_t) * (unsigned char *)at;
}

STEP(touched_by_a_thread_without_signals)
{
	if (rank == 0) {
		pthread_t thread;
		void *got;

		must(!pthread_create(&thread, NULL, touches_blocked, work->data + 66666), "thread");
		pthread_join(thread, &got);
		note("byte %d", (int)(uintptr_t)got);
	}
}

/* A child that reads the buffer, and then dies of a real fault. */
STEP(dying_child)
{
	if (rank == 0) {
		pid_t child = fork();
		int status = 0;

		if (child == 0) {
			setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
			signal(SIGSEGV, SIG_DFL);
			volatile char byte = work->data[70000];
			(void)byte;
			fault(16);
			_exit(0);
		}
		waitpid(child, &status, 0);
		note("signal %d", WTERMSIG(status));
	}
}

/* clang-format off */
#define FAULTS(X) \
	X(handler_with_address) X(handler_by_signal) X(handler_that_mends) X(guard_in_the_buffer) X(read_only) \
	X(signal_blocked) X(signal_blocked_by_number) X(signal_blocked_in_a_context) X(signal_ignored) X(signal_sent) \
	X(handler_on_a_stack_of_its_own) X(touched_in_a_handler) X(dying_child)
/* clang-format on */

#define BOTH(name) READ_SCATTER(name##_before, name, NULL) READ_SCATTER(name##_after, NULL, name)
FAULTS(BOTH)
BOTH(touched_by_a_thread_without_signals)

#define ROWS(name) {#name "_before", name##_before, 0}, {#name "_after", name##_after, 0},

const struct test faults_tests[] = {
	FAULTS(ROWS){"touched_by_a_thread_before", touched_by_a_thread_without_signals_before, LASTS},
	{"touched_by_a_thread_after", touched_by_a_thread_without_signals_after, LASTS},
	{NULL, NULL, 0},
};
