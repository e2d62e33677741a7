/* Writes of the program that the owners of the data carry out. */
#ifndef HWIO_DELEGATED_H
#define HWIO_DELEGATED_H

#include "pending.h"

/* Whether other ranks write to this part of the file now. */
bool hwio_delegated_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high);
/* Whether they write to any other. */
bool hwio_delegated_elsewhere(uint64_t device, uint64_t inode);
/* 0, or what writes to this file have failed with since the last call. */
int hwio_delegated_error(uint64_t device, uint64_t inode);

#endif
