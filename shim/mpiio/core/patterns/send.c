/*
 * MPI_Send and its relatives. Source of the patterns: Natvig, Elster and Meyer, §III.B and §III.D; that hints travel in
 * the program's own messages is ours, so MPI's order and matching hold without a word more.
 */
#include "send.h"

#include <stdlib.h>
#include <string.h>

#include "../context.h"
#include "../generated-calls.h"
#include "../left.h"
#include "../memory/deferred.h"
#include "../model.h"
#include "../report.h"
#include "../requests/requests.h"
#include "envelope.h"
#include "offer.h"
#include "outstanding.h"
#include "real.h"

uint64_t hw_envelope_id(void)
{
	static uint64_t last;
	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

void hw_envelope_fill(struct hw_envelope *envelope, enum hw_envelope_kind kind, uint64_t bytes)
{
	memset(envelope, 0, sizeof(*envelope));
	memcpy(envelope->cookie, hw_cookie, HW_COOKIE_BYTES);
	envelope->kind = kind;
	envelope->sender = hw_rank;
	envelope->bytes = bytes;
	envelope->id = hw_envelope_id();
}

/* What a hint needs: the program's arguments, and what was found out about them. */
struct sending {
	struct hw_comm *comm;
	struct hw_layout layout;
	struct hw_runs runs;
	struct hw_file *file;
	struct hw_context *context;
};

static bool may_hint(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, MPI_Comm comm,
		     struct sending *sending)
{
	memset(sending, 0, sizeof(*sending));
	size_t bytes = hw_type_bytes(count, type);
	if (!hw_looks_at(bytes) || bytes < HW_REPLACED_BYTES_MIN || !hw_records_any(HW_DEFERRED) ||
	    hw_mode == HW_OBSERVE || destination < 0 || !hw_outstanding_has_room())
		return false;
	sending->comm = hw_comm_of(comm);
	if (!sending->comm || destination >= sending->comm->size)
		return false;
	/* To itself a rank can't send the data besides. */
	if (destination == sending->comm->rank && hw_mode == HW_VERIFY)
		return false;
	hw_step_in();
	/* MPI is asked before the lock is taken: another thread may be in MPI and want it. */
	bool is_copy = hw_layout_make(&sending->layout, buffer, count, type);
	hw_enter();
	if (is_copy && !(hw_may_be_recorded(sending->layout.low, sending->layout.high) &&
			 hw_runs_of(&sending->layout, &sending->runs, &sending->file, &sending->context, false) &&
			 sending->file->path[0] && hw_file_is_unchanged(sending->file))) {
		hw_layout_free(&sending->layout);
		is_copy = false;
	}
	if (is_copy)
		hw_file_keep(sending->file);
	hw_leave();
	hw_step_out();
	return is_copy;
}

static void done(struct sending *sending)
{
	hw_layout_free(&sending->layout);
	hw_enter();
	hw_file_release(sending->file);
	hw_leave();
}

static void write_hint(const struct sending *sending, struct hw_hint *hint)
{
	memset(hint, 0, sizeof(*hint));
	hw_envelope_fill(&hint->envelope, HW_HINT, sending->layout.bytes);
	hint->identity = sending->file->identity;
	hint->runs = sending->runs;
	hint->is_verified = 0;
	hint->path_bytes = (uint32_t)strlen(sending->file->path) + 1;
	memcpy(hint->path, sending->file->path, hint->path_bytes);
}

typedef int (*send_call)(const void *, int, MPI_Datatype, int, int, MPI_Comm);

void hw_pass_from_now_on(MPI_Datatype type)
{
	static int turn;
	size_t bytes = hw_basic_bytes(type);
	/* Of several threads none passes. */
	if (bytes == 0 || hw_quick.is_watchful)
		return;
	turn = !turn;
	hw_quick.types[turn] = (uintptr_t)type;
	hw_quick.counts_max[turn] = (uint32_t)((offsetof(struct hw_hint, path) - 1) / bytes);
}

/* Whether the data goes besides a hint. The receiver may wait for other messages of this rank before it looks at this. */
static bool is_verified(const struct sending *sending, uint64_t id, const void *buffer, int peer)
{
	struct hw_context *context = sending->context;
	if (hw_mode != HW_VERIFY || !context || context->verified >= HW_VERIFIED_MAX)
		return false;
	hw_memory_in(buffer, sending->layout.high - sending->layout.low);
	if (!hw_offer_copy(id, &sending->layout, peer))
		return false;
	context->verified++;
	return true;
}

/* Sends a hint instead. False: the original has to be called. */
static bool hint_instead(send_call call, const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag,
			 MPI_Comm comm, int *result)
{
	struct sending sending;
	struct hw_hint hint;
	if (!may_hint(buffer, count, type, destination, comm, &sending))
		return false;
	int peer = sending.comm->world_ranks[destination];
	double saved = hw_model_send_gain(sending.layout.bytes, hw_runs_pieces(&sending.runs));
	if (saved <= 0) {
		hw_context_seen(sending.context, HW_READ_SEND, sending.layout.bytes, "a message is not slower");
		hw_context_switch_off(sending.context, "a message is not slower");
		done(&sending);
		return false;
	}
	write_hint(&sending, &hint);
	if (!hw_outstanding_hint(hint.envelope.id, peer, sending.file, &sending.runs, sending.context)) {
		done(&sending);
		return false;
	}
	hint.is_verified = is_verified(&sending, hint.envelope.id, buffer, peer);
	hw_step_in();
	*result = call(&hint, (int)hw_hint_bytes(&hint), MPI_BYTE, destination, tag, comm);
	hw_step_out();
	hw_context_transformed(sending.context, HW_READ_SEND, sending.layout.bytes, saved);
	done(&sending);
	hw_outstanding_poll();
	return true;
}

void hw_before_send(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (hw_is_busy && hw_depth == 0) {
		hw_sends();
		hw_in(buffer, count, type);
	}
}

/* Those who wait for an answer of this rank get it while it sends. */
static int send_and_answer(send_call call, const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag,
			   MPI_Comm comm)
{
	MPI_Request request;
	int is_done = 0;
	int result = (call == hw_real.MPI_Ssend ? hw_real.MPI_Issend : hw_real.MPI_Isend)(buffer, (int)count, type,
											  destination, tag, comm, &request);
	while (result == MPI_SUCCESS && !is_done) {
		result = hw_real.MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
		if (!is_done && result == MPI_SUCCESS) {
			hw_outstanding_poll();
			hw_pause();
		}
	}
	return result;
}

static int send_or_not(send_call call, const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag,
		MPI_Comm comm)
{
	int result;
	if (hw_depth == 0 && hw_mode != HW_OFF) {
		if (hw_is_busy && hint_instead(call, buffer, count, type, destination, tag, comm, &result))
			return result;
		if (hw_left_is_near(&hw_left_reads, buffer))
			hw_left_passed_on(HW_READ_SEND, buffer, hw_type_bytes(count, type));
		hw_before_send(buffer, count, type);
		if (hw_mode == HW_OBSERVE)
			hw_observe_send(buffer, count, type);
		else if (hw_offer_instead(call == hw_real.MPI_Ssend, buffer, count, type, destination, tag, comm, &result))
			return result;
	}
	hw_step_in();
	result = hw_depth == 1 && hw_outstanding_any() ? send_and_answer(call, buffer, count, type, destination, tag, comm)
						       : call(buffer, (int)count, type, destination, tag, comm);
	hw_step_out();
	return result;
}

/* Apart, and last, so that a message that passes is a jump to MPI. */
__attribute__((noinline)) static int send_short_or_not(send_call call, const void *buffer, int count, MPI_Datatype type,
						       int destination, int tag, MPI_Comm comm)
{
	if (hw_is_short(count, type)) {
		hw_pass_from_now_on(type);
		return HW_INSIDE(call(buffer, count, type, destination, tag, comm));
	}
	return send_or_not(call, buffer, count, type, destination, tag, comm);
}

int hw_MPI_Send(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
	if (hw_passes(count, type))
		return ((send_call)hw_quick.send)(buffer, count, type, destination, tag, comm);
	return send_short_or_not(hw_real.MPI_Send, buffer, count, type, destination, tag, comm);
}

int hw_MPI_Ssend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
	return send_short_or_not(hw_real.MPI_Ssend, buffer, count, type, destination, tag, comm);
}

typedef int (*isend_call)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int start_send(isend_call call, const void *buffer, int count, MPI_Datatype type, int destination, int tag,
		      MPI_Comm comm, MPI_Request *request)
{
	if (hw_is_short(count, type)) {
		hw_pass_from_now_on(type);
		return HW_INSIDE(call(buffer, count, type, destination, tag, comm, request));
	}
	struct sending sending;
	if (hw_is_busy && hw_depth == 0 && may_hint(buffer, count, type, destination, comm, &sending)) {
		/* The hint lives as long as the request. */
		double saved = hw_model_send_gain(sending.layout.bytes, hw_runs_pieces(&sending.runs));
		struct hw_hint *hint = saved > 0 ? malloc(sizeof(*hint)) : NULL;
		if (hint)
			write_hint(&sending, hint);
		int peer = sending.comm->world_ranks[destination];
		if (hint && !hw_outstanding_hint(hint->envelope.id, peer, sending.file, &sending.runs, sending.context)) {
			free(hint);
			hint = NULL;
		}
		if (hint) {
			hw_step_in();
			int result = call(hint, (int)hw_hint_bytes(hint), MPI_BYTE, destination, tag, comm, request);
			hw_step_out();
			if (result == MPI_SUCCESS)
				hw_requests_own(*request, hint);
			hw_context_transformed(sending.context, HW_READ_SEND, sending.layout.bytes, saved);
			done(&sending);
			return result;
		}
		done(&sending);
	}
	if (hw_mode != HW_OFF && hw_depth == 0 && hw_left_is_near(&hw_left_reads, buffer))
		hw_left_passed_on(HW_READ_SEND, buffer, hw_type_bytes(count, type));
	if (hw_is_busy && hw_depth == 0) {
		hw_outstanding_poll();
		hw_in(buffer, count, type);
	}
	int result;
	struct hw_offered *offered = NULL;
	if (hw_mode == HW_OBSERVE)
		hw_observe_send(buffer, count, type);
	else if (hw_mode != HW_OFF && hw_depth == 0)
		offered = hw_offer_start(call == hw_real.MPI_Issend, buffer, count, type, destination, tag, comm, request,
					 &result);
	if (offered) {
		hw_requests_offered(*request, offered);
		return result;
	}
	hw_step_in();
	result = call(buffer, count, type, destination, tag, comm, request);
	hw_step_out();
	return result;
}

int hw_MPI_Isend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
		 MPI_Request *request)
{
	if (hw_passes(count, type))
		return ((isend_call)hw_quick.send_later)(buffer, count, type, destination, tag, comm, request);
	return start_send(hw_real.MPI_Isend, buffer, count, type, destination, tag, comm, request);
}

int hw_MPI_Issend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
		  MPI_Request *request)
{
	return start_send(hw_real.MPI_Issend, buffer, count, type, destination, tag, comm, request);
}
