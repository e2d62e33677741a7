/* What is to be done before and after the program changes a file. */
#ifndef HWIO_CHANGE_H
#define HWIO_CHANGE_H

#include <sys/stat.h>

#include "file.h"

/* The descriptor's file is about to change between these offsets; reads that were put off are done first. */
void hwio_before_change(int descriptor, off_t low, off_t high);
void hwio_before_change_of(const char *path, int directory);
/* A file without a size may be a process's memory, as /proc/self/mem is: what is put off at these positions is done. */
void hwio_before_access(const struct stat *status, off_t low, off_t high);
/* A file is opened for reading: what others write is written first. */
void hwio_before_reading(const char *path);
/* The engine's own view of the file follows. */
void hwio_after_change(int descriptor);
/* All that is put off is done, as before another process begins or this one ends. */
void hwio_settle_everything(void);
/* Before the process ends: what others rely on. */
void hwio_settle_for_others(void);

#endif
