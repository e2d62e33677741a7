/* Finds out which files every rank of the job can open under the same name. */
#ifndef HWIO_MOUNTS_H
#define HWIO_MOUNTS_H

#include <stdio.h>

#include "memory/file.h"

/* Agrees with all ranks; called once, by all. */
void hwio_mounts_start(void);
/* Parses /proc/self/mountinfo; includes local file systems if all ranks are on one machine. */
void hwio_mounts_parse(FILE *file, bool is_one_machine);
bool hwio_mounts_is_one_node(void);
bool hwio_mounts_share(const struct hwio_identity *identity);
/* Returns true if each node reads this file from its own memory: there is one node, or the node's daemon serves it. */
bool hwio_mounts_is_near(const struct hwio_identity *identity);
/* Makes other nodes see the writes of this descriptor, and drops what this node has cached of the file. Returns 0 or an
 * error number. */
int hwio_mounts_publish(int descriptor);
/* Drops what this node has cached of the file, its size included: other nodes have written to it. */
void hwio_mounts_forget(int descriptor);

#endif
