/* Writes whose exchange is deferred until the file is needed, or until the rank is idle. A program that writes rows
 * of blocks one after another then has one exchange, in which all senders take part. */
#ifndef HWIO_DEFERRED_WRITE_H
#define HWIO_DEFERRED_WRITE_H

#include "transfer/exchange/exchange.h"

/* Defers a write, and copies this rank's own part; marks pending messages in its memory as notified. False: it can't be
 * deferred. */
bool hwio_deferred_write_add(const struct hwio_target *target, const struct hwio_layout *own);
bool hwio_deferred_write_any(void);
/* Returns true if a deferred write overlaps this part of the file. */
bool hwio_deferred_write_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high);
/* Carries out the deferred write, and sets which file it was. Returns 0 or an error number. */
int hwio_deferred_write_flush(uint64_t *device, uint64_t *inode);
/* Called while this rank waits for a message: carries the deferred write out if that takes long. `has_arrived`: whether
 * one of the program's receives has completed, which the program hasn't noticed yet. */
void hwio_deferred_write_poll(bool (*has_arrived)(void));

#endif
