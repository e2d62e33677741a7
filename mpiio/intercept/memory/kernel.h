/* System calls that the program makes by number. */
#ifndef HWIO_KERNEL_H
#define HWIO_KERNEL_H

#include <stdbool.h>

/* Called once, before anything is deferred. System calls past the C library are intercepted while something is. */
void hwio_kernel_start(void);

#endif
