/* Each rank's node, as a number that is the same on all ranks. */
#include "mpi/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/control.h"

/* For each rank of the world, below the number of ranks. */
static int *node_of;

static int compare(const void *a, const void *b)
{
	uint64_t one, other;
	memcpy(&one, a, sizeof(one));
	memcpy(&other, b, sizeof(other));
	return (one > other) - (one < other);
}

void hwio_nodes_start(uint64_t node)
{
	size_t ranks = (size_t)hwio_ranks;
	uint64_t *own = calloc(ranks, sizeof(*own)), *all = calloc(ranks * 2, sizeof(*all));
	node_of = calloc(ranks, sizeof(*node_of));
	if (!own || !all || !node_of)
		abort();
	uint64_t *sorted = all + ranks;
	own[hwio_rank] = node;
	hwio_together_reduce(own, all, hwio_ranks, MPI_UINT64_T, MPI_BOR);
	memcpy(sorted, all, ranks * sizeof(*all));
	qsort(sorted, ranks, sizeof(*sorted), compare);
	for (size_t rank = 0; rank < ranks; rank++) {
		const uint64_t *found = bsearch(&all[rank], sorted, ranks, sizeof(*sorted), compare);
		/* Of equal ones, bsearch may find any. */
		while (found > sorted && found[-1] == *found)
			found--;
		node_of[rank] = (int)(found - sorted);
	}
	free(own);
	free(all);
}

/* Nodes in the order of their first ranks in the world, and the ranks of a node in that of the communicator. */
struct place {
	int node, rank;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *one = a, *other = b;
	return one->node != other->node ? one->node - other->node : one->rank - other->rank;
}

static struct hwio_ring *make_ring(const struct hwio_comm *comm)
{
	struct hwio_ring *ring = calloc(1, sizeof(*ring));
	struct place *places = malloc((size_t)comm->size * sizeof(*places));
	int *leaders = malloc((size_t)comm->size * sizeof(*leaders));
	if (!ring || !places || !leaders) {
		free(ring);
		free(places);
		free(leaders);
		return NULL;
	}
	for (int rank = 0; rank < comm->size; rank++)
		places[rank] = (struct place){node_of[comm->world_ranks[rank]], rank};
	qsort(places, (size_t)comm->size, sizeof(*places), compare_places);
	ring->leaders = leaders;
	for (int i = 0; i < comm->size; i++) {
		if (i == 0 || places[i].node != places[i - 1].node)
			leaders[ring->leader_count++] = places[i].rank;
		if (places[i].rank == comm->rank) {
			ring->previous = places[(i + comm->size - 1) % comm->size].rank;
			ring->next = places[(i + 1) % comm->size].rank;
		}
	}
	free(places);
	return ring;
}

const struct hwio_ring *hwio_nodes_ring(struct hwio_comm *comm)
{
	if (!comm->ring)
		comm->ring = make_ring(comm);
	return comm->ring;
}

void hwio_nodes_free(struct hwio_ring *ring)
{
	if (ring)
		free(ring->leaders);
	free(ring);
}
