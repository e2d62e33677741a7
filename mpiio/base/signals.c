#include "base/signals.h"

#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "base/engine.h"
#include "base/handler.h"
#include "real.h"

struct intercepted {
	int signal;
	bool is_active;
	/* The program's own action. */
	struct sigaction program;
};

static struct intercepted all[] = {{.signal = SIGSEGV}, {.signal = SIGSYS}};
enum { ALL = sizeof(all) / sizeof(*all) };
/* Intercepted signals that this thread's program has blocked, a bit each. */
static __thread unsigned int blocked_by_program __attribute__((tls_model("initial-exec")));

static struct intercepted *find_intercepted(int signal)
{
	for (size_t at = 0; at < ALL; at++)
		if (all[at].signal == signal && all[at].is_active)
			return &all[at];
	return NULL;
}

/* Removes intercepted signals from a mask; returns which were in it. */
static unsigned int remove_intercepted(sigset_t *mask)
{
	unsigned int named = 0;
	for (unsigned int at = 0; at < ALL; at++) {
		if (!all[at].is_active || sigismember(mask, all[at].signal) != 1)
			continue;
		sigdelset(mask, all[at].signal);
		named |= 1U << at;
	}
	return named;
}

void hwio_signals_block(sigset_t *mask)
{
	sigfillset(mask);
	/* Intercepted or not: signals that an instruction raises are delivered at once. */
	sigdelset(mask, SIGSEGV);
	sigdelset(mask, SIGBUS);
	sigdelset(mask, SIGSYS);
}

bool hwio_signal_intercept(int signal, const struct sigaction *action)
{
	sigset_t unblocked, before;
	sigemptyset(&unblocked);
	sigaddset(&unblocked, signal);
	for (unsigned int at = 0; at < ALL; at++) {
		if (all[at].signal != signal)
			continue;
		if (hwio_libc.sigaction(signal, action, &all[at].program) != 0)
			return false;
		if (hwio_libc.pthread_sigmask(SIG_UNBLOCK, &unblocked, &before) == 0 && sigismember(&before, signal))
			blocked_by_program |= 1U << at;
		return all[at].is_active = true;
	}
	return false;
}

void hwio_signal_forward(int signal, siginfo_t *info, void *context)
{
	struct intercepted *one = find_intercepted(signal);
	struct sigaction action = one->program;
	if (action.sa_handler == SIG_DFL || (action.sa_handler == SIG_IGN && info->si_code > 0)) {
		/* The access is repeated, and ends the process as without this library. */
		struct sigaction ending = {.sa_handler = SIG_DFL};
		hwio_libc.sigaction(signal, &ending, NULL);
		if (info->si_code <= 0 || signal != SIGSEGV)
			raise(signal);
		return;
	}
	if (action.sa_handler == SIG_IGN)
		return;
	if (action.sa_flags & SA_RESETHAND)
		one->program.sa_handler = SIG_DFL;
	sigset_t before, during = action.sa_mask;
	/* Signals that were blocked when this one arrived stay so in the program's handler. */
	sigset_t blocked = ((ucontext_t *)context)->uc_sigmask;
	sigorset(&during, &during, &blocked);
	remove_intercepted(&during);
	hwio_libc.pthread_sigmask(SIG_SETMASK, &during, &before);
	int previous = hwio_handler_is_the_programs();
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
	hwio_handler_ends(previous);
	hwio_libc.pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int hwio_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct intercepted *one = find_intercepted(signal);
	if (one == NULL) {
		struct sigaction unblocking;
		if (action) {
			unblocking = *action;
			if (remove_intercepted(&unblocking.sa_mask))
				action = &unblocking;
		}
		return hwio_libc.sigaction(signal, action, old);
	}
	hwio_enter();
	struct sigaction before = one->program;
	if (action)
		one->program = *action;
	if (old)
		*old = before;
	hwio_leave();
	return 0;
}

typedef void (*handler)(int);

handler hwio_signal(int signal, handler wanted)
{
	if (!find_intercepted(signal))
		return hwio_libc.signal(signal, wanted);
	struct sigaction action = {.sa_handler = wanted, .sa_flags = SA_RESTART}, old;
	return hwio_sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

handler hwio___sysv_signal(int signal, handler wanted)
{
	if (!find_intercepted(signal))
		return hwio_libc.__sysv_signal(signal, wanted);
	struct sigaction action = {.sa_handler = wanted, .sa_flags = (int)SA_RESETHAND | SA_NODEFER}, old;
	return hwio_sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

typedef int (*mask_call)(int, const sigset_t *, sigset_t *);

static int change_mask(mask_call call, int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;
	unsigned int before = blocked_by_program;
	if (set) {
		copy = *set;
		unsigned int named = remove_intercepted(&copy);
		if (how == SIG_SETMASK)
			blocked_by_program = named;
		else
			blocked_by_program = how == SIG_BLOCK ? blocked_by_program | named
							      : blocked_by_program & ~named;
	}
	/* `old` may be deferred memory, to which the kernel can't write. */
	sigset_t former;
	int result = call(how, set ? &copy : NULL, old ? &former : NULL);
	if (result == 0 && old)
		*old = former;
	if (result != 0)
		blocked_by_program = before;
	for (unsigned int at = 0; result == 0 && old && at < ALL; at++)
		if (before & 1U << at)
			sigaddset(old, all[at].signal);
	return result;
}

int hwio_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_mask(hwio_libc.sigprocmask, how, set, old);
}

int hwio_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_mask(hwio_libc.pthread_sigmask, how, set, old);
}

int hwio_mask_by_number(int how, const void *set, void *old)
{
	sigset_t wanted, former;
	sigemptyset(&wanted);
	if (set)
		memcpy(&wanted, set, HWIO_KERNEL_MASK_BYTES);
	int result = hwio_sigprocmask(how, set ? &wanted : NULL, old ? &former : NULL);
	if (result == 0 && old)
		memcpy(old, &former, HWIO_KERNEL_MASK_BYTES);
	return result;
}

/* A context has a mask, which the C library sets by a call of its own. */
int hwio_setcontext(const ucontext_t *context)
{
	ucontext_t copy = *context;
	remove_intercepted(&copy.uc_sigmask);
	return hwio_libc.setcontext(&copy);
}

int hwio_swapcontext(ucontext_t *old, const ucontext_t *context)
{
	ucontext_t copy = *context;
	remove_intercepted(&copy.uc_sigmask);
	return hwio_libc.swapcontext(old, &copy);
}
