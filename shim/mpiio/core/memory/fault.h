/* The page fault handler, and the program's own handler behind it. */
#ifndef HW_FAULT_H
#define HW_FAULT_H

#include <signal.h>

#include "../engine.h"

/* A change of a file on which the engine has a lease. */
#define HW_LEASE_SIGNAL (SIGRTMAX - 3)

bool hw_fault_start(void);
bool hw_is_lease_handler(const struct sigaction *action);

#endif
