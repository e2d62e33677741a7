/* System calls that the program makes by number. */
#ifndef HWIO_KERNEL_H
#define HWIO_KERNEL_H

#include <stdbool.h>

/* Called once, before anything is deferred. */
void hwio_kernel_start(void);
/* Sets whether system calls past the C library are intercepted: while something is deferred. */
void hwio_kernel_watch(bool is_wanted);

#endif
