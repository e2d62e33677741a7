/* Calls that send and receive at once. */
#include <limits.h>
#include <stdlib.h>

#include "../generated-calls.h"
#include "../mpi/typed.h"
#include "../patterns/envelope.h"
#include "../patterns/outstanding.h"
#include "../patterns/receive.h"
#include "../patterns/send.h"
#include "match.h"
#include "real.h"
#include "requests.h"

/* What a call sends and receives at once. */
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

/* In two calls, of which the receive is first: from then on no other thread's probe gets its message. */
static int in_two(const struct both *b, bool is_shared, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	MPI_Request sending, receiving;
	int received = MPI_SUCCESS, sent;
	hw_match_lock(is_shared);
	struct hw_taken *one = hw_match_claim(b->source, b->receive_tag, b->comm);
	hw_step_in();
	if (!one)
		received = hw_real.MPI_Irecv(b->receive, b->receive_count, b->receive_type, b->source, b->receive_tag, b->comm,
					     &receiving);
	hw_match_unlock(is_shared);
	sent = hw_real.MPI_Isend(b->send, b->send_count, b->send_type, b->destination, b->send_tag, b->comm, &sending);
	hw_step_out();
	if (one)
		received = hw_match_deliver(one, b->receive, b->receive_count, b->receive_type, status);
	hw_step_in();
	if (!one && received == MPI_SUCCESS)
		received = hw_real.MPI_Wait(&receiving, kept);
	if (sent == MPI_SUCCESS)
		sent = hw_real.MPI_Wait(&sending, MPI_STATUS_IGNORE);
	hw_step_out();
	if (!one && received == MPI_SUCCESS && b->source != MPI_PROC_NULL)
		received = hw_received(b->receive, b->receive_count, b->receive_type, b->comm, kept, false);
	return sent == MPI_SUCCESS ? received : sent;
}

int hw_MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int destination, int send_tag,
		    void *receive, int receive_count, MPI_Datatype receive_type, int source, int receive_tag,
		    MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	bool is_short = hw_is_short(send_count, send_type) && hw_is_short(receive_count, receive_type);
	if (is_short || hw_depth > 0 || hw_mode == HW_OFF)
		return HW_INSIDE(hw_real.MPI_Sendrecv(send, send_count, send_type, destination, send_tag, receive, receive_count,
						      receive_type, source, receive_tag, comm, status));
	hw_before_send(send, send_count, send_type);
	hw_outstanding_settle();
	hw_before_receive(receive, receive_count, receive_type);
	bool is_shared = hw_match_is_shared();
	if (is_shared || hw_match_is_taken(source, receive_tag, comm, MPI_STATUS_IGNORE)) {
		struct both both = {send, send_count, send_type, destination, send_tag, receive,
				    receive_count, receive_type, source, receive_tag, comm};
		return in_two(&both, is_shared, status);
	}
	hw_step_in();
	int result = hw_real.MPI_Sendrecv(send, send_count, send_type, destination, send_tag, receive, receive_count,
					  receive_type, source, receive_tag, comm, kept);
	hw_step_out();
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		result = hw_received(receive, receive_count, receive_type, comm, kept, false);
	return result;
}

/* A copy of what is sent, as the bytes that travel; NULL if there can't be one. */
static char *copy_of(const void *buffer, int count, MPI_Datatype type, size_t *bytes)
{
	*bytes = hw_type_bytes(count, type);
	char *copy = *bytes <= INT_MAX ? malloc(*bytes + 1) : NULL;
	if (copy && hw_typed_read(buffer, count, type, copy, *bytes) == MPI_SUCCESS)
		return copy;
	free(copy);
	return NULL;
}

int hw_MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int destination, int send_tag, int source,
			    int receive_tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Sendrecv_replace(buffer, count, type, destination, send_tag, source, receive_tag, comm,
						    status);
	hw_before_send(buffer, count, type);
	hw_outstanding_settle();
	bool is_shared = hw_match_is_shared();
	bool is_apart = is_shared || hw_match_is_taken(source, receive_tag, comm, MPI_STATUS_IGNORE);
	size_t bytes = 0;
	char *copy = is_apart ? copy_of(buffer, count, type, &bytes) : NULL;
	if (copy) {
		struct both both = {copy, (int)bytes, MPI_BYTE, destination, send_tag, buffer,
				    count, type, source, receive_tag, comm};
		int result = in_two(&both, is_shared, status);
		free(copy);
		return result;
	}
	hw_step_in();
	int result = hw_real.MPI_Sendrecv_replace(buffer, count, type, destination, send_tag, source, receive_tag, comm,
						  kept);
	hw_step_out();
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		result = hw_received(buffer, count, type, comm, kept, false);
	return result;
}

#ifdef HW_HAS_MPI_Isendrecv
/* What is received was claimed; the memory, if there is any, is what is sent. */
static int send_and_deliver(const struct both *b, void *memory, struct hw_taken *one, MPI_Request *request)
{
	MPI_Status status;
	hw_step_in();
	int sent = hw_real.MPI_Isend(b->send, b->send_count, b->send_type, b->destination, b->send_tag, b->comm, request);
	hw_step_out();
	int received = hw_match_deliver(one, b->receive, b->receive_count, b->receive_type, &status);
	if (sent == MPI_SUCCESS)
		hw_requests_delivered(*request, memory, &status, received);
	return sent;
}

int hw_MPI_Isendrecv(const void *send, int send_count, MPI_Datatype send_type, int destination, int send_tag,
		     void *receive, int receive_count, MPI_Datatype receive_type, int source, int receive_tag,
		     MPI_Comm comm, MPI_Request *request)
{
	bool is_short = hw_is_short(send_count, send_type) && hw_is_short(receive_count, receive_type);
	if (is_short || hw_depth > 0 || hw_mode == HW_OFF)
		return HW_INSIDE(hw_real.MPI_Isendrecv(send, send_count, send_type, destination, send_tag, receive,
						       receive_count, receive_type, source, receive_tag, comm, request));
	hw_before_send(send, send_count, send_type);
	hw_before_receive(receive, receive_count, receive_type);
	bool is_shared = hw_match_is_shared();
	hw_match_lock(is_shared);
	struct hw_taken *one = hw_match_claim(source, receive_tag, comm);
	if (one) {
		struct both both = {send, send_count, send_type, destination, send_tag, receive,
				    receive_count, receive_type, source, receive_tag, comm};
		hw_match_unlock(is_shared);
		return send_and_deliver(&both, NULL, one, request);
	}
	hw_step_in();
	int result = hw_real.MPI_Isendrecv(send, send_count, send_type, destination, send_tag, receive, receive_count,
					   receive_type, source, receive_tag, comm, request);
	hw_step_out();
	hw_match_unlock(is_shared);
	if (result == MPI_SUCCESS)
		hw_requests_receive(*request, true, receive, receive_count, receive_type, source, comm);
	return result;
}

int hw_MPI_Isendrecv_replace(void *buffer, int count, MPI_Datatype type, int destination, int send_tag, int source,
			     int receive_tag, MPI_Comm comm, MPI_Request *request)
{
	if (hw_is_short(count, type) || hw_depth > 0 || hw_mode == HW_OFF)
		return HW_INSIDE(hw_real.MPI_Isendrecv_replace(buffer, count, type, destination, send_tag, source,
							       receive_tag, comm, request));
	hw_before_send(buffer, count, type);
	hw_before_receive(buffer, count, type);
	bool is_shared = hw_match_is_shared();
	hw_match_lock(is_shared);
	size_t bytes = 0;
	char *copy = hw_match_is_taken(source, receive_tag, comm, MPI_STATUS_IGNORE) ? copy_of(buffer, count, type, &bytes)
										      : NULL;
	if (copy) {
		struct both both = {copy, (int)bytes, MPI_BYTE, destination, send_tag, buffer,
				    count, type, source, receive_tag, comm};
		struct hw_taken *one = hw_match_claim(source, receive_tag, comm);
		hw_match_unlock(is_shared);
		return send_and_deliver(&both, copy, one, request);
	}
	hw_step_in();
	int result = hw_real.MPI_Isendrecv_replace(buffer, count, type, destination, send_tag, source, receive_tag, comm,
						   request);
	hw_step_out();
	hw_match_unlock(is_shared);
	if (result == MPI_SUCCESS)
		hw_requests_receive(*request, true, buffer, count, type, source, comm);
	return result;
}
#endif
