/* The sender's side of offers. */
#include "transfer/offer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Offers of which a copy is being sent, or whose verdict is still to arrive, after the program's call has returned. */
static struct hwio_transfer *late_list;
/* The process that sends them. */
static pid_t late_process;
/* Offers whose call has returned: those of MPI_Isend and MPI_Igather, until their requests complete. */
static struct hwio_transfer *offered_list;

void hwio_offer_reply(uint64_t id, int world_rank, enum hwio_reply_kind kind, int error)
{
	struct hwio_reply reply = {.id = id, .kind = (int32_t)kind, .error = error};
	hwio_real.MPI_Send(&reply, sizeof(reply), MPI_BYTE, world_rank, HWIO_TAG_OF(HWIO_TAG_REPLY, id), hwio_control);
}

static bool write_there(const struct hwio_verdict *verdict, const struct hwio_layout *layout, int *error)
{
	bool has_runs = hwio_runs_are_bounded(&verdict->runs);
	uint64_t bytes = has_runs ? hwio_runs_bytes(&verdict->runs) : 0;
	*error = EIO;
	if (!has_runs || !hwio_path_is_sound(verdict->path, verdict->path_bytes) ||
		!hwio_runs_are_sound(&verdict->runs, bytes) || verdict->skip > layout->bytes ||
		bytes > layout->bytes - verdict->skip)
		return false;
	struct hwio_file *file = hwio_file_open(verdict->path, O_WRONLY, &verdict->identity);
	*error = errno;
	if (!file)
		return false;
	/* No page in the cache may add to what is written. */
	if (hwio_identity_is_nfs(&verdict->identity))
		hwio_file_forget(file->descriptor);
	bool is_good = hwio_runs_write(file->descriptor, &verdict->runs, layout, verdict->skip);
	*error = is_good ? hwio_mounts_publish(file->descriptor) : errno;
	hwio_file_release(file);
	return is_good && *error == 0;
}

/* True while this rank is about to wait for something else. */
static bool is_releasing;

/* Sends what a reply announces. Receivers take the offers of several ranks in an order of their own. So a rank that has
 * another offer, or something else to wait for, doesn't wait until this one's data is received. */
static void send_data(const struct hwio_transfer *one)
{
	bool may_wait = !is_releasing && (!offered_list || (offered_list == one && !one->next));
	if (may_wait || !hwio_offer_copy(one->id, &one->layout, one->world_rank))
		hwio_stream_send(&one->layout, one->layout.bytes, one->world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
}

static void carry_out_verdict(struct hwio_transfer *one)
{
	const struct hwio_verdict *verdict = &one->verdict;
	const struct hwio_layout *layout = &one->layout;
	struct hwio_context *context = one->context;
	int world_rank = one->world_rank;
	int error = 0;
	switch (verdict->kind) {
	case HWIO_VERDICT_WRITE:
		if (write_there(verdict, layout, &error)) {
			hwio_offer_reply(verdict->id, world_rank, HWIO_REPLY_DONE, 0);
			if (verdict->is_sent_too)
				send_data(one);
			hwio_context_used(context);
			break;
		}
		hwio_offer_reply(verdict->id, world_rank, HWIO_REPLY_FAILED, error);
		send_data(one);
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
		send_data(one);
		hwio_context_touched(context, hwio_context_operation(context));
	}
}

static bool is_any_late(void)
{
	return late_list != NULL;
}

static void link_late(struct hwio_transfer *one)
{
	late_process = getpid();
	hwio_transfer_link(&late_list, one);
	hwio_note_busy(HWIO_PART_LATE, is_any_late);
}

static void free_sent(bool is_last)
{
	struct hwio_transfer *first = late_list;
	for (struct hwio_transfer *one = late_list, *next; one; one = next) {
		int has_verdict = 0;
		next = one->next;
		bool is_sent = hwio_copy_is_sent(&one->copy);
		hwio_real.MPI_Test(&one->verdict_request, &has_verdict, MPI_STATUS_IGNORE);
		if (is_sent && has_verdict) {
			hwio_transfer_unlink(&late_list, one);
			hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
			free(one);
		} else if (is_last) {
			hwio_pause();
		}
	}
	if (first && !late_list)
		hwio_note_busy(HWIO_PART_LATE, is_any_late);
}

void hwio_offer_move(void)
{
	/* Another thread may be the one that calls MPI, and no other process may: one that vfork made has this memory. This
	 * library calls the C library in handlers of faults, with its lock held. */
	if (!late_list || hwio_is_threaded() || hwio_is_inside() || getpid() != late_process)
		return;
	hwio_step_in();
	free_sent(false);
	hwio_step_out();
}

void hwio_offer_finish(void)
{
	double end = hwio_seconds() + HWIO_WAIT_FINISH_S;
	hwio_step_in();
	while (late_list && hwio_seconds() < end)
		free_sent(true);
	/* MPI ends. */
	late_list = NULL;
	hwio_note_busy(HWIO_PART_LATE, is_any_late);
	hwio_step_out();
}

/* Sends a copy; a verdict's request stays posted. False: there is no memory for a copy, or it would be too long. */
static bool send_copy(struct hwio_transfer *one)
{
	char *data = one->layout.bytes <= HWIO_STREAM_BYTES_MAX ? malloc(one->layout.bytes) : NULL;
	if (!data)
		return false;
	hwio_layout_copy(&one->layout, 0, data, one->layout.bytes, false);
	hwio_copy_send(&one->copy, data, one->layout.bytes, one->world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
	hwio_transfer_note(one, HWIO_TRANSFER_EXPIRES);
	return true;
}

bool hwio_offer_copy(uint64_t id, const struct hwio_layout *layout, int world_rank)
{
	struct hwio_transfer *one = hwio_transfer_make(HWIO_TRANSFER_OFFERED, id, world_rank, NULL, 0);
	if (!one)
		return false;
	one->layout = *layout;
	one->verdict_request = MPI_REQUEST_NULL;
	hwio_step_in();
	free_sent(false);
	bool is_sent = send_copy(one);
	hwio_step_out();
	if (is_sent)
		link_late(one);
	else
		free(one);
	return is_sent;
}

/* The sender's timeout. False: there is no memory for a copy. */
static bool expire(struct hwio_transfer *one)
{
	if (!send_copy(one))
		return false;
	hwio_offer_reply(one->id, one->world_rank, HWIO_REPLY_LATE, 0);
	hwio_context_touched(one->context, hwio_context_operation(one->context));
	return true;
}

/* `operation_bytes`: what the receiver receives in the operation that the offer belongs to. */
static void await_verdict(struct hwio_transfer *one, size_t operation_bytes)
{
	hwio_real.MPI_Irecv(&one->verdict, sizeof(one->verdict), MPI_BYTE, one->world_rank,
		HWIO_TAG_OF(HWIO_TAG_VERDICT, one->id), hwio_control, &one->verdict_request);
	one->end = hwio_seconds() + hwio_model_timeout_s(operation_bytes);
}

/* Returns true while a long message is not received: until then MPI's send would wait, too. */
static bool is_unreceived(struct hwio_transfer *one)
{
	int is_received = 0;
	if (!one->is_unreceived)
		return false;
	if (hwio_real.MPI_Request_get_status(one->request, &is_received, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
		!is_received)
		return true;
	one->is_unreceived = false;
	one->end = hwio_seconds() + hwio_model_timeout_s(one->layout.bytes);
	return false;
}

/* Carries the verdict out if it has arrived, or sends a copy after the timeout. With `waits`, until either has happened:
 * without memory for a copy, until the verdict arrives, as the original call might. */
static void advance(struct hwio_transfer *one, bool waits)
{
	while (one->state == HWIO_TRANSFER_OFFERED) {
		int has_verdict = 0;
		hwio_real.MPI_Test(&one->verdict_request, &has_verdict, MPI_STATUS_IGNORE);
		if (has_verdict) {
			/* Noted before an exchange, which checks all offers. */
			hwio_transfer_note(one, HWIO_TRANSFER_NOTIFIES);
			carry_out_verdict(one);
			hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
		} else if (!is_unreceived(one) && hwio_seconds() > one->end) {
			expire(one);
		}
		if (one->state != HWIO_TRANSFER_OFFERED || !waits)
			break;
		hwio_pause();
	}
}

/* The program doesn't need the transfer any more; what is late needs its copy and its verdict. */
static void release(struct hwio_transfer *one)
{
	free(one->offer);
	one->offer = NULL;
	if (one->state == HWIO_TRANSFER_LATE)
		link_late(one);
	else
		free(one);
}

void hwio_offer_settle(uint64_t id, const struct hwio_layout *layout, size_t operation_bytes, int world_rank)
{
	struct hwio_transfer *one = hwio_transfer_make(HWIO_TRANSFER_OFFERED, id, world_rank, NULL, 0);
	if (!one)
		abort();
	one->layout = *layout;
	await_verdict(one, operation_bytes);
	advance(one, true);
	release(one);
	if (late_list)
		free_sent(false);
}

/* Returns the offer of a send of at least `bytes_min` bytes, or NULL if the original has to be called. */
static struct hwio_transfer *make_offer(size_t bytes_min, const void *buffer, MPI_Count count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm)
{
	size_t bytes = hwio_type_bytes(count, type);
	if (!hwio_examines(bytes) || hwio_mode == HWIO_OBSERVE || bytes < bytes_min || bytes > HWIO_STREAM_BYTES_MAX ||
		destination < 0 || hwio_is_threaded() || buffer == MPI_BOTTOM)
		return NULL;
	struct hwio_context *context = hwio_context_here(HWIO_OP_SEND);
	struct hwio_comm *known = hwio_context_is_off(context) ? NULL : hwio_comm_of(comm);
	if (!known || destination >= known->size || destination == known->rank || hwio_model_receive_gain(bytes) <= 0)
		return NULL;
	struct hwio_layout layout;
	hwio_step_in();
	bool is_known = hwio_is_sendable(type, tag) && hwio_layout_make(&layout, buffer, count, type);
	hwio_step_out();
	struct hwio_offer *offer = is_known ? calloc(1, hwio_offer_bytes()) : NULL;
	struct hwio_transfer *one = offer
		? hwio_transfer_make(HWIO_TRANSFER_OFFERED, 0, known->world_ranks[destination], context, 0)
		: NULL;
	if (!one) {
		free(offer);
		if (is_known)
			hwio_layout_free(&layout);
		return NULL;
	}
	hwio_context_begin(context);
	hwio_envelope_fill(&offer->envelope, HWIO_OFFER, bytes);
	hwio_edges_copy(&layout, offer->edges);
	one->id = offer->envelope.id;
	one->layout = layout;
	if (layout.blocks == &layout.single)
		one->layout.blocks = &one->layout.single;
	one->offer = offer;
	return one;
}

static int send_offer(struct hwio_transfer *one, bool is_synchronous, int destination, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	one->is_unreceived = one->layout.bytes >= HWIO_RENDEZVOUS_BYTES_MIN;
	return (is_synchronous || one->is_unreceived ? hwio_real.MPI_Issend : hwio_real.MPI_Isend)(one->offer,
		(int)hwio_offer_bytes(), MPI_BYTE, destination, tag, comm, request);
}

bool hwio_offer_instead(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type, int destination,
	int tag, MPI_Comm comm, int *result)
{
	struct hwio_transfer *one = make_offer(HWIO_OFFERED_BYTES_MIN, buffer, count, type, destination, tag, comm);
	MPI_Request request;
	if (!one)
		return false;
	hwio_step_in();
	*result = send_offer(one, is_synchronous, destination, tag, comm, &request);
	/* Meanwhile it answers ranks that wait for this one. */
	if (*result == MPI_SUCCESS)
		*result = hwio_outstanding_answer_until(&request);
	one->is_unreceived = false;
	if (*result == MPI_SUCCESS) {
		await_verdict(one, one->layout.bytes);
		advance(one, true);
	}
	hwio_layout_free(&one->layout);
	release(one);
	if (late_list)
		free_sent(false);
	hwio_step_out();
	return true;
}

/* An offer that was not sent. */
static void abandon(struct hwio_transfer *one)
{
	hwio_layout_free(&one->layout);
	release(one);
}

bool hwio_offer_any(void)
{
	return offered_list != NULL;
}

struct hwio_transfer *hwio_offer_prepare(size_t bytes_min, const void *buffer, MPI_Count count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm)
{
	struct hwio_transfer *one = make_offer(bytes_min, buffer, count, type, destination, tag, comm);
	if (one && one->layout.count != 1) {
		abandon(one);
		one = NULL;
	}
	return one;
}

void hwio_offer_begin(struct hwio_transfer *one, MPI_Request request)
{
	hwio_step_in();
	await_verdict(one, one->layout.bytes);
	hwio_step_out();
	one->request = request;
	hwio_transfer_link(&offered_list, one);
	hwio_note_busy(HWIO_PART_OFFERS, hwio_offer_any);
}

struct hwio_transfer *hwio_offer_start(bool is_synchronous, const void *buffer, MPI_Count count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm, MPI_Request *request, int *result)
{
	struct hwio_transfer *one = hwio_offer_prepare(HWIO_OFFERED_BYTES_MIN, buffer, count, type, destination, tag,
		comm);
	if (!one)
		return NULL;
	hwio_step_in();
	*result = send_offer(one, is_synchronous, destination, tag, comm, request);
	hwio_step_out();
	if (*result != MPI_SUCCESS) {
		abandon(one);
		return NULL;
	}
	hwio_offer_begin(one, *request);
	return one;
}

bool hwio_offer_progress(struct hwio_transfer *one, bool is_last)
{
	/* The program's request no longer exists. */
	if (is_last && one->state == HWIO_TRANSFER_OFFERED)
		one->is_unreceived = false;
	hwio_step_in();
	advance(one, is_last);
	hwio_step_out();
	return one->state != HWIO_TRANSFER_OFFERED;
}

void hwio_offer_progress_all(void)
{
	for (struct hwio_transfer *one = offered_list; one; one = one->next)
		hwio_offer_progress(one, false);
}

void hwio_offer_free(struct hwio_transfer *one)
{
	hwio_transfer_unlink(&offered_list, one);
	release(one);
	hwio_note_busy(HWIO_PART_OFFERS, hwio_offer_any);
}

void hwio_offer_release(void)
{
	bool was_releasing = is_releasing;
	hwio_step_in();
	is_releasing = true;
	for (struct hwio_transfer *one = offered_list; one; one = one->next) {
		advance(one, false);
		if (one->state == HWIO_TRANSFER_OFFERED)
			expire(one);
	}
	is_releasing = was_releasing;
	hwio_step_out();
}
