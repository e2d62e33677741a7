/* SIGSEGV in a protected page is answered here; every other one goes to the program's handler. */
#include "fault.h"

#include <errno.h>
#include <sys/mman.h>

#include "../patterns/incoming.h"
#include "../signals/aside.h"
#include "../signals/handler.h"
#include "deferred.h"
#include "kernel.h"
#include "pages.h"
#include "private.h"
#include "real.h"
#include "signals.h"

/* What a page needs that was touched. */
enum answer { NOT_OURS, ANSWERED, NEEDS_MESSAGES };

/* Whether what is deferred there is still written by other ranks. */
static bool is_written(uintptr_t address)
{
	uintptr_t page = hw_page_down(address);
	return hw_incoming_is_writing() && hw_deferred_in(page, page + HW_PAGE_BYTES);
}

static void fill(uintptr_t address)
{
	/* A page may hold parts of both. */
	hw_incoming_touch(address);
	if (is_written(address))
		hw_incoming_wait();
	hw_enter();
	hw_deferred_touch(address);
	hw_leave();
}

static enum answer answer(uintptr_t address)
{
	static __thread uintptr_t last_address __attribute__((tls_model("initial-exec")));
	static __thread int repetitions __attribute__((tls_model("initial-exec")));
	struct hw_range closed;
	hw_enter();
	enum answer result = NOT_OURS;
	if (hw_pages_find(address, &closed)) {
		bool needs_messages = hw_incoming_holds(address) || is_written(address);
		repetitions = 0;
		result = needs_messages && hw_depth == 0 ? NEEDS_MESSAGES : ANSWERED;
		/* Within MPI no rank can be asked: it is let at the page until it has returned, and nobody else looks. */
		if (needs_messages && hw_depth > 0)
			hw_incoming_expose(address);
		if (result == ANSWERED && !is_written(address) && !hw_deferred_touch(address))
			hw_pages_settle(address, address + 1);
	} else if (hw_private_page_is_open(address) && (address != last_address || repetitions < 3)) {
		/* Another thread has answered this page's fault in the meantime. */
		repetitions = address == last_address ? repetitions + 1 : 0;
		last_address = address;
		result = ANSWERED;
	}
	hw_leave();
	return result;
}

static void fill_aside(struct hw_aside *of)
{
	fill(of->address);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	int saved = errno, before = hw_handler_begins();
	struct hw_aside aside = {.work = fill_aside, .address = (uintptr_t)info->si_addr};
	/* Sent by kill it has no address; a fault in what isn't mapped has another code. */
	enum answer result = info->si_code == SEGV_ACCERR ? answer(aside.address) : NOT_OURS;
	if (result == NEEDS_MESSAGES && !hw_aside(context, &aside))
		fill(aside.address);
	errno = saved;
	if (result == NOT_OURS)
		hw_signal_give(signal, info, context);
	hw_handler_ends(before);
}

/*
 * Faults on a stack that is itself protected need another one; where the handler can't leave anything to the thread, with
 * room for what MPI does meanwhile.
 */
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
	hw_handlers_start();
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	hw_signals_block(&action.sa_mask);
	if (!give_stack() || !hw_signal_take(SIGSEGV, &action))
		return false;
	hw_kernel_start();
	return true;
}
