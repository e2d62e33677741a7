/* SIGSEGV in a protected page is answered here; every other one goes to the program's handler. */
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
#include "kernel.h"
#include "private.h"
#include "real.h"
#include "signals.h"

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

static void on_fault(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	/* Sent by kill it has no address; a fault in what isn't mapped has another code. */
	bool is_ours = info->si_code == SEGV_ACCERR && is_answered((uintptr_t)info->si_addr);
	errno = saved;
	if (!is_ours)
		hw_signal_give(signal, info, context);
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

/* Faults on a stack that is itself protected need another one, with room for what MPI does meanwhile. */
static bool give_stack(void)
{
	stack_t stack;
	size_t bytes = 256 << 10;
	if (sigaltstack(NULL, &stack) != 0 || (!(stack.ss_flags & SS_DISABLE) && stack.ss_size >= bytes))
		return true;
	stack = (stack_t){.ss_size = bytes};
	stack.ss_sp = hw_libc.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	return stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0;
}

bool hw_fault_start(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	hw_signals_block(&action.sa_mask);
	if (!give_stack() || !hw_signal_take(SIGSEGV, &action))
		return false;
	hw_kernel_start();
	struct sigaction lease = {.sa_sigaction = on_lease, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
	hw_signals_block(&lease.sa_mask);
	if (hw_libc.sigaction(HW_LEASE_SIGNAL, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
		hw_libc.sigaction(HW_LEASE_SIGNAL, &lease, NULL);
	return true;
}
