/* Which files every rank of the job can open under the same name. */
#ifndef HWIO_MOUNTS_H
#define HWIO_MOUNTS_H

#include <stdio.h>

#include "../files/file.h"

/* Agrees with all ranks; called once, by all. */
void hwio_mounts_start(void);
/* Reads what /proc/self/mountinfo has; mounts of local file systems too where all ranks are on one machine. */
void hwio_mounts_parse(FILE *file, bool is_one_machine);
bool hwio_mounts_is_one_node(void);
bool hwio_mounts_share(const struct hwio_identity *identity);
/* Other nodes see what was written through this descriptor. 0, or why it can't be. */
int hwio_mounts_publish(int descriptor);

#endif
