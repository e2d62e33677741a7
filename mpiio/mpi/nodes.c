/* Each rank's node, as a number that is the same on all ranks. */
#include "mpi/nodes.h"

#include <stdbool.h>
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

const int *hwio_nodes_leaders(struct hwio_comm *comm, int *count)
{
	if (!comm->leaders) {
		bool *is_seen = calloc((size_t)hwio_ranks, sizeof(*is_seen));
		int *leaders = malloc((size_t)comm->size * sizeof(*leaders));
		for (int rank = 0; is_seen && leaders && rank < comm->size; rank++) {
			int node = node_of[comm->world_ranks[rank]];
			if (!is_seen[node])
				leaders[comm->leader_count++] = rank;
			is_seen[node] = true;
		}
		if (is_seen)
			comm->leaders = leaders;
		else
			free(leaders);
		free(is_seen);
	}
	*count = comm->leader_count;
	return comm->leaders;
}
