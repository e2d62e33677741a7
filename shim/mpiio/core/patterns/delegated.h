/* Writes of the program that the owners of the data carry out. */
#ifndef HW_DELEGATED_H
#define HW_DELEGATED_H

#include "pending.h"

/* Whether other ranks write to this part of the file now. */
bool hw_delegated_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high);
/* Whether they write to any other. */
bool hw_delegated_elsewhere(uint64_t device, uint64_t inode);
/* 0, or what writes to this file have failed with since the last call. */
int hw_delegated_error(uint64_t device, uint64_t inode);

#endif
