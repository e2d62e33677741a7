/* The memory that is available to this process. */
#ifndef HWIO_ROOM_H
#define HWIO_ROOM_H

#include <stdint.h>

/* Returns the bytes that the machine and the process's control groups have left. Reads files. */
uint64_t hwio_room_bytes(void);

#endif
