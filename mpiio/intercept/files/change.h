/* What the engine does before and after the program changes a file. */
#ifndef HWIO_CHANGE_H
#define HWIO_CHANGE_H

#include <sys/stat.h>

#include "memory/file.h"

/* The descriptor's file is about to change between these offsets: completes deferred reads first. */
void hwio_before_change(int descriptor, off_t low, off_t high);
/* The same before a write that may be delegated, and takes the place of a deferred one. Returns true if it waited for
 * another write to these offsets. */
bool hwio_before_delegating(int descriptor, off_t low, off_t high);
void hwio_before_change_of(const char *path, int directory);
/* A file without a size may be a process's memory, such as /proc/self/mem: completes what is deferred at these
 * positions. */
void hwio_before_access(const struct stat *status, off_t low, off_t high);
/* A file is about to be opened for reading: completes the writes of other ranks. */
void hwio_before_reading(const char *path);
/* Updates the engine's record of the file after a change. */
void hwio_after_change(int descriptor);
/* Completes all that is deferred, before another process begins or this one ends. */
void hwio_settle_everything(void);
/* Completes what other ranks rely on, before the process ends. */
void hwio_settle_for_others(void);

#endif
