/* How much memory this process may still take. */
#ifndef HWIO_ROOM_H
#define HWIO_ROOM_H

#include <stdint.h>

/* Bytes that the machine, and the control groups that the process is in, have left. Reads files. */
uint64_t hwio_room_bytes(void);

#endif
