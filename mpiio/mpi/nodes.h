/* Which ranks share a node. */
#ifndef HWIO_NODES_H
#define HWIO_NODES_H

#include <stdint.h>

struct hwio_comm;

/* Agrees with all ranks; called once, by all, with a digest of the node. */
void hwio_nodes_start(uint64_t node);
/* Returns the first rank of each node in the communicator, in the communicator's order, and their number; NULL: there
 * is no memory. */
const int *hwio_nodes_leaders(struct hwio_comm *comm, int *count);

#endif
