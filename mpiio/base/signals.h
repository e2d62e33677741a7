/* The signals that the engine handles itself, SIGSEGV and SIGSYS. The program's sigaction, signal and masks read and
 * set only its own state. The kernel's mask never blocks them: a blocked signal that an instruction raises kills the
 * process. */
#ifndef HWIO_SIGNALS_H
#define HWIO_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Installs the action for the signal, and unblocks it. */
bool hwio_signal_intercept(int signal, const struct sigaction *action);
/* Handles a signal that isn't the engine's by the program's own action. */
void hwio_signal_forward(int signal, siginfo_t *info, void *context);
/* Sets a mask of all signals but those that must not be blocked. */
void hwio_signals_block(sigset_t *mask);

/* rt_sigprocmask by the kernel's own masks, which have this size. */
#define HWIO_KERNEL_MASK_BYTES 8
int hwio_mask_by_number(int how, const void *set, void *old);

#endif
