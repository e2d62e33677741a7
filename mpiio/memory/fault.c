/* Handles SIGSEGV in protected pages; forwards every other one to the program's handler. */
#include "memory/fault.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/aside.h"
#include "base/handler.h"
#include "memory/deferred.h"
#include "memory/pages.h"
#include "memory/memory_map.h"
#include "real.h"
#include "base/signals.h"

/* What a fault needs. */
enum answer { NOT_OURS, ANSWERED, NEEDS_MESSAGES };

/* Returns true if other ranks still write what is deferred there. */
static bool is_written_by_others(uintptr_t address)
{
	uintptr_t page = hwio_page_down(address);
	return hwio_deferred_awaits_writes(page, page + hwio_page_bytes);
}

static void fill_page(uintptr_t address)
{
	/* A page may have parts of messages and of deferred reads. */
	hwio_pages_fetch(address);
	if (is_written_by_others(address)) {
		hwio_refuse_copy();
		hwio_deferred_await_writes();
	}
	hwio_enter();
	hwio_deferred_touch(address);
	hwio_leave();
}

static enum answer answer_fault(uintptr_t address)
{
	static __thread uintptr_t last_address __attribute__((tls_model("initial-exec")));
	static __thread int repetitions __attribute__((tls_model("initial-exec")));
	struct hwio_range closed;
	hwio_enter();
	enum answer result = NOT_OURS;
	if (hwio_pages_find(address, &closed)) {
		bool needs_messages = hwio_pages_need_messages(address) || is_written_by_others(address);
		repetitions = 0;
		result = needs_messages && hwio_depth == 0 ? NEEDS_MESSAGES : ANSWERED;
		/* Within MPI, no message can be sent. So MPI is admitted to the page until it has returned; no other
		 * code reads the page meanwhile. */
		if (needs_messages && hwio_depth > 0)
			hwio_pages_expose(address);
		if (result == ANSWERED && !is_written_by_others(address) && !hwio_deferred_touch(address))
			hwio_pages_settle(address, address + 1);
	} else if (hwio_memory_map_page_is_open(address) && (address != last_address || repetitions < 3)) {
		/* Another thread has handled this page's fault in the meantime. */
		repetitions = address == last_address ? repetitions + 1 : 0;
		last_address = address;
		result = ANSWERED;
	}
	hwio_leave();
	return result;
}

static void fill_aside(struct hwio_aside *of)
{
	fill_page(of->address);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	int saved = errno, before = hwio_handler_begins();
	struct hwio_aside aside = {.work = fill_aside, .address = (uintptr_t)info->si_addr};
	/* A signal sent by kill has no address; a fault in unmapped memory has another code. */
	enum answer result = info->si_code == SEGV_ACCERR ? answer_fault(aside.address) : NOT_OURS;
	if (result == NEEDS_MESSAGES && !hwio_aside(context, &aside))
		fill_page(aside.address);
	errno = saved;
	if (result == NOT_OURS)
		hwio_signal_forward(signal, info, context);
	hwio_handler_ends(before);
}

/* Sets an alternate stack, since the program's own may be protected, or too small for MPI. */
static bool set_alternate_stack(void)
{
	stack_t stack;
	size_t bytes = HWIO_ASIDE_STACK_BYTES;
	if (sigaltstack(NULL, &stack) != 0 || (!(stack.ss_flags & SS_DISABLE) && stack.ss_size >= bytes))
		return true;
	stack = (stack_t){.ss_size = bytes};
	stack.ss_sp = hwio_libc.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1,
		0);
	return stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0;
}

bool hwio_fault_start(void)
{
	hwio_handlers_start();
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	hwio_signals_block(&action.sa_mask);
	return set_alternate_stack() && hwio_signal_intercept(SIGSEGV, &action);
}
