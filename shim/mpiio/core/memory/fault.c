/*
 * SIGSEGV in a protected page is answered here; every other one goes to the program's handler as if nothing stood
 * before it. The program's sigaction and signal see and set only their own. SIGSEGV is never blocked in fact, since a
 * fault while it is blocked kills the process.
 */
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../files/file.h"
#include "../patterns/incoming.h"
#include "../patterns/outstanding.h"
#include "deferred.h"
#include "private.h"
#include "real.h"

/* What the program wants to be done about SIGSEGV. */
static struct sigaction program_action;
static bool is_installed;

static void on_fault(int signal, siginfo_t *info, void *context);

static bool is_answered(uintptr_t address)
{
	static __thread uintptr_t last_address __attribute__((tls_model("initial-exec")));
	static __thread int repetitions __attribute__((tls_model("initial-exec")));
	hw_enter();
	/* A page may hold parts of both. */
	bool is_incoming = hw_incoming_touch(address);
	bool is_ours = hw_deferred_touch(address) || is_incoming;
	if (is_ours) {
		repetitions = 0;
	} else if (hw_private_page_is_open(address) && (address != last_address || repetitions < 3)) {
		/* Another thread has answered this page's fault in the meantime. */
		repetitions = address == last_address ? repetitions + 1 : 0;
		last_address = address;
		is_ours = true;
	}
	hw_leave();
	return is_ours;
}

static void give_to_program(int signal, siginfo_t *info, void *context)
{
	struct sigaction action = program_action;
	if (action.sa_handler == SIG_DFL || (action.sa_handler == SIG_IGN && info->si_code > 0)) {
		/* The instruction is repeated, and ends the process as it would have. */
		struct sigaction ending = {.sa_handler = SIG_DFL};
		hw_libc.sigaction(SIGSEGV, &ending, NULL);
		if (info->si_code <= 0)
			raise(signal);
		return;
	}
	if (action.sa_handler == SIG_IGN)
		return;
	if (action.sa_flags & SA_RESETHAND)
		program_action.sa_handler = SIG_DFL;
	sigset_t before, during = action.sa_mask;
	if (!(action.sa_flags & SA_NODEFER))
		sigdelset(&during, SIGSEGV);
	/* What was blocked when the fault came stays so in the program's handler. */
	sigset_t blocked = ((ucontext_t *)context)->uc_sigmask;
	sigorset(&during, &during, &blocked);
	sigdelset(&during, SIGSEGV);
	hw_libc.pthread_sigmask(SIG_SETMASK, &during, &before);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
	hw_libc.pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	/* Sent by kill it has no address; a fault in what isn't mapped has another code. */
	bool is_ours = info->si_code == SEGV_ACCERR && is_answered((uintptr_t)info->si_addr);
	errno = saved;
	if (!is_ours)
		give_to_program(signal, info, context);
}

static void on_lease(int signal, siginfo_t *info, void *context)
{
	struct timespec tick = {0, HW_TICK_NS};
	(void)signal;
	(void)context;
	int saved = errno;
	hw_enter();
	struct hw_file *file = hw_file_by_descriptor(info->si_fd);
	if (file && file->is_leased) {
		hw_file_keep(file);
		hw_deferred_fill_file(file, 0, INT64_MAX);
		hw_outstanding_hold(file);
		/* Whoever reads it for this rank sees by its times that it is another by now. */
		nanosleep(&tick, NULL);
		hw_file_unlease(file);
		hw_file_release(file);
	} else {
		/* Whoever opens the file waits until the lease is given up. */
		fcntl(info->si_fd, F_SETLEASE, F_UNLCK);
	}
	hw_leave();
	errno = saved;
}

bool hw_is_lease_handler(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_lease;
}

/* Faults on a stack that is itself protected need another one. */
static bool give_stack(void)
{
	stack_t stack;
	if (sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE))
		return true;
	size_t bytes = 256 << 10;
	stack = (stack_t){.ss_size = bytes};
	stack.ss_sp = hw_libc.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	return stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0;
}

bool hw_fault_start(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	sigfillset(&action.sa_mask);
	sigdelset(&action.sa_mask, SIGSEGV);
	sigdelset(&action.sa_mask, SIGBUS);
	sigset_t unblocked;
	sigemptyset(&unblocked);
	sigaddset(&unblocked, SIGSEGV);
	if (!give_stack() || hw_libc.sigaction(SIGSEGV, &action, &program_action) != 0)
		return false;
	hw_libc.pthread_sigmask(SIG_UNBLOCK, &unblocked, NULL);
	is_installed = true;
	struct sigaction lease = {.sa_sigaction = on_lease, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
	sigfillset(&lease.sa_mask);
	sigdelset(&lease.sa_mask, SIGSEGV);
	if (hw_libc.sigaction(HW_LEASE_SIGNAL, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
		hw_libc.sigaction(HW_LEASE_SIGNAL, &lease, NULL);
	return true;
}

int hw_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	if (!is_installed)
		return hw_libc.sigaction(signal, action, old);
	if (signal != SIGSEGV) {
		struct sigaction unblocking;
		if (action && sigismember(&action->sa_mask, SIGSEGV)) {
			unblocking = *action;
			sigdelset(&unblocking.sa_mask, SIGSEGV);
			action = &unblocking;
		}
		return hw_libc.sigaction(signal, action, old);
	}
	hw_enter();
	struct sigaction before = program_action;
	if (action)
		program_action = *action;
	if (old)
		*old = before;
	hw_leave();
	return 0;
}

typedef void (*handler)(int);

handler hw_signal(int signal, handler wanted)
{
	if (signal != SIGSEGV || !is_installed)
		return hw_libc.signal(signal, wanted);
	struct sigaction action = {.sa_handler = wanted, .sa_flags = SA_RESTART}, old;
	return hw_sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

handler hw_bsd_signal(int signal, handler wanted)
{
	return hw_signal(signal, wanted);
}

handler hw_sysv_signal(int signal, handler wanted)
{
	return hw___sysv_signal(signal, wanted);
}

handler hw___sysv_signal(int signal, handler wanted)
{
	if (signal != SIGSEGV || !is_installed)
		return hw_libc.__sysv_signal(signal, wanted);
	struct sigaction action = {.sa_handler = wanted, .sa_flags = (int)SA_RESETHAND | SA_NODEFER}, old;
	return hw_sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* Whether this thread believes that it has blocked SIGSEGV. */
static __thread bool is_blocked __attribute__((tls_model("initial-exec")));

typedef int (*mask_call)(int, const sigset_t *, sigset_t *);

static int change_mask(mask_call call, int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;
	bool was_blocked = is_blocked;
	if (!is_installed)
		return call(how, set, old);
	if (set) {
		copy = *set;
		bool is_named = sigismember(set, SIGSEGV);
		/* A fault while it is blocked would end the process. */
		sigdelset(&copy, SIGSEGV);
		if (how == SIG_SETMASK)
			is_blocked = is_named;
		else if (is_named)
			is_blocked = how == SIG_BLOCK;
	}
	int result = call(how, set ? &copy : NULL, old);
	if (result != 0)
		is_blocked = was_blocked;
	else if (old && was_blocked)
		sigaddset(old, SIGSEGV);
	return result;
}

int hw_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_mask(hw_libc.sigprocmask, how, set, old);
}

int hw_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_mask(hw_libc.pthread_sigmask, how, set, old);
}
