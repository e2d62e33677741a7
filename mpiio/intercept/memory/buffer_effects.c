/* Maps the buffers of MPI's calls to ranges of memory that are read or overwritten. */
#include "intercept/generated-calls.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <mpi.h>
#include <stdlib.h>

#include "memory/deferred.h"
#include "memory/memory_map.h"
#include "memory/pages.h"
#include "transfer/incoming.h"
#include "mpi/layout.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "real.h"

__thread int hwio_stays_in_use;

void hwio_communicates(void)
{
	hwio_sends();
	hwio_outstanding_settle();
}

void hwio_sends(void)
{
	if (hwio_offer_any())
		hwio_offer_release();
	if (hwio_outstanding_any())
		hwio_outstanding_poll();
	if (hwio_incoming_any())
		hwio_incoming_fetch_all();
	if (hwio_incoming_is_writing())
		hwio_incoming_wait();
}

void hwio_use_in(const void *memory, size_t bytes)
{
	hwio_memory_in(memory, bytes);
	if (hwio_incoming_any())
		hwio_incoming_fetch((uintptr_t)memory, (uintptr_t)memory + bytes);
}

void hwio_kernel_uses(const void *memory, size_t bytes)
{
	int saved = errno;
	hwio_offer_move();
	if (memory)
		/* A System V message begins with its kind, which its length doesn't count. */
		hwio_use_in(memory, bytes + sizeof(long));
	errno = saved;
}

void hwio_use_out(void *memory, size_t bytes)
{
	hwio_memory_out(memory, bytes);
	if (hwio_incoming_any())
		hwio_incoming_drop((uintptr_t)memory, (uintptr_t)memory + bytes);
}

void hwio_forget_records(void *memory, size_t bytes)
{
	hwio_enter();
	hwio_record_cut((uintptr_t)memory, (uintptr_t)memory + bytes);
	hwio_records_note();
	hwio_leave();
}

void hwio_in_all(const void *buffer)
{
	if (!buffer || buffer == MPI_IN_PLACE || buffer == MPI_BOTTOM)
		return;
	/* The end of the memory isn't known. */
	uintptr_t low = (uintptr_t)buffer;
	hwio_use_in(buffer, UINTPTR_MAX - low - hwio_page_bytes);
}

static void use_range(uintptr_t low, uintptr_t high, bool is_overwritten)
{
	if (is_overwritten)
		hwio_use_out((void *)low, high - low);
	else
		hwio_use_in((void *)low, high - low);
}

static void use(const void *buffer, MPI_Count count, MPI_Datatype type, bool is_overwritten)
{
	MPI_Aint lower, extent, true_lower, true_extent;
	struct hwio_layout layout;
	if (count <= 0 || buffer == MPI_IN_PLACE || type == MPI_DATATYPE_NULL)
		return;
	hwio_step_in();
	if (hwio_real.MPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS &&
		hwio_real.MPI_Type_get_true_extent(type, &true_lower, &true_extent) == MPI_SUCCESS) {
		uintptr_t first = (uintptr_t)buffer + (uintptr_t)true_lower;
		uintptr_t last = first + (uintptr_t)((count - 1) * extent);
		uintptr_t low = first < last ? first : last,
			  high = (first < last ? last : first) + (uintptr_t)true_extent;
		if (hwio_stays_in_use)
			hwio_memory_map_exclude((void *)low, high - low);
		bool is_near = hwio_may_be_recorded(low, high) || hwio_incoming_any();
		MPI_Count size = 0;
		hwio_real.MPI_Type_size_x(type, &size);
		bool is_dense = (MPI_Count)true_extent == size && (count == 1 || extent == true_extent);
		/* The gaps of a buffer that is read are mostly read next, too. */
		if (is_near && (is_dense || !is_overwritten)) {
			use_range(low, high, is_overwritten);
		} else if (is_near && hwio_layout_make(&layout, buffer, count, type)) {
			for (size_t i = 0; i < layout.count; i++) {
				uintptr_t at = (uintptr_t)(layout.buffer + layout.blocks[i].at);
				use_range(at, at + layout.blocks[i].bytes, true);
			}
			hwio_layout_free(&layout);
		} else if (is_near) {
			/* Unknown layout: gaps are filled, too, and nothing is discarded. */
			use_range(low, high, false);
		}
	}
	hwio_step_out();
}

void hwio_uses(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	use(buffer, count, type, false);
}

void hwio_out(void *buffer, MPI_Count count, MPI_Datatype type)
{
	use(buffer, count, type, true);
}

/* Discards what is deferred in the first bytes of a layout. The gaps stay as they are. */
static void discard_blocks(const struct hwio_layout *layout)
{
	struct hwio_range ranges[HWIO_CUT_MAX];
	uintptr_t low = UINTPTR_MAX, high = 0;
	size_t count = 0;
	hwio_enter();
	for (size_t i = 0, left = layout->bytes; i < layout->count && left > 0; i++) {
		uintptr_t at = (uintptr_t)(layout->buffer + layout->blocks[i].at);
		size_t part = hwio_least(layout->blocks[i].bytes, left);
		if (count == HWIO_CUT_MAX || (count > 0 && at < ranges[count - 1].high)) {
			hwio_records_cut(ranges, count);
			count = 0;
		}
		ranges[count++] = (struct hwio_range){at, at + part};
		low = hwio_least(low, at);
		high = hwio_most(high, at + part);
		left -= part;
	}
	if (count > 0)
		hwio_records_cut(ranges, count);
	/* All at once: for each of thousands of blocks the kernel would split and join its mappings. */
	hwio_pages_settle(low, high);
	hwio_records_note();
	hwio_leave();
}

void hwio_out_received(const struct hwio_layout *layout)
{
	/* With several threads, MPI can't be admitted to pages that stay protected; of a full table the rest of a cut record
	 * would be lost. */
	bool must_fill = hwio_is_threaded() || !hwio_records_have_room(layout->count + 4);
	size_t left = layout->bytes;
	for (size_t i = 0; must_fill && i < layout->count && left > 0; i++) {
		size_t part = hwio_least(layout->blocks[i].bytes, left);
		hwio_memory_out(layout->buffer + layout->blocks[i].at, part);
		left -= part;
	}
	if (!must_fill && layout->bytes > 0 && hwio_may_be_recorded(layout->low, layout->high))
		discard_blocks(layout);
	if (hwio_incoming_any() && layout->bytes > 0)
		hwio_incoming_drop_blocks(layout);
}

void hwio_allocated(void *memory, MPI_Aint bytes)
{
	if (memory && bytes > 0)
		hwio_memory_map_exclude(memory, (size_t)bytes);
}

void hwio_freed(void *memory)
{
	if (memory && hwio_is_busy)
		hwio_in_all(memory);
}

int hwio_peers(MPI_Comm comm)
{
	int is_inter = 0, count = 0;
	hwio_step_in();
	hwio_real.MPI_Comm_test_inter(comm, &is_inter);
	(is_inter ? hwio_real.MPI_Comm_remote_size : hwio_real.MPI_Comm_size)(comm, &count);
	hwio_step_out();
	return count;
}

int hwio_group_size(MPI_Comm comm)
{
	int count = 0;
	hwio_step_in();
	hwio_real.MPI_Comm_size(comm, &count);
	hwio_step_out();
	return count;
}

int hwio_is_root(int root, MPI_Comm comm)
{
	int is_inter = 0, rank = 0;
	hwio_step_in();
	hwio_real.MPI_Comm_test_inter(comm, &is_inter);
	hwio_real.MPI_Comm_rank(comm, &rank);
	hwio_step_out();
	return root == (is_inter ? MPI_ROOT : rank);
}

static void neighbours(MPI_Comm comm, int *from, int *to)
{
	int topology = MPI_UNDEFINED, weighted, dimensions = 0, rank = 0;
	*from = *to = 0;
	hwio_step_in();
	hwio_real.MPI_Topo_test(comm, &topology);
	if (topology == MPI_DIST_GRAPH) {
		hwio_real.MPI_Dist_graph_neighbors_count(comm, from, to, &weighted);
	} else if (topology == MPI_GRAPH) {
		hwio_real.MPI_Comm_rank(comm, &rank);
		hwio_real.MPI_Graph_neighbors_count(comm, rank, from);
		*to = *from;
	} else if (topology == MPI_CART) {
		hwio_real.MPI_Cartdim_get(comm, &dimensions);
		*from = *to = 2 * dimensions;
	}
	hwio_step_out();
}

int hwio_sources(MPI_Comm comm)
{
	int from, to;
	neighbours(comm, &from, &to);
	return from;
}

int hwio_destinations(MPI_Comm comm)
{
	int from, to;
	neighbours(comm, &from, &to);
	return to;
}

/* The same for both sizes of counts. */
#define SUM(NAME, COUNT) \
	void NAME(const void *buffer, const COUNT counts[], MPI_Datatype type, int parts) \
	{ \
		MPI_Count all = 0; \
		for (int i = 0; i < parts; i++) \
			all += counts[i]; \
		hwio_uses(buffer, all, type); \
	}

SUM(hwio_uses_sum, int)
SUM(hwio_uses_sum_c, MPI_Count)

static const void *element(const void *buffer, MPI_Aint index, MPI_Datatype type)
{
	MPI_Aint lower, extent = 0;
	hwio_step_in();
	hwio_real.MPI_Type_get_extent(type, &lower, &extent);
	hwio_step_out();
	return (const char *)buffer + index * extent;
}

#define VECTOR(NAME, COUNT, DISPLACEMENT) \
	void NAME(const void *buffer, const COUNT counts[], const DISPLACEMENT displacements[], MPI_Datatype type, \
		int parts) \
	{ \
		if (buffer == MPI_IN_PLACE || type == MPI_DATATYPE_NULL) \
			return; \
		for (int i = 0; i < parts; i++) \
			hwio_uses(element(buffer, displacements[i], type), counts[i], type); \
	}

VECTOR(hwio_uses_v, int, int)
VECTOR(hwio_uses_v_c, MPI_Count, MPI_Aint)

#define TYPED(NAME, COUNT, DISPLACEMENT) \
	void NAME(const void *buffer, const COUNT counts[], const DISPLACEMENT displacements[], \
		const MPI_Datatype types[], int parts) \
	{ \
		if (buffer == MPI_IN_PLACE) \
			return; \
		for (int i = 0; i < parts; i++) \
			hwio_uses((const char *)buffer + displacements[i], counts[i], types[i]); \
	}

TYPED(hwio_uses_w, int, int)
TYPED(hwio_uses_w_near, int, MPI_Aint)
TYPED(hwio_uses_w_c, MPI_Count, MPI_Aint)

#if MPI_VERSION >= 4
struct hwio_large hwio_large(MPI_Count count, MPI_Datatype *type)
{
	struct hwio_large large = {.count = (int)count};
	MPI_Datatype made;
	hwio_step_in();
	if (count > INT_MAX && hwio_real.MPI_Type_contiguous_c(count, *type, &made) == MPI_SUCCESS &&
		hwio_real.MPI_Type_commit(&made) == MPI_SUCCESS) {
		*type = made;
		large = (struct hwio_large){1, true};
	}
	hwio_step_out();
	return large;
}

void hwio_large_free(struct hwio_large *large, MPI_Datatype *type)
{
	hwio_step_in();
	if (large->is_made)
		hwio_real.MPI_Type_free(type);
	hwio_step_out();
}
#endif
