#include "intercept/collectives/rooted.h"

#include <limits.h>
#include <stdlib.h>

#include "intercept/generated-calls.h"
#include "mpi/layout.h"
#include "intercept/effects.h"
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

void hwio_rooted_fill_source(const struct hwio_rooted *s)
{
	for (int rank = 0; rank < s->known->size; rank++) {
		MPI_Count count;
		const void *block = hwio_rooted_block(s, rank, &count);
		if (!(rank == s->root && s->receive == MPI_IN_PLACE))
			hwio_uses(block, count, s->send_type);
	}
}

void hwio_rooted_clear_destination(const struct hwio_rooted *g)
{
	bool is_refused = g->send == g->receive ||
		(g->send != MPI_IN_PLACE && (g->send_count < 0 || g->send_type == MPI_DATATYPE_NULL));
	for (int rank = 0; hwio_is_busy && rank < g->known->size; rank++) {
		MPI_Count count;
		void *block = hwio_rooted_block(g, rank, &count);
		if (is_refused)
			hwio_uses(block, count, g->receive_type);
		else if (!(rank == g->root && g->send == MPI_IN_PLACE))
			hwio_out(block, count, g->receive_type);
	}
}

void hwio_rooted_scatter_left(const struct hwio_rooted *s)
{
	MPI_Count count;
	if (s->why != HWIO_NOT_LEFT)
		hwio_left_count(HWIO_READ_SCATTER, hwio_rooted_bytes(s), s->why);
	else if (hwio_left_any_unsent() || hwio_left_reads.high != 0)
		hwio_left_forwarded(HWIO_READ_SCATTER, HWIO_INSIDE(hwio_rooted_block(s, 0, &count)),
			hwio_rooted_bytes(s));
}

void hwio_rooted_gather_left(const struct hwio_rooted *g)
{
	MPI_Count count;
	if (g->why != HWIO_NOT_LEFT && hwio_mode != HWIO_OFF)
		hwio_left_gathered(HWIO_INSIDE(hwio_rooted_block(g, 0, &count)), hwio_rooted_bytes(g), g->why);
}

/* In larger communicators a tree is faster than the root's own messages, for small parts. */
#define BY_COUNTS_RANKS_MAX 64

bool hwio_rooted_goes_by_counts(const struct hwio_rooted *call)
{
	size_t part = hwio_rooted_part_bytes(call);
	return !call->has_counts && call->known->size <= BY_COUNTS_RANKS_MAX && part >= hwio_bytes_min &&
		part <= INT_MAX;
}

int *hwio_rooted_count_parts(struct hwio_rooted *call)
{
	int size = call->known->size;
	bool is_sent = call->kind == HWIO_TURN_SCATTER;
	MPI_Datatype *type = is_sent ? &call->send_type : &call->receive_type, part;
	call->has_counts = true;
	call->is_large = false;
	call->counts = call->displacements = NULL;
	if (!hwio_rooted_is_root(call))
		return NULL;
	int *memory = malloc(2 * (size_t)size * sizeof(int));
	hwio_step_in();
	/* Displacements count parts: they don't overflow. */
	if (!memory ||
		hwio_real.MPI_Type_contiguous((int)(is_sent ? call->send_count : call->receive_count), *type, &part) !=
			MPI_SUCCESS ||
		hwio_real.MPI_Type_commit(&part) != MPI_SUCCESS)
		abort();
	hwio_step_out();
	for (int rank = 0; rank < size; rank++) {
		memory[rank] = 1;
		memory[size + rank] = rank;
	}
	*type = part;
	call->counts = memory;
	call->displacements = memory + size;
	return memory;
}

void hwio_rooted_end_count(struct hwio_rooted *call)
{
	hwio_step_in();
	if (hwio_rooted_is_root(call))
		hwio_real.MPI_Type_free(call->kind == HWIO_TURN_SCATTER ? &call->send_type : &call->receive_type);
	hwio_step_out();
}

static bool is_sound_part(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	return buffer != MPI_IN_PLACE && count >= 0 && type != MPI_DATATYPE_NULL;
}

static bool has_sound_parts(const struct hwio_rooted *call)
{
	MPI_Count count;
	bool is_sent = call->kind == HWIO_TURN_SCATTER;
	const void *all = is_sent ? call->send : call->receive;
	MPI_Datatype type = is_sent ? call->send_type : call->receive_type;
	if (call->has_counts &&
		!(call->is_large ? call->large_counts && call->large_displacements
				 : call->counts && call->displacements))
		return false;
	for (int rank = 0; rank < call->known->size; rank++) {
		hwio_rooted_block(call, rank, &count);
		if (!is_sound_part(all, count, type))
			return false;
	}
	return true;
}

bool hwio_rooted_is_sound(const struct hwio_rooted *call)
{
	bool is_scatter = call->kind == HWIO_TURN_SCATTER;
	const void *own = is_scatter ? call->receive : call->send;
	MPI_Count count = is_scatter ? call->receive_count : call->send_count;
	MPI_Datatype type = is_scatter ? call->receive_type : call->send_type;
	if (call->root < 0 || call->root >= call->known->size)
		return false;
	if (!hwio_rooted_is_root(call))
		return is_sound_part(own, count, type);
	return (own == MPI_IN_PLACE || is_sound_part(own, count, type)) && HWIO_INSIDE(has_sound_parts(call));
}
