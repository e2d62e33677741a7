/*
 * Writes whose exchange is put off until somebody needs the file, or until there is nothing else to do: a program that
 * writes rows of blocks one after another then has one exchange, in which all senders take part.
 */
#ifndef HWIO_DEFERRED_WRITE_H
#define HWIO_DEFERRED_WRITE_H

#include "exchange.h"

/*
 * Holds a write, of which this rank's own part is copied; what is pending in its memory is marked as told. False: it
 * can't be put off.
 */
bool hwio_deferred_write_add(const struct hwio_target *target, const struct hwio_layout *own);
bool hwio_deferred_write_any(void);
/* Whether anything of this part of the file is held. */
bool hwio_deferred_write_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high);
/* Carries out what is held. 0, or the error of a write; which file it was. */
int hwio_deferred_write_flush(uint64_t *device, uint64_t *inode);
/* While this rank waits for a message: carries it out if that takes long. */
void hwio_deferred_write_poll(void);

#endif
