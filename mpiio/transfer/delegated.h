/* Writes of the program that the owners of the data carry out. */
#ifndef HWIO_DELEGATED_H
#define HWIO_DELEGATED_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if other ranks are writing to this part of the file. */
bool hwio_delegated_is_awaited(uint64_t device, uint64_t inode, uint64_t low, uint64_t high);
/* Returns true if other ranks are writing to this part of the file, or will by a deferred write. */
bool hwio_delegated_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high);
/* Returns true if other ranks are writing to another file. */
bool hwio_delegated_elsewhere(uint64_t device, uint64_t inode);
/* Returns 0, or the error of a failed write to this file since the last call. */
int hwio_delegated_error(uint64_t device, uint64_t inode);

#endif
