/* Decides when a collective operation is negotiated: always at first, then ever less often while that gains nothing. */
#ifndef HWIO_TURN_H
#define HWIO_TURN_H

#include "base/context.h"
#include "mpi/control.h"

#define HWIO_TURN_SKIP_MAX 65536

/* Returns true if this operation is negotiated. All ranks count alike. */
static inline bool hwio_turn_is_due(struct hwio_turn *turn)
{
	if (turn->skip == 0)
		return true;
	turn->skip--;
	return false;
}

/* Returns, at the root, how many operations pass without negotiation after this one. */
static inline uint32_t hwio_turn_skip(struct hwio_turn *turn, bool was_of_use)
{
	turn->fruitless = was_of_use ? 0 : turn->fruitless + 1;
	if (turn->fruitless < HWIO_FRUITLESS_MAX)
		return 0;
	uint32_t doublings = turn->fruitless - HWIO_FRUITLESS_MAX;
	return doublings < 16 ? 1U << doublings : HWIO_TURN_SKIP_MAX;
}

/* Parts below this size always pass. */
#define HWIO_PASSING_BYTES_MAX 16384UL

/* Returns true if a scatter or gather of the last communicator is so small that MPI's function may be called directly.
 * The root has the arguments of all parts, each other rank those of its own. */
static inline bool hwio_collective_is_short(enum hwio_turn_kind kind, int send_count, MPI_Datatype send_type,
	int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	struct hwio_comm *known = hwio_last_comm.known;
	if (hwio_quick.is_watchful || hwio_depth > 0 || !known || hwio_last_comm.comm != comm || !known->is_usable ||
		(unsigned int)root >= (unsigned int)known->size)
		return false;
	bool is_sent = (known->rank == root) == (kind == HWIO_TURN_SCATTER);
	size_t below = hwio_bytes_min < HWIO_PASSING_BYTES_MAX ? hwio_bytes_min : HWIO_PASSING_BYTES_MAX;
	return hwio_is_basic_below(is_sent ? send_count : receive_count, is_sent ? send_type : receive_type, below);
}

/* Returns true if an MPI_Scatter or MPI_Gather is, and counts it then. All ranks count alike, whether it passes or not:
 * see hwio_rooted_is_even. */
static inline bool hwio_collective_passes(enum hwio_turn_kind kind, int send_count, MPI_Datatype send_type,
	int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	if (!hwio_collective_is_short(kind, send_count, send_type, receive_count, receive_type, root, comm))
		return false;
	struct hwio_even *even = &hwio_last_comm.known->even[kind];
	if (hwio_even_is_checked(even->operations + 1) || even->is_uneven)
		return false;
	even->operations++;
	return true;
}

#endif
