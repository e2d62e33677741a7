#include "intercept/collectives/rooted.h"

#include "intercept/generated-calls.h"
#include "mpi/layout.h"
#include "real.h"

void *hwio_rooted_block(const struct hwio_rooted *call, int rank, MPI_Count *count)
{
	bool is_sent = call->kind == HWIO_TURN_SCATTER;
	MPI_Datatype type = is_sent ? call->send_type : call->receive_type;
	*count = is_sent ? call->send_count : call->receive_count;
	MPI_Aint lower, extent = 0, elements = (MPI_Aint)rank * (MPI_Aint)*count;
	if (type != MPI_DATATYPE_NULL)
		hwio_real.MPI_Type_get_extent(type, &lower, &extent);
	if (call->has_counts) {
		*count = call->is_large ? call->large_counts[rank] : call->counts[rank];
		elements = call->is_large ? call->large_displacements[rank] : call->displacements[rank];
	}
	return (char *)(uintptr_t)(is_sent ? call->send : call->receive) + elements * extent;
}

size_t hwio_rooted_bytes(const struct hwio_rooted *call)
{
	MPI_Count count, all = 0;
	hwio_step_in();
	for (int rank = 0; rank < call->known->size; rank++) {
		hwio_rooted_block(call, rank, &count);
		all += count;
	}
	hwio_step_out();
	return hwio_type_bytes(all, call->kind == HWIO_TURN_SCATTER ? call->send_type : call->receive_type);
}

size_t hwio_rooted_part_bytes(const struct hwio_rooted *call)
{
	bool is_sent = (call->kind == HWIO_TURN_SCATTER) == hwio_rooted_is_root(call);
	return is_sent ? hwio_type_bytes(call->send_count, call->send_type)
		       : hwio_type_bytes(call->receive_count, call->receive_type);
}

bool hwio_rooted_is_root(const struct hwio_rooted *call)
{
	return call->known && call->known->rank == call->root;
}

bool hwio_rooted_is_even(const struct hwio_rooted *call)
{
	struct hwio_even *even = &call->known->even[call->kind];
	if (!hwio_even_is_checked(++even->operations) || even->is_uneven)
		return !even->is_uneven;
	/* A rank can't answer other ranks within the operation. */
	if (hwio_is_busy)
		hwio_communicates();
	int64_t mine = (int64_t)hwio_rooted_part_bytes(call), ends[2] = {mine, -mine}, least[2] = {mine, -mine};
	hwio_step_in();
	hwio_real.MPI_Allreduce(ends, least, 2, MPI_INT64_T, MPI_MIN, call->comm);
	hwio_step_out();
	even->is_uneven = least[0] != -least[1];
	return !even->is_uneven;
}
