/* System calls that the program makes by number. */
#ifndef HW_KERNEL_H
#define HW_KERNEL_H

#include <stdbool.h>

/* Once, before anything is put off. */
void hw_kernel_start(void);
/* Whether system calls that don't come by the C library are to be seen: while something is put off. */
void hw_kernel_watch(bool is_wanted);

#endif
