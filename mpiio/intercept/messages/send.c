/* MPI_Send and its relatives. Source of the patterns: Natvig, Elster and Meyer, §III.B and §III.D. Unlike theirs, hints
 * travel in the program's own messages, so MPI's order and matching apply. */
#include "intercept/messages/send.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "intercept/generated-calls.h"
#include "base/left.h"
#include "memory/deferred.h"
#include "memory/mapped.h"
#include "mpi/model.h"
#include "intercept/job/report.h"
#include "intercept/requests/requests.h"
#include "transfer/envelope.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "real.h"

static bool may_be_deferred(const void *buffer)
{
	return hwio_is_busy || hwio_mapped_is_near(buffer);
}

bool hwio_hint_find(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
	struct hwio_hinted *sending)
{
	memset(sending, 0, sizeof(*sending));
	size_t bytes = hwio_type_bytes(count, type);
	if (!hwio_examines(bytes) || bytes < HWIO_HINTED_BYTES_MIN || bytes > HWIO_STREAM_BYTES_MAX ||
		!(hwio_records_any(HWIO_DEFERRED) || hwio_mapped_is_near(buffer)) || hwio_mode == HWIO_OBSERVE ||
		destination < 0 || !hwio_outstanding_can_add())
		return false;
	sending->comm = hwio_comm_of(comm);
	if (!sending->comm || destination >= sending->comm->size)
		return false;
	/* A rank can't send the data to itself as well. */
	if (destination == sending->comm->rank && hwio_mode == HWIO_VERIFY)
		return false;
	hwio_step_in();
	/* MPI is called before the lock is acquired: another thread may hold a lock of MPI and wait for the
	 * engine's. */
	bool is_copy = hwio_is_sendable(type, tag) && hwio_layout_make(&sending->layout, buffer, count, type);
	hwio_enter();
	bool is_mapped = is_copy && hwio_mapped_is_near(buffer) &&
		hwio_mapped_begin(sending->layout.low, sending->layout.high);
	if (is_copy &&
		!(hwio_may_be_recorded(sending->layout.low, sending->layout.high) &&
			hwio_runs_of(&sending->layout, &sending->runs, &sending->file, &sending->context, false) &&
			sending->file->path[0] && hwio_file_is_unchanged(sending->file))) {
		hwio_layout_free(&sending->layout);
		is_copy = false;
	}
	if (is_copy)
		hwio_file_retain(sending->file);
	if (is_mapped)
		hwio_mapped_end();
	hwio_leave();
	hwio_step_out();
	return is_copy;
}

void hwio_hint_end(struct hwio_hinted *sending)
{
	hwio_layout_free(&sending->layout);
	hwio_file_release(sending->file);
}

bool hwio_hint_make(const struct hwio_hinted *sending, int peer, struct hwio_hint *hint)
{
	memset(hint, 0, sizeof(*hint));
	hwio_envelope_fill(&hint->envelope, HWIO_HINT, sending->layout.bytes);
	hint->identity = sending->file->identity;
	hint->runs = sending->runs;
	hint->path_bytes = (uint32_t)strlen(sending->file->path) + 1;
	memcpy(hint->path, sending->file->path, hint->path_bytes);
	return hwio_outstanding_hint(hint->envelope.id, peer, sending->file, &sending->runs, sending->context);
}

typedef int (*send_call)(const void *, int, MPI_Datatype, int, int, MPI_Comm);

/* The receiver may wait for other messages of this rank first. */
bool hwio_hint_verify(const struct hwio_hinted *sending, uint64_t id, const void *buffer, int peer)
{
	struct hwio_context *context = sending->context;
	if (hwio_mode != HWIO_VERIFY || !context || context->verified >= HWIO_VERIFIED_MAX)
		return false;
	hwio_memory_in(buffer, sending->layout.high - sending->layout.low);
	if (!hwio_offer_copy(id, &sending->layout, peer))
		return false;
	context->verified++;
	return true;
}

/* Sends a hint instead. False: the original has to be called. */
static bool hint_instead(send_call call, const void *buffer, MPI_Count count, MPI_Datatype type, int destination,
	int tag, MPI_Comm comm, int *result)
{
	struct hwio_hinted sending;
	struct hwio_hint hint;
	if (!hwio_hint_find(buffer, count, type, destination, tag, comm, &sending))
		return false;
	int peer = sending.comm->world_ranks[destination];
	double saved = hwio_model_send_gain(&sending.runs, sending.file);
	if (saved <= 0) {
		hwio_context_observed(sending.context, HWIO_READ_SEND, sending.layout.bytes, "a message is not slower");
		hwio_context_switch_off(sending.context, "a message is not slower");
		hwio_hint_end(&sending);
		return false;
	}
	if (!hwio_hint_make(&sending, peer, &hint)) {
		hwio_hint_end(&sending);
		return false;
	}
	hint.is_verified = hwio_hint_verify(&sending, hint.envelope.id, buffer, peer);
	hwio_step_in();
	*result = call(&hint, (int)hwio_hint_bytes(&hint), MPI_BYTE, destination, tag, comm);
	hwio_step_out();
	if (*result == MPI_SUCCESS)
		hwio_context_transformed(sending.context, HWIO_READ_SEND, sending.layout.bytes, saved);
	else
		hwio_outstanding_cancel(hint.envelope.id, peer);
	hwio_hint_end(&sending);
	hwio_outstanding_poll();
	return true;
}

/* Records that what was read is sent as it is. */
static void note_left(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (hwio_depth == 0)
		hwio_left_forwarded(HWIO_READ_SEND, buffer, hwio_type_bytes(count, type));
}

void hwio_before_send(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (hwio_is_busy && hwio_depth == 0) {
		hwio_sends();
		hwio_uses(buffer, count, type);
	}
}

/* Answers meanwhile the ranks that wait for this one. */
static int send_and_answer(send_call call, const void *buffer, MPI_Count count, MPI_Datatype type, int destination,
	int tag, MPI_Comm comm)
{
	MPI_Request request;
	int result = (call == hwio_real.MPI_Ssend ? hwio_real.MPI_Issend : hwio_real.MPI_Isend)(buffer, (int)count,
		type, destination, tag, comm, &request);
	return result == MPI_SUCCESS ? hwio_outstanding_answer_until(&request) : result;
}

static int send_or_not(send_call call, const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag,
	MPI_Comm comm)
{
	int result;
	if (hwio_depth == 0 && hwio_mode != HWIO_OFF) {
		if (may_be_deferred(buffer) && hint_instead(call, buffer, count, type, destination, tag, comm, &result))
			return result;
		hwio_before_send(buffer, count, type);
		note_left(buffer, count, type);
		if (hwio_mode == HWIO_OBSERVE)
			hwio_observe_send(buffer, count, type);
		else if (hwio_offer_instead(call == hwio_real.MPI_Ssend, buffer, count, type, destination, tag, comm,
				 &result))
			return result;
	}
	return HWIO_INSIDE(hwio_depth == 1 && hwio_outstanding_any()
			? send_and_answer(call, buffer, count, type, destination, tag, comm)
			: call(buffer, (int)count, type, destination, tag, comm));
}

/* A function of its own, so that a message that passes is a jump to MPI. */
__attribute__((noinline)) static int send_short_or_not(send_call call, const void *buffer, int count, MPI_Datatype type,
	int destination, int tag, MPI_Comm comm)
{
	if (hwio_is_short(count, type)) {
		hwio_cache_short_type(type);
		return HWIO_INSIDE(call(buffer, count, type, destination, tag, comm));
	}
	return send_or_not(call, buffer, count, type, destination, tag, comm);
}

int hwio_MPI_Send(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
	if (hwio_passes(count, type))
		return ((send_call)hwio_quick.send)(buffer, count, type, destination, tag, comm);
	return send_short_or_not(hwio_real.MPI_Send, buffer, count, type, destination, tag, comm);
}

int hwio_MPI_Ssend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
	return send_short_or_not(hwio_real.MPI_Ssend, buffer, count, type, destination, tag, comm);
}

struct hwio_hint *hwio_hint_for(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag,
	MPI_Comm comm)
{
	struct hwio_hinted sending;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF || !may_be_deferred(buffer) ||
		!hwio_hint_find(buffer, count, type, destination, tag, comm, &sending))
		return NULL;
	double saved = hwio_model_send_gain(&sending.runs, sending.file);
	struct hwio_hint *hint = saved > 0 ? malloc(sizeof(*hint)) : NULL;
	if (hint && !hwio_hint_make(&sending, sending.comm->world_ranks[destination], hint)) {
		free(hint);
		hint = NULL;
	}
	if (hint)
		hwio_context_transformed(sending.context, HWIO_READ_SEND, sending.layout.bytes, saved);
	hwio_hint_end(&sending);
	return hint;
}

void hwio_hint_cancel(struct hwio_hint *hint, int destination, MPI_Comm comm)
{
	hwio_outstanding_cancel(hint->envelope.id, hwio_comm_of(comm)->world_ranks[destination]);
	free(hint);
}

typedef int (*isend_call)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* The hint's memory lives as long as the request. */
static int start_hint(isend_call call, struct hwio_hint *hint, int destination, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	int result = HWIO_INSIDE(call(hint, (int)hwio_hint_bytes(hint), MPI_BYTE, destination, tag, comm, request));
	if (result == MPI_SUCCESS)
		hwio_requests_own(*request, hint);
	else
		hwio_hint_cancel(hint, destination, comm);
	return result;
}

static int start_send(isend_call call, const void *buffer, int count, MPI_Datatype type, int destination, int tag,
	MPI_Comm comm, MPI_Request *request)
{
	if (hwio_is_short(count, type)) {
		hwio_cache_short_type(type);
		return HWIO_INSIDE(call(buffer, count, type, destination, tag, comm, request));
	}
	struct hwio_hint *hint = hwio_hint_for(buffer, count, type, destination, tag, comm);
	if (hint)
		return start_hint(call, hint, destination, tag, comm, request);
	if (hwio_is_busy && hwio_depth == 0) {
		hwio_outstanding_poll();
		hwio_uses(buffer, count, type);
	}
	note_left(buffer, count, type);
	int result;
	struct hwio_transfer *offered = NULL;
	if (hwio_mode == HWIO_OBSERVE)
		hwio_observe_send(buffer, count, type);
	else if (hwio_mode != HWIO_OFF && hwio_depth == 0)
		offered = hwio_offer_start(call == hwio_real.MPI_Issend, buffer, count, type, destination, tag, comm,
			request, &result);
	if (offered) {
		hwio_requests_offered(*request, offered);
		return result;
	}
	return HWIO_INSIDE(call(buffer, count, type, destination, tag, comm, request));
}

int hwio_MPI_Isend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	if (hwio_passes(count, type))
		return ((isend_call)hwio_quick.isend)(buffer, count, type, destination, tag, comm, request);
	return start_send(hwio_real.MPI_Isend, buffer, count, type, destination, tag, comm, request);
}

int hwio_MPI_Issend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	return start_send(hwio_real.MPI_Issend, buffer, count, type, destination, tag, comm, request);
}

/* MPI_Bsend and MPI_Rsend, and their nonblocking relatives, return before the receiver has anything to say: what they
 * send is hinted, but not offered. */
static int hint_or_send(send_call call, const void *buffer, int count, MPI_Datatype type, int destination, int tag,
	MPI_Comm comm)
{
	struct hwio_hint *hint = hwio_hint_for(buffer, count, type, destination, tag, comm);
	if (hint) {
		int result = HWIO_INSIDE(call(hint, (int)hwio_hint_bytes(hint), MPI_BYTE, destination, tag, comm));
		if (result == MPI_SUCCESS)
			free(hint);
		else
			hwio_hint_cancel(hint, destination, comm);
		return result;
	}
	hwio_before_send(buffer, count, type);
	note_left(buffer, count, type);
	return HWIO_INSIDE(call(buffer, count, type, destination, tag, comm));
}

int hwio_MPI_Bsend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
	return hint_or_send(hwio_real.MPI_Bsend, buffer, count, type, destination, tag, comm);
}

int hwio_MPI_Rsend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
	return hint_or_send(hwio_real.MPI_Rsend, buffer, count, type, destination, tag, comm);
}

static int start_hint_or_send(isend_call call, const void *buffer, int count, MPI_Datatype type, int destination,
	int tag, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_hint *hint = hwio_hint_for(buffer, count, type, destination, tag, comm);
	if (hint)
		return start_hint(call, hint, destination, tag, comm, request);
	hwio_before_send(buffer, count, type);
	note_left(buffer, count, type);
	return HWIO_INSIDE(call(buffer, count, type, destination, tag, comm, request));
}

int hwio_MPI_Ibsend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	return start_hint_or_send(hwio_real.MPI_Ibsend, buffer, count, type, destination, tag, comm, request);
}

int hwio_MPI_Irsend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	return start_hint_or_send(hwio_real.MPI_Irsend, buffer, count, type, destination, tag, comm, request);
}
