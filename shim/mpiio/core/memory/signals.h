/*
 * Signals that the engine answers itself, SIGSEGV and SIGSYS: the program's sigaction, signal and masks see and set
 * only its own. They are never blocked in fact, since what raises them then kills the process.
 */
#ifndef HWIO_SIGNALS_H
#define HWIO_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* From now on the signal is answered so, also where it comes while others are. */
bool hwio_signal_intercept(int signal, const struct sigaction *action);
/* Does with a signal that isn't for the engine what the program wants. */
void hwio_signal_forward(int signal, siginfo_t *info, void *context);
/* A mask of all signals but those that may not be blocked. */
void hwio_signals_block(sigset_t *mask);

#endif
