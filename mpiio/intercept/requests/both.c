/* Calls that send and receive at once. */
#include <limits.h>
#include <stdlib.h>

#include "intercept/generated-calls.h"
#include "base/left.h"
#include "mpi/typed.h"
#include "transfer/envelope.h"
#include "transfer/outstanding.h"
#include "intercept/messages/receive.h"
#include "intercept/messages/send.h"
#include "intercept/requests/match.h"
#include "real.h"
#include "intercept/requests/requests.h"

/* Records that what was read is sent as it is. */
static void note_left(const void *buffer, int count, MPI_Datatype type)
{
	hwio_left_forwarded(HWIO_READ_SEND, buffer, hwio_type_bytes(count, type));
}

/* The arguments of such a call. */
struct both {
	const void *send;
	int send_count;
	MPI_Datatype send_type;
	int destination, send_tag;
	void *receive;
	int receive_count;
	MPI_Datatype receive_type;
	int source, receive_tag;
	MPI_Comm comm;
};

/* Waits for the request, and answers meanwhile the ranks that wait for this one. */
static int wait_and_answer(MPI_Request *request, MPI_Status *status)
{
	int is_done = 0, result = MPI_SUCCESS;
	while (result == MPI_SUCCESS && !is_done && hwio_outstanding_any()) {
		result = hwio_real.MPI_Test(request, &is_done, status);
		if (!is_done && result == MPI_SUCCESS) {
			hwio_outstanding_poll();
			hwio_pause();
		}
	}
	return is_done || result != MPI_SUCCESS ? result : hwio_real.MPI_Wait(request, status);
}

/* Makes two calls. The receive is first: from then on no other thread's probe gets its message. `is_sent`: whether the
 * send was begun. */
static int send_and_receive(const struct both *b, bool is_shared, MPI_Status *status, bool *is_sent)
{
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	MPI_Request sending, receiving;
	int received = MPI_SUCCESS, sent = MPI_SUCCESS;
	hwio_match_lock(is_shared);
	struct hwio_probed *one = hwio_match_claim(b->source, b->receive_tag, b->comm);
	hwio_step_in();
	if (!one)
		received = hwio_real.MPI_Irecv(b->receive, b->receive_count, b->receive_type, b->source, b->receive_tag,
			b->comm, &receiving);
	hwio_match_unlock(is_shared);
	if (received == MPI_SUCCESS)
		sent = hwio_real.MPI_Isend(b->send, b->send_count, b->send_type, b->destination, b->send_tag, b->comm,
			&sending);
	*is_sent = received == MPI_SUCCESS && sent == MPI_SUCCESS;
	if (!one && sent != MPI_SUCCESS && b->source != MPI_PROC_NULL)
		hwio_real.MPI_Cancel(&receiving);
	hwio_step_out();
	if (one)
		received = hwio_match_deliver(one, b->receive, b->receive_count, b->receive_type, status);
	hwio_step_in();
	if (!one && received == MPI_SUCCESS)
		received = wait_and_answer(&receiving, actual);
	if (*is_sent)
		sent = wait_and_answer(&sending, MPI_STATUS_IGNORE);
	hwio_step_out();
	if (sent != MPI_SUCCESS)
		return sent;
	if (!one && received == MPI_SUCCESS && b->source != MPI_PROC_NULL)
		received = hwio_received(b->receive, b->receive_count, b->receive_type, b->comm, actual, false);
	return received;
}

/* The same with a hint in place of what is sent; frees it. */
static int hint_and_receive(struct both *b, struct hwio_hint *hint, MPI_Status *status)
{
	b->send = hint;
	b->send_count = (int)hwio_hint_bytes(hint);
	b->send_type = MPI_BYTE;
	hwio_before_receive(b->receive, b->receive_count, b->receive_type);
	bool is_sent;
	int result = send_and_receive(b, hwio_match_is_shared(), status, &is_sent);
	if (is_sent)
		free(hint);
	else
		hwio_hint_cancel(hint, b->destination, b->comm);
	return result;
}

int hwio_MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int destination, int send_tag,
	void *receive, int receive_count, MPI_Datatype receive_type, int source, int receive_tag, MPI_Comm comm,
	MPI_Status *status)
{
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	bool is_short = hwio_is_short(send_count, send_type) && hwio_is_short(receive_count, receive_type);
	if (is_short || hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return HWIO_INSIDE(hwio_real.MPI_Sendrecv(send, send_count, send_type, destination, send_tag, receive,
			receive_count, receive_type, source, receive_tag, comm, status));
	struct both both = {send, send_count, send_type, destination, send_tag, receive, receive_count, receive_type,
		source, receive_tag, comm};
	hwio_before_send(NULL, 0, MPI_BYTE);
	hwio_outstanding_settle();
	struct hwio_hint *hint = hwio_hint_for(send, send_count, send_type, destination, send_tag, comm);
	if (hint)
		return hint_and_receive(&both, hint, status);
	hwio_before_send(send, send_count, send_type);
	note_left(send, send_count, send_type);
	hwio_before_receive(receive, receive_count, receive_type);
	bool is_shared = hwio_match_is_shared(), is_sent;
	if (is_shared || hwio_match_is_probed(source, receive_tag, comm, MPI_STATUS_IGNORE))
		return send_and_receive(&both, is_shared, status, &is_sent);
	int result = HWIO_INSIDE(hwio_real.MPI_Sendrecv(send, send_count, send_type, destination, send_tag, receive,
		receive_count, receive_type, source, receive_tag, comm, actual));
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		result = hwio_received(receive, receive_count, receive_type, comm, actual, false);
	return result;
}

/* Returns a copy of the data as bytes; NULL if there can't be one. */
static char *copy_of(const void *buffer, int count, MPI_Datatype type, size_t *bytes)
{
	*bytes = hwio_type_bytes(count, type);
	char *copy = *bytes <= INT_MAX ? malloc(*bytes + 1) : NULL;
	if (copy && hwio_typed_read(buffer, count, type, copy, *bytes) == MPI_SUCCESS)
		return copy;
	free(copy);
	return NULL;
}

int hwio_MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int destination, int send_tag, int source,
	int receive_tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Sendrecv_replace(buffer, count, type, destination, send_tag, source, receive_tag,
			comm, status);
	struct both hinted = {
		buffer, count, type, destination, send_tag, buffer, count, type, source, receive_tag, comm};
	hwio_before_send(NULL, 0, MPI_BYTE);
	hwio_outstanding_settle();
	struct hwio_hint *hint = hwio_hint_for(buffer, count, type, destination, send_tag, comm);
	if (hint)
		return hint_and_receive(&hinted, hint, status);
	hwio_before_send(buffer, count, type);
	note_left(buffer, count, type);
	bool is_shared = hwio_match_is_shared(), is_sent;
	bool is_apart = is_shared || hwio_match_is_probed(source, receive_tag, comm, MPI_STATUS_IGNORE);
	size_t bytes = 0;
	char *copy = is_apart ? copy_of(buffer, count, type, &bytes) : NULL;
	if (copy) {
		struct both both = {copy, (int)bytes, MPI_BYTE, destination, send_tag, buffer, count, type, source,
			receive_tag, comm};
		int result = send_and_receive(&both, is_shared, status, &is_sent);
		free(copy);
		return result;
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Sendrecv_replace(buffer, count, type, destination, send_tag, source,
		receive_tag, comm, actual));
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		result = hwio_received(buffer, count, type, comm, actual, false);
	return result;
}

/* Sends, and delivers a claimed message; `memory` (or NULL) has the data to send, and is freed when the request
 * completes. */
static int send_and_deliver(const struct both *b, void *memory, struct hwio_probed *one, MPI_Request *request)
{
	MPI_Status status;
	int sent = HWIO_INSIDE(hwio_real.MPI_Isend(b->send, b->send_count, b->send_type, b->destination, b->send_tag,
		b->comm, request));
	int received = hwio_match_deliver(one, b->receive, b->receive_count, b->receive_type, &status);
	if (sent == MPI_SUCCESS)
		hwio_requests_delivered(*request, memory, &status, received);
	return sent;
}

int hwio_MPI_Isendrecv(const void *send, int send_count, MPI_Datatype send_type, int destination, int send_tag,
	void *receive, int receive_count, MPI_Datatype receive_type, int source, int receive_tag, MPI_Comm comm,
	MPI_Request *request)
{
	bool is_short = hwio_is_short(send_count, send_type) && hwio_is_short(receive_count, receive_type);
	if (is_short || hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return HWIO_INSIDE(hwio_real.MPI_Isendrecv(send, send_count, send_type, destination, send_tag, receive,
			receive_count, receive_type, source, receive_tag, comm, request));
	hwio_before_send(send, send_count, send_type);
	hwio_before_receive(receive, receive_count, receive_type);
	bool is_shared = hwio_match_is_shared();
	hwio_match_lock(is_shared);
	struct hwio_probed *one = hwio_match_claim(source, receive_tag, comm);
	if (one) {
		struct both both = {send, send_count, send_type, destination, send_tag, receive, receive_count,
			receive_type, source, receive_tag, comm};
		hwio_match_unlock(is_shared);
		return send_and_deliver(&both, NULL, one, request);
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Isendrecv(send, send_count, send_type, destination, send_tag, receive,
		receive_count, receive_type, source, receive_tag, comm, request));
	hwio_match_unlock(is_shared);
	if (result == MPI_SUCCESS)
		hwio_requests_receive(*request, true, receive, receive_count, receive_type, source, comm);
	return result;
}

int hwio_MPI_Isendrecv_replace(void *buffer, int count, MPI_Datatype type, int destination, int send_tag, int source,
	int receive_tag, MPI_Comm comm, MPI_Request *request)
{
	if (hwio_is_short(count, type) || hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return HWIO_INSIDE(hwio_real.MPI_Isendrecv_replace(buffer, count, type, destination, send_tag, source,
			receive_tag, comm, request));
	hwio_before_send(buffer, count, type);
	hwio_before_receive(buffer, count, type);
	bool is_shared = hwio_match_is_shared();
	hwio_match_lock(is_shared);
	size_t bytes = 0;
	char *copy = hwio_match_is_probed(source, receive_tag, comm, MPI_STATUS_IGNORE)
		? copy_of(buffer, count, type, &bytes)
		: NULL;
	if (copy) {
		struct both both = {copy, (int)bytes, MPI_BYTE, destination, send_tag, buffer, count, type, source,
			receive_tag, comm};
		struct hwio_probed *one = hwio_match_claim(source, receive_tag, comm);
		hwio_match_unlock(is_shared);
		return send_and_deliver(&both, copy, one, request);
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Isendrecv_replace(buffer, count, type, destination, send_tag, source,
		receive_tag, comm, request));
	hwio_match_unlock(is_shared);
	if (result == MPI_SUCCESS)
		hwio_requests_receive(*request, true, buffer, count, type, source, comm);
	return result;
}
