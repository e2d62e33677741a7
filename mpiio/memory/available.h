/* The memory that is available to this process. */
#ifndef HWIO_AVAILABLE_H
#define HWIO_AVAILABLE_H

#include <stdint.h>

/* Returns the bytes that the machine and the process's control groups have left. Reads files. */
uint64_t hwio_available_bytes(void);

#endif
