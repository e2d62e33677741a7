/*
 * What a signal's handler has to have done but may not do itself, since it allocates, waits or talks to other
 * ranks: its thread does it when the handler has returned, as if it had called a function where the signal came,
 * and goes on there with all its registers as they were.
 */
#ifndef HWIO_ASIDE_H
#define HWIO_ASIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

struct hwio_aside {
	/* Called with the thread's signals blocked; `of` is this. */
	void (*work)(struct hwio_aside *of);
	/* That was touched. */
	uintptr_t address;
	/* Of a system call, whose result is what the thread goes on with: its signals are as they were meanwhile. */
	bool is_call;
	long number, arguments[6], result;
};

/* To be called last in a handler. False: it can't be done on this machine. */
bool hwio_aside(ucontext_t *context, const struct hwio_aside *aside);

#endif
