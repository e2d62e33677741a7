/* MPI_Gather and MPI_Gatherv of data that will be written to a file. The root continues at once with its buffer
 * protected; the other ranks wait in the call for a verdict. Source: Natvig, Elster and Meyer, §III.C. The root
 * announces beforehand whether the gather is transformed, as for a scatter. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/generated-calls.h"
#include "memory/pages.h"
#include "memory/memory_map.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "mpi/typed.h"
#include "intercept/job/report.h"
#include "transfer/envelope.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"
#include "real.h"
#include "intercept/collectives/rooted.h"

/* Shorter parts are sent. */
#define PART_BYTES_MIN (4 * hwio_page_bytes)
/* Maximum of what the root receives at once: the ends of all parts. */
#define ALL_EDGES_BYTES_MAX (64UL << 20)

struct order {
	uint32_t is_tried, skip;
	uint64_t id;
};

/* One rank's part: programs may send less than the root expects, which the standard forbids and MPIs let pass. */
struct part {
	uint64_t bytes;
	/* The first page and the last one, if it isn't shorter than PART_BYTES_MIN. */
	char edges[];
};

static size_t part_bytes(void)
{
	return sizeof(struct part) + 2 * hwio_page_bytes;
}

static int call_gather(const struct hwio_rooted *g)
{
#if MPI_VERSION >= 4
	if (g->is_large)
		return hwio_real.MPI_Gatherv_c(g->send, g->send_count, g->send_type, g->receive, g->large_counts,
			g->large_displacements, g->receive_type, g->root, g->comm);
#endif
	if (g->has_counts)
		return hwio_real.MPI_Gatherv(g->send, (int)g->send_count, g->send_type, g->receive, g->counts,
			g->displacements, g->receive_type, g->root, g->comm);
	return hwio_real.MPI_Gather(g->send, (int)g->send_count, g->send_type, g->receive, (int)g->receive_count,
		g->receive_type, g->root, g->comm);
}

static int gather_unchanged(const struct hwio_rooted *g)
{
	return HWIO_INSIDE(call_gather(g));
}

static void free_layouts(struct hwio_rooted *g)
{
	for (int rank = 0; g->layouts && rank < g->known->size; rank++)
		hwio_layout_free(&g->layouts[rank]);
	free(g->layouts);
	g->layouts = NULL;
}

static bool decide_gather(struct hwio_rooted *g)
{
	size_t bytes = 0;
	if ((hwio_mode != HWIO_AUTO && hwio_mode != HWIO_VERIFY) ||
		(size_t)g->known->size * part_bytes() > ALL_EDGES_BYTES_MAX)
		return false;
	g->why = hwio_is_threaded() ? HWIO_LEFT_THREADS : HWIO_LEFT_BUSY;
	if (g->why == HWIO_LEFT_THREADS || hwio_incoming_any())
		return false;
	g->why = HWIO_NOT_LEFT;
	g->context = hwio_context_here(HWIO_OP_GATHER);
	if (hwio_context_is_off(g->context))
		return false;
	g->layouts = calloc((size_t)g->known->size, sizeof(*g->layouts));
	bool is_fit = g->layouts != NULL && g->send_count <= INT_MAX;
	for (int rank = 0; rank < g->known->size && is_fit; rank++) {
		MPI_Count count;
		void *block = hwio_rooted_block(g, rank, &count);
		is_fit = count <= INT_MAX && hwio_layout_make(&g->layouts[rank], block, count, g->receive_type);
		if (!is_fit || rank == g->root || g->layouts[rank].bytes < PART_BYTES_MIN)
			continue;
		is_fit = hwio_incoming_can_defer(&g->layouts[rank]);
		bytes += g->layouts[rank].bytes;
	}
	if (is_fit && bytes > 0 && hwio_model_gather_gain(bytes, g->known->size) > 0)
		return true;
	g->why = !is_fit ? HWIO_LEFT_LAYOUT : bytes == 0 ? HWIO_LEFT_SMALL : HWIO_LEFT_NO_GAIN;
	free_layouts(g);
	return false;
}

static int copy_root_part(const struct hwio_rooted *g)
{
	MPI_Count count;
	void *block = hwio_rooted_block(g, g->root, &count);
	if (g->send == MPI_IN_PLACE)
		return MPI_SUCCESS;
	hwio_uses(g->send, g->send_count, g->send_type);
	/* By MPI's own gather: Open MPI 4 copies long messages between two types with gaps otherwise than it sends
	 * them. */
	return hwio_real.MPI_Gather(g->send, (int)g->send_count, g->send_type, block, (int)count, g->receive_type, 0,
		MPI_COMM_SELF);
}

/* Receives one rank's part. The part's size decides how it is sent, and only that rank knows the size before. */
static int receive_part(struct hwio_rooted *g, const struct order *order, int rank, const struct part *part)
{
	int peer = g->known->world_ranks[rank];
	MPI_Count count;
	void *block = hwio_rooted_block(g, rank, &count);
	struct hwio_layout *layout = &g->layouts[rank];
	if (part->bytes == 0)
		return MPI_SUCCESS;
	if (part->bytes < PART_BYTES_MIN) {
		/* The block may lie between parts of others. */
		size_t admitted = hwio_pages_admit(layout->low, layout->high);
		int result = hwio_real.MPI_Recv(block, (int)count, g->receive_type, peer, HWIO_TAG_EDGES, hwio_control,
			MPI_STATUS_IGNORE);
		hwio_pages_dismiss(admitted);
		return result;
	}
	if (part->bytes > layout->bytes) {
		struct hwio_envelope envelope = {
			.kind = HWIO_OFFER, .sender = peer, .id = order->id, .bytes = part->bytes};
		hwio_incoming_reject(&envelope);
		return MPI_ERR_TRUNCATE;
	}
	if (part->bytes < layout->bytes)
		hwio_incoming_fetch_now(order->id, peer, layout, part->bytes);
	else
		hwio_incoming_defer(order->id, peer, layout, part->edges, g->context);
	memset(layout, 0, sizeof(*layout));
	return MPI_SUCCESS;
}

static int gather_at_root(struct hwio_rooted *g, const struct order *order)
{
	char *parts = malloc((size_t)g->known->size * part_bytes());
	if (!parts)
		abort();
	hwio_context_begin(g->context);
	hwio_real.MPI_Gather(MPI_IN_PLACE, 0, MPI_BYTE, parts, (int)part_bytes(), MPI_BYTE, g->root, g->comm);
	int result = copy_root_part(g);
	for (int rank = 0; rank < g->known->size; rank++) {
		const void *part = parts + (size_t)rank * part_bytes();
		int one = rank == g->root ? MPI_SUCCESS : receive_part(g, order, rank, part);
		result = result == MPI_SUCCESS ? one : result;
	}
	free(parts);
	return result;
}

static int gather_at_rank(struct hwio_rooted *g, const struct order *order)
{
	struct part *part = calloc(1, part_bytes());
	struct hwio_layout layout;
	int root = g->known->world_ranks[g->root];
	size_t bytes = hwio_type_bytes(g->send_count, g->send_type);
	bool is_long = bytes >= PART_BYTES_MIN;
	if (!part)
		abort();
	part->bytes = bytes;
	/* The root understands its types, and both sides' types agree in bytes, not in layout. */
	void *packed = NULL;
	if (is_long && !hwio_layout_make(&layout, g->send, g->send_count, g->send_type)) {
		packed = malloc(bytes);
		if (!packed || hwio_typed_read(g->send, g->send_count, g->send_type, packed, bytes) != MPI_SUCCESS)
			abort();
		hwio_layout_make(&layout, packed, (MPI_Count)bytes, MPI_BYTE);
	}
	if (is_long)
		hwio_edges_copy(&layout, part->edges);
	hwio_real.MPI_Gather(part, (int)part_bytes(), MPI_BYTE, NULL, 0, MPI_BYTE, g->root, g->comm);
	free(part);
	int result = MPI_SUCCESS;
	if (is_long) {
		/* The last part would wait for all others. */
		hwio_offer_settle(order->id, &layout, bytes * (size_t)(g->known->size - 1), root);
		hwio_layout_free(&layout);
	} else if (bytes > 0) {
		result = hwio_real.MPI_Send(g->send, (int)g->send_count, g->send_type, root, HWIO_TAG_EDGES,
			hwio_control);
	}
	free(packed);
	return result;
}

static int gather(struct hwio_rooted *g)
{
	struct order order = {0};
	bool is_root = hwio_rooted_is_root(g);
	struct hwio_turn *turn = hwio_comm_turn(g->known, g->root, HWIO_TURN_GATHER);
	if (hwio_is_busy)
		hwio_communicates();
	if (is_root)
		hwio_rooted_clear_destination(g);
	if (g->send != MPI_IN_PLACE)
		hwio_uses(g->send, g->send_count, g->send_type);
	if (!hwio_turn_is_due(turn)) {
		g->why = hwio_is_threaded() ? HWIO_LEFT_THREADS : HWIO_LEFT_NO_GAIN;
		if (is_root)
			hwio_rooted_gather_left(g);
		return gather_unchanged(g);
	}
	hwio_step_in();
	if (is_root) {
		order.is_tried = decide_gather(g);
		order.skip = hwio_turn_skip(turn, order.is_tried);
		order.id = hwio_envelope_id() | HWIO_ID_OF_GATHER;
	}
	hwio_real.MPI_Bcast(&order, sizeof(order), MPI_BYTE, g->root, g->comm);
	turn->skip = order.skip;
	int result = MPI_SUCCESS;
	if (order.is_tried)
		result = is_root ? gather_at_root(g, &order) : gather_at_rank(g, &order);
	hwio_step_out();
	free_layouts(g);
	if (!order.is_tried)
		result = gather_unchanged(g);
	if (!order.is_tried && is_root)
		hwio_rooted_gather_left(g);
	if (is_root && hwio_mode == HWIO_OBSERVE)
		hwio_observe_received(g->receive, g->known->size, g->receive_count, g->receive_type);
	return order.is_tried && result != MPI_SUCCESS ? hwio_error(g->comm, result) : result;
}

/* Returns true if the gather may gain, the same on all ranks; only the root knows the parts of MPI_Gatherv. */
static bool may_gather_gain(const struct hwio_rooted *g)
{
	if (g->has_counts)
		return hwio_model_gather_gain(SIZE_MAX / 2, g->known->size) > 0;
	size_t part = hwio_rooted_part_bytes(g);
	return part >= hwio_bytes_min && hwio_model_gather_gain(part * (size_t)g->known->size, g->known->size) > 0;
}

static int enter_gather(struct hwio_rooted *g)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return gather_unchanged(g);
	g->known = hwio_comm_of(g->comm);
	bool is_plain = !g->known || g->root < 0 || g->root >= g->known->size;
	bool is_even = !is_plain && (g->has_counts || hwio_rooted_is_even(g));
	if (is_even && may_gather_gain(g))
		return gather(g);
	if (!is_plain && hwio_rooted_is_root(g)) {
		bool is_small = !g->has_counts && hwio_rooted_part_bytes(g) < hwio_bytes_min;
		g->why = is_small                   ? HWIO_LEFT_SMALL
			: hwio_mounts_is_one_node() ? HWIO_LEFT_ONE_NODE
						    : HWIO_LEFT_NO_GAIN;
		hwio_rooted_gather_left(g);
	}
	if (hwio_is_busy) {
		hwio_communicates();
		if (g->send != MPI_IN_PLACE)
			hwio_uses(g->send, g->send_count, g->send_type);
		if (is_plain)
			hwio_in_all(g->receive);
		else if (hwio_rooted_is_root(g))
			hwio_rooted_clear_destination(g);
	}
	return gather_unchanged(g);
}

/* A function of its own, so that a small gather is a jump to MPI. */
__attribute__((noinline)) static int enter_alike(const void *send, int send_count, MPI_Datatype send_type,
	void *receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .send_count = send_count, .receive_count = receive_count);
	return enter_gather(&g);
}

int hwio_MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
	MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	if (hwio_collective_passes(HWIO_TURN_GATHER, send_count, send_type, receive_count, receive_type, root, comm))
		return hwio_real.MPI_Gather(send, send_count, send_type, receive, receive_count, receive_type, root,
			comm);
	return enter_alike(send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}

int hwio_MPI_Gatherv(const void *send, int send_count, MPI_Datatype send_type, void *receive, const int counts[],
	const int displacements[], MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .send_count = send_count, .has_counts = true,
		.counts = counts, .displacements = displacements);
	return enter_gather(&g);
}

#if MPI_VERSION >= 4
int hwio_MPI_Gatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
	const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .send_count = send_count, .has_counts = true,
		.is_large = true, .large_counts = counts, .large_displacements = displacements);
	return enter_gather(&g);
}
#endif
