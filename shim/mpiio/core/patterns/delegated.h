/* Writes of the program that the owners of the data carry out. */
#ifndef HW_DELEGATED_H
#define HW_DELEGATED_H

#include "pending.h"

/* Fills a buffer whose data was written with what the file has. */
void hw_delegated_fill(struct hw_pending *one);
/* The memory belongs to something else from now on. */
void hw_delegated_detach(struct hw_pending *one);
/* 0, or what writes to this file have failed with since the last call. */
int hw_delegated_error(uint64_t device, uint64_t inode);
/* Whether other ranks write to this file. */
bool hw_delegated_is_target(uint64_t device, uint64_t inode);
/* The file is about to change here: buffers that stand for this part are filled. */
void hw_delegated_fill_file(uint64_t device, uint64_t inode, off_t low, off_t high);

#endif
