/* System calls that the program makes by number. */
#ifndef HWIO_KERNEL_H
#define HWIO_KERNEL_H

#include <stdbool.h>

/* Once, before anything is put off. */
void hwio_kernel_start(void);
/* Whether system calls that don't come by the C library are to be seen: while something is put off. */
void hwio_kernel_watch(bool is_wanted);

#endif
