/* Which ranks share a node. */
#ifndef HWIO_NODES_H
#define HWIO_NODES_H

#include <stdint.h>

struct hwio_comm;

/* The ranks of a communicator in a ring. */
struct hwio_ring {
	/* The first rank of each node, in the order of the ring. */
	int *leaders;
	int leader_count;
	/* This rank's neighbours: it receives from one, and sends to the other. */
	int previous, next;
};

/* Agrees with all ranks; called once, by all, with a digest of the node. */
void hwio_nodes_start(uint64_t node);
/* Returns the communicator's ranks such that those of a node follow each other, NULL without memory. */
const struct hwio_ring *hwio_nodes_ring(struct hwio_comm *comm);
void hwio_nodes_free(struct hwio_ring *ring);

#endif
