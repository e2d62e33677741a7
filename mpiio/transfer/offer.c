/* The sender's side of offers. */
#include "transfer/offer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "transfer/exchange/exchange.h"
#include "memory/deferred.h"
#include "memory/memory_map.h"
#include "base/waits.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "transfer/envelope.h"
#include "transfer/outstanding.h"
#include "real.h"

/* A copy that is being sent. If it was sent after a timeout, the verdict is still to arrive. */
struct late {
	struct hwio_copy copy;
	MPI_Request verdict;
	struct hwio_verdict received;
	struct late *next;
};

static struct late *late_list;

void hwio_offer_reply(uint64_t id, int world_rank, enum hwio_reply_kind kind, int error)
{
	struct hwio_reply reply = {.id = id, .kind = (int32_t)kind, .error = error};
	hwio_real.MPI_Send(&reply, sizeof(reply), MPI_BYTE, world_rank, HWIO_TAG_OF(HWIO_TAG_REPLY, id), hwio_control);
}

static bool write_there(const struct hwio_verdict *verdict, const struct hwio_layout *layout, int *error)
{
	*error = EIO;
	if (!hwio_path_is_sound(verdict->path, verdict->path_bytes) ||
		!hwio_runs_are_sound(&verdict->runs, layout->bytes))
		return false;
	struct hwio_file *file = hwio_file_open(verdict->path, O_WRONLY, &verdict->identity);
	*error = errno;
	if (!file)
		return false;
	bool is_good = hwio_runs_transfer(file->descriptor, &verdict->runs, layout, true);
	*error = is_good ? hwio_mounts_publish(file->descriptor) : errno;
	hwio_file_release(file);
	return is_good && *error == 0;
}

static void carry_out_verdict(const struct hwio_verdict *verdict, const struct hwio_layout *layout, int world_rank,
	struct hwio_context *context)
{
	int error = 0;
	int data_tag = HWIO_TAG_OF(HWIO_TAG_DATA, verdict->id);
	switch (verdict->kind) {
	case HWIO_VERDICT_WRITE:
		if (write_there(verdict, layout, &error)) {
			hwio_offer_reply(verdict->id, world_rank, HWIO_REPLY_DONE, 0);
			if (verdict->is_sent_too)
				hwio_stream_send(layout, layout->bytes, world_rank, data_tag);
			hwio_context_used(context);
			break;
		}
		hwio_offer_reply(verdict->id, world_rank, HWIO_REPLY_FAILED, error);
		hwio_stream_send(layout, layout->bytes, world_rank, data_tag);
		break;
	case HWIO_VERDICT_EXCHANGE:
		if (hwio_exchange_join(verdict, layout, world_rank))
			hwio_context_used(context);
		break;
	case HWIO_VERDICT_DROP:
		hwio_offer_reply(verdict->id, world_rank, HWIO_REPLY_DONE, 0);
		break;
	default:
		hwio_offer_reply(verdict->id, world_rank, HWIO_REPLY_DONE, 0);
		hwio_stream_send(layout, layout->bytes, world_rank, data_tag);
		hwio_context_touched(context, hwio_context_operation(context));
	}
}

static void free_sent(bool is_last)
{
	for (struct late **link = &late_list, *one; (one = *link);) {
		int has_verdict = 0;
		bool is_sent = hwio_copy_is_sent(&one->copy);
		hwio_real.MPI_Test(&one->verdict, &has_verdict, MPI_STATUS_IGNORE);
		if (is_sent && has_verdict) {
			*link = one->next;
			free(one);
		} else {
			link = &one->next;
			if (is_last)
				hwio_pause();
		}
	}
}

void hwio_offer_finish(void)
{
	double end = hwio_seconds() + HWIO_WAIT_FINISH_S;
	hwio_step_in();
	while (late_list && hwio_seconds() < end)
		free_sent(true);
	hwio_step_out();
}

static bool send_copy(struct late *one, uint64_t id, const struct hwio_layout *layout, int world_rank)
{
	char *data = malloc(layout->bytes);
	if (!data)
		return false;
	hwio_layout_copy(layout, 0, data, layout->bytes, false);
	hwio_copy_send(&one->copy, data, layout->bytes, world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, id));
	one->next = late_list;
	late_list = one;
	return true;
}

bool hwio_offer_copy(uint64_t id, const struct hwio_layout *layout, int world_rank)
{
	struct late *one = calloc(1, sizeof(*one));
	hwio_step_in();
	free_sent(false);
	bool is_sent = one && send_copy(one, id, layout, world_rank);
	hwio_step_out();
	if (is_sent)
		one->verdict = MPI_REQUEST_NULL;
	else
		free(one);
	return is_sent;
}

/* Sends a copy. The request `verdict` stays posted. False: there is no memory for a copy. */
static bool send_after_timeout(struct late *one, uint64_t id, const struct hwio_layout *layout, int world_rank)
{
	if (!send_copy(one, id, layout, world_rank))
		return false;
	hwio_offer_reply(id, world_rank, HWIO_REPLY_LATE, 0);
	return true;
}

void hwio_offer_settle(uint64_t id, const struct hwio_layout *layout, int world_rank, struct hwio_context *context)
{
	struct late *one = calloc(1, sizeof(*one));
	if (!one)
		abort();
	int has_arrived = 0;
	hwio_real.MPI_Irecv(&one->received, sizeof(one->received), MPI_BYTE, world_rank,
		HWIO_TAG_OF(HWIO_TAG_VERDICT, id), hwio_control, &one->verdict);
	double end = hwio_seconds() + hwio_model_timeout_s(layout->bytes);
	for (;;) {
		hwio_real.MPI_Test(&one->verdict, &has_arrived, MPI_STATUS_IGNORE);
		if (has_arrived)
			break;
		if (hwio_seconds() > end) {
			if (send_after_timeout(one, id, layout, world_rank)) {
				hwio_context_touched(context, hwio_context_operation(context));
				return;
			}
			/* Without memory it continues to wait, as the original call might. */
			end = HWIO_WAIT_UNBOUNDED_S;
		}
		hwio_pause();
	}
	carry_out_verdict(&one->received, layout, world_rank, context);
	free(one);
	if (late_list)
		free_sent(false);
}

/* A send that may be offered. */
struct offering {
	struct hwio_offer *offer;
	struct hwio_layout layout;
	struct hwio_context *context;
	int peer;
};

static bool may_offer(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, MPI_Comm comm,
	struct offering *offering)
{
	size_t bytes = hwio_type_bytes(count, type);
	if (!hwio_examines(bytes) || hwio_mode == HWIO_OBSERVE || bytes < HWIO_OFFERED_BYTES_MIN ||
		bytes > HWIO_STREAM_BYTES_MAX || destination < 0 || hwio_is_threaded() || buffer == MPI_BOTTOM)
		return false;
	offering->context = hwio_context_here(HWIO_OP_SEND);
	struct hwio_comm *known = hwio_context_is_off(offering->context) ? NULL : hwio_comm_of(comm);
	if (!known || destination >= known->size || destination == known->rank || hwio_model_receive_gain(bytes) <= 0)
		return false;
	hwio_step_in();
	bool is_known = hwio_layout_make(&offering->layout, buffer, count, type);
	hwio_step_out();
	offering->offer = is_known ? calloc(1, hwio_offer_bytes()) : NULL;
	if (!offering->offer) {
		if (is_known)
			hwio_layout_free(&offering->layout);
		return false;
	}
	offering->peer = known->world_ranks[destination];
	hwio_context_begin(offering->context);
	hwio_envelope_fill(&offering->offer->envelope, HWIO_OFFER, bytes);
	hwio_edges_copy(&offering->layout, offering->offer->edges);
	return true;
}

/* Sends the offer; meanwhile it answers ranks that wait for this one. */
static int send_offer(bool is_synchronous, const struct offering *offering, int destination, int tag, MPI_Comm comm)
{
	MPI_Request request;
	bool is_long = offering->layout.bytes >= HWIO_RENDEZVOUS_BYTES_MIN;
	int result = (is_synchronous || is_long ? hwio_real.MPI_Issend : hwio_real.MPI_Isend)(offering->offer,
		(int)hwio_offer_bytes(), MPI_BYTE, destination, tag, comm, &request);
	return result == MPI_SUCCESS ? hwio_outstanding_answer_until(&request) : result;
}

bool hwio_offer_instead(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type, int destination,
	int tag, MPI_Comm comm, int *result)
{
	struct offering offering;
	if (!may_offer(buffer, count, type, destination, comm, &offering))
		return false;
	hwio_step_in();
	*result = send_offer(is_synchronous, &offering, destination, tag, comm);
	if (*result == MPI_SUCCESS)
		hwio_offer_settle(offering.offer->envelope.id, &offering.layout, offering.peer, offering.context);
	hwio_layout_free(&offering.layout);
	free(offering.offer);
	hwio_step_out();
	return true;
}

struct hwio_offered {
	struct offering offering;
	/* Where the verdict arrives; passed on to a copy that is sent. */
	struct late *late;
	double end;
	/* The program's request, of a long message that is not known to be received. */
	MPI_Request request;
	bool is_unreceived;
	/* The data is no longer needed: the verdict was carried out, or a copy is being sent. */
	bool is_done;
	struct hwio_offered *next;
};

static struct hwio_offered *offered_list;

bool hwio_offer_any(void)
{
	return offered_list != NULL;
}

struct hwio_offered *hwio_offer_start(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm, MPI_Request *request, int *result)
{
	struct offering offering;
	if (!may_offer(buffer, count, type, destination, comm, &offering))
		return NULL;
	bool is_one = offering.layout.count == 1;
	struct hwio_offered *offered = is_one ? calloc(1, sizeof(*offered)) : NULL;
	if (!offered || !(offered->late = calloc(1, sizeof(*offered->late)))) {
		free(offered);
		free(offering.offer);
		hwio_layout_free(&offering.layout);
		return NULL;
	}
	offered->offering = offering;
	offered->offering.layout.blocks = &offered->offering.layout.single;
	uint64_t id = offering.offer->envelope.id;
	hwio_step_in();
	offered->is_unreceived = offering.layout.bytes >= HWIO_RENDEZVOUS_BYTES_MIN;
	*result = (is_synchronous || offered->is_unreceived ? hwio_real.MPI_Issend
							    : hwio_real.MPI_Isend)(offering.offer,
		(int)hwio_offer_bytes(), MPI_BYTE, destination, tag, comm, request);
	hwio_real.MPI_Irecv(&offered->late->received, sizeof(offered->late->received), MPI_BYTE, offering.peer,
		HWIO_TAG_OF(HWIO_TAG_VERDICT, id), hwio_control, &offered->late->verdict);
	hwio_step_out();
	offered->request = *request;
	offered->end = hwio_seconds() + hwio_model_timeout_s(offering.layout.bytes);
	offered->next = offered_list;
	offered_list = offered;
	hwio_note_busy(HWIO_PART_OFFERS, hwio_offer_any);
	return offered;
}

/* Sends a copy, if there is memory for one. */
static void send_late(struct hwio_offered *offered)
{
	const struct offering *offering = &offered->offering;
	if (!send_after_timeout(offered->late, offering->offer->envelope.id, &offering->layout, offering->peer))
		return;
	offered->late = NULL;
	offered->is_done = true;
	hwio_context_touched(offering->context, hwio_context_operation(offering->context));
}

/* Returns true while a long message is not received: until then MPI's send would wait, too. */
static bool is_unreceived(struct hwio_offered *offered)
{
	int is_received = 0;
	if (!offered->is_unreceived)
		return false;
	if (hwio_real.MPI_Request_get_status(offered->request, &is_received, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
		!is_received)
		return true;
	offered->is_unreceived = false;
	offered->end = hwio_seconds() + hwio_model_timeout_s(offered->offering.layout.bytes);
	return false;
}

bool hwio_offer_progress(struct hwio_offered *offered, bool is_last)
{
	const struct offering *offering = &offered->offering;
	/* The program's request no longer exists. */
	offered->is_unreceived &= !is_last;
	hwio_step_in();
	while (!offered->is_done) {
		int has_verdict = 0;
		hwio_real.MPI_Test(&offered->late->verdict, &has_verdict, MPI_STATUS_IGNORE);
		if (has_verdict) {
			/* Set before the exchange, which checks all offers. */
			offered->is_done = true;
			carry_out_verdict(&offered->late->received, &offering->layout, offering->peer,
				offering->context);
		} else if (!is_unreceived(offered) && hwio_seconds() > offered->end) {
			send_late(offered);
		}
		if (offered->is_done || !is_last)
			break;
		hwio_pause();
	}
	hwio_step_out();
	return offered->is_done;
}

void hwio_offer_progress_all(void)
{
	for (struct hwio_offered *one = offered_list; one; one = one->next)
		hwio_offer_progress(one, false);
}

void hwio_offer_free(struct hwio_offered *offered)
{
	struct hwio_offered **link = &offered_list;
	while (*link != offered)
		link = &(*link)->next;
	*link = offered->next;
	free(offered->late);
	free(offered->offering.offer);
	free(offered);
	hwio_note_busy(HWIO_PART_OFFERS, hwio_offer_any);
}

void hwio_offer_release(void)
{
	hwio_step_in();
	for (struct hwio_offered *one = offered_list; one; one = one->next)
		if (!one->is_done && !hwio_offer_progress(one, false))
			send_late(one);
	hwio_step_out();
}
