/* MPI_Igather and MPI_Igatherv. A rank may send an offer in place of its part: MPI's functions with counts accept what is
 * shorter. The root finds what has arrived when the program completes the request. */
#include <stdlib.h>

#include "intercept/generated-calls.h"
#include "intercept/collectives/rooted.h"
#include "intercept/job/report.h"
#include "intercept/messages/receive.h"
#include "intercept/requests/requests.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "transfer/envelope.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "real.h"

/* Shorter parts are sent. An offer has a page of each end. */
#define PART_BYTES_MIN (4 * hwio_page_bytes)

static int call_igather(const struct hwio_rooted *g, MPI_Request *request)
{
#if MPI_VERSION >= 4
	if (g->is_large && g->has_counts)
		return hwio_real.MPI_Igatherv_c(g->send, g->send_count, g->send_type, g->receive, g->large_counts,
			g->large_displacements, g->receive_type, g->root, g->comm, request);
	if (g->is_large)
		return hwio_real.MPI_Igather_c(g->send, g->send_count, g->send_type, g->receive, g->receive_count,
			g->receive_type, g->root, g->comm, request);
#endif
	if (g->has_counts)
		return hwio_real.MPI_Igatherv(g->send, (int)g->send_count, g->send_type, g->receive, g->counts,
			g->displacements, g->receive_type, g->root, g->comm, request);
	return hwio_real.MPI_Igather(g->send, (int)g->send_count, g->send_type, g->receive, (int)g->receive_count,
		g->receive_type, g->root, g->comm, request);
}

/* What the root receives. */
struct gathered {
	/* Its communicator may be freed meanwhile; the standard has the program retain the arrays. */
	struct hwio_rooted call;
	int size;
	bool is_own_type;
	/* Memory of this operation, or NULL. */
	int *memory;
};

/* Defers or fetches the parts that were offered. */
static int finish(void *operation, bool may_defer)
{
	struct gathered *one = operation;
	struct hwio_rooted *g = &one->call;
	struct hwio_context *context = may_defer && !hwio_context_is_off(g->context) ? g->context : NULL;
	int result = MPI_SUCCESS;
	if (context)
		hwio_context_begin(context);
	for (int rank = 0; rank < one->size; rank++) {
		MPI_Count count;
		void *block = HWIO_INSIDE(hwio_rooted_block(g, rank, &count));
		int code = rank == g->root ? MPI_SUCCESS : hwio_received_part(block, count, g->receive_type, context);
		result = result == MPI_SUCCESS ? code : result;
	}
	if (one->is_own_type)
		HWIO_INSIDE(hwio_real.MPI_Type_free(&g->receive_type));
	free(one->memory);
	return result;
}

static void track(const struct hwio_rooted *g, int *memory, MPI_Request request)
{
	struct gathered *one = malloc(sizeof(*one));
	if (!one)
		abort();
	*one = (struct gathered){.call = *g, .size = g->known->size, .memory = memory};
	one->call.context = hwio_context_here(HWIO_OP_GATHER);
	one->is_own_type = hwio_basic_bytes(g->receive_type) == 0 &&
		HWIO_INSIDE(hwio_real.MPI_Type_dup(g->receive_type, &one->call.receive_type)) == MPI_SUCCESS;
	hwio_requests_collective(request, g->comm, finish, one);
}

/* Sends an offer in place of this rank's part. False: the part is to be sent. */
static bool offer(const struct hwio_rooted *g, MPI_Request *request, int *result)
{
	struct hwio_transfer *offered = hwio_offer_prepare(PART_BYTES_MIN, g->send, g->send_count, g->send_type,
		g->root, 0, g->comm);
	if (!offered)
		return false;
	struct hwio_rooted by_offer = *g;
	by_offer.send = offered->offer;
	by_offer.send_count = (MPI_Count)hwio_offer_bytes();
	by_offer.send_type = MPI_BYTE;
	by_offer.has_counts = true;
	by_offer.is_large = false;
	by_offer.counts = by_offer.displacements = NULL;
	*result = HWIO_INSIDE(call_igather(&by_offer, request));
	if (*result == MPI_SUCCESS) {
		hwio_offer_begin(offered, *request);
		hwio_requests_offered(*request, offered);
	} else {
		hwio_offer_free(offered);
	}
	return true;
}

static int gather(struct hwio_rooted *g, MPI_Request *request)
{
	bool is_root = hwio_rooted_is_root(g), is_counted = hwio_rooted_goes_by_counts(g);
	int *memory = NULL, result;
	if (hwio_is_busy) {
		hwio_outstanding_poll();
		if (g->send != MPI_IN_PLACE)
			hwio_uses(g->send, g->send_count, g->send_type);
		if (is_root)
			hwio_rooted_clear_destination(g);
	}
	if (!is_root && offer(g, request, &result))
		return result;
	struct hwio_rooted counted = *g;
	if (is_counted)
		memory = hwio_rooted_count_parts(&counted);
	result = HWIO_INSIDE(call_igather(&counted, request));
	if (is_counted)
		hwio_rooted_end_count(&counted);
	if (is_root && result == MPI_SUCCESS)
		track(g, memory, *request);
	else
		free(memory);
	return result;
}

/* Returns true if offers may be in place of the parts, as far as this rank knows. */
static bool may_have_offers(const struct hwio_rooted *g)
{
	if ((hwio_mode != HWIO_AUTO && hwio_mode != HWIO_VERIFY) || !hwio_parts_are_messages ||
		hwio_model_gather_gain(SIZE_MAX / 2, g->known->size) <= 0)
		return false;
	return g->has_counts ? hwio_rooted_is_root(g) || hwio_rooted_part_bytes(g) >= PART_BYTES_MIN
			     : hwio_rooted_goes_by_counts(g);
}

static int enter_igather(struct hwio_rooted *g, MPI_Request *request)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return HWIO_INSIDE(call_igather(g, request));
	g->known = hwio_comm_of(g->comm);
	bool is_sound = g->known && hwio_rooted_is_sound(g);
	if (is_sound && g->known->size > 1 && may_have_offers(g))
		return gather(g, request);
	if (is_sound && hwio_rooted_is_root(g)) {
		g->why = hwio_mounts_is_one_node() ? HWIO_LEFT_ONE_NODE : HWIO_LEFT_NO_GAIN;
		hwio_rooted_gather_left(g);
		hwio_observe_received(g->receive, g->known->size, g->receive_count, g->receive_type);
	}
	if (hwio_is_busy) {
		hwio_communicates();
		if (g->send != MPI_IN_PLACE)
			hwio_uses(g->send, g->send_count, g->send_type);
		if (!is_sound)
			hwio_in_all(g->receive);
		else if (hwio_rooted_is_root(g))
			hwio_rooted_clear_destination(g);
	}
	return HWIO_INSIDE(call_igather(g, request));
}

/* A function of its own, so that a small gather is a jump to MPI. */
__attribute__((noinline)) static int enter_alike(const void *send, int send_count, MPI_Datatype send_type,
	void *receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .send_count = send_count, .receive_count = receive_count);
	return enter_igather(&g, request);
}

int hwio_MPI_Igather(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
	MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	if (hwio_collective_is_short(HWIO_TURN_GATHER, send_count, send_type, receive_count, receive_type, root, comm))
		return hwio_real.MPI_Igather(send, send_count, send_type, receive, receive_count, receive_type, root,
			comm, request);
	return enter_alike(send, send_count, send_type, receive, receive_count, receive_type, root, comm, request);
}

int hwio_MPI_Igatherv(const void *send, int send_count, MPI_Datatype send_type, void *receive, const int counts[],
	const int displacements[], MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .send_count = send_count, .has_counts = true,
		.counts = counts, .displacements = displacements);
	return enter_igather(&g, request);
}

#if MPI_VERSION >= 4
int hwio_MPI_Igather_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
	MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .is_large = true, .send_count = send_count,
		.receive_count = receive_count);
	return enter_igather(&g, request);
}

int hwio_MPI_Igatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
	const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype receive_type, int root, MPI_Comm comm,
	MPI_Request *request)
{
	struct hwio_rooted g = HWIO_ROOTED(HWIO_TURN_GATHER, .send_count = send_count, .has_counts = true,
		.is_large = true, .large_counts = counts, .large_displacements = displacements);
	return enter_igather(&g, request);
}
#endif
