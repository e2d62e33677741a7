/* Runs work for a signal's handler that may not allocate, wait or send messages. The thread does it after the handler
 * has returned, as if it had called a function where the signal arrived. Then it resumes there with all its registers
 * as they were. */
#ifndef HWIO_ASIDE_H
#define HWIO_ASIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Enough for messages. The work is done on an alternate stack of this size, where the thread has one. */
#define HWIO_ASIDE_STACK_BYTES (256UL << 10)

struct hwio_aside {
	/* Called with the thread's signals blocked; `of` is this structure. */
	void (*work)(struct hwio_aside *of);
	/* The address of the fault. */
	uintptr_t address;
	/* A system call, whose result the thread resumes with; its signals are as before meanwhile. */
	bool is_call;
	long number, arguments[6], result;
};

/* Called last in a handler. False: this machine can't do it. */
bool hwio_aside(ucontext_t *context, const struct hwio_aside *aside);

#endif
