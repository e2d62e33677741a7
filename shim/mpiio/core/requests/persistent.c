/* Requests that are started again and again. */
#include "../generated-calls.h"
#include "../patterns/receive.h"
#include "match.h"
#include "real.h"
#include "tracked.h"

int hw_MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		     MPI_Request *request)
{
	if (hw_depth == 0 && hw_mode != HW_OFF)
		hw_before_receive(buffer, count, type);
	hw_step_in();
	int result = hw_real.MPI_Recv_init(buffer, count, type, source, tag, comm, request);
	hw_step_out();
	if (result != MPI_SUCCESS || hw_mode == HW_OFF || hw_depth > 0 || source == MPI_PROC_NULL)
		return result;
	struct hw_tracked one = {.request = *request, .kind = HW_PERSISTENT_RECEIVE, .buffer = buffer, .count = count,
				 .type = type, .comm = comm, .source = source, .tag = tag};
	hw_tracked_add(&one);
	return result;
}

typedef int (*send_init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int init_send(send_init call, const void *buffer, int count, MPI_Datatype type, int destination, int tag,
		     MPI_Comm comm, MPI_Request *request)
{
	hw_step_in();
	int result = call(buffer, count, type, destination, tag, comm, request);
	hw_step_out();
	if (result != MPI_SUCCESS || hw_mode == HW_OFF || hw_depth > 0)
		return result;
	struct hw_tracked one = {.request = *request, .kind = HW_PERSISTENT_SEND, .buffer = (void *)(uintptr_t)buffer,
			      .count = count, .type = type, .comm = comm};
	hw_tracked_add(&one);
	return result;
}

#define SEND_INIT(name)                                                                                                \
	int hw_##name(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,        \
		      MPI_Request *request)                                                                            \
	{                                                                                                              \
		return init_send(hw_real.name, buffer, count, type, destination, tag, comm, request);                  \
	}

SEND_INIT(MPI_Send_init)
SEND_INIT(MPI_Ssend_init)
SEND_INIT(MPI_Bsend_init)
SEND_INIT(MPI_Rsend_init)

/* A message that a probe has taken is received here and now; to MPI the request remains one that hasn't started. */
static bool deliver(struct hw_tracked *one, bool is_shared)
{
	int result;
	MPI_Status status;
	if (!hw_match_taken(one->buffer, one->count, one->type, one->source, one->tag, one->comm, &status, is_shared, &result))
		return false;
	one->is_delivered = true;
	one->status = status;
	one->result = result;
	return true;
}

int hw_MPI_Start(MPI_Request *request)
{
	struct hw_tracked *one = hw_depth == 0 ? hw_tracked_find(*request) : NULL;
	if (hw_depth == 0 && hw_tracked_any())
		hw_communicates();
	if (one && one->kind == HW_PERSISTENT_SEND)
		hw_in(one->buffer, one->count, one->type);
	bool is_receive = one && one->kind == HW_PERSISTENT_RECEIVE;
	if (is_receive)
		hw_before_receive(one->buffer, one->count, one->type);
	bool is_shared = hw_depth == 0 && hw_match_is_shared();
	hw_match_lock(is_shared);
	if (is_receive && deliver(one, is_shared))
		return MPI_SUCCESS;
	/* In little room there is none of ours. */
	if (is_receive)
		hw_tracked_activate(one, hw_type_bytes(one->count, one->type) >= hw_bytes_min);
	hw_step_in();
	int result = hw_real.MPI_Start(request);
	hw_step_out();
	hw_match_unlock(is_shared);
	return result;
}

int hw_MPI_Startall(int count, MPI_Request requests[])
{
	int result = MPI_SUCCESS;
	if (hw_depth > 0 || !hw_tracked_any() || count <= 0)
		return HW_INSIDE(hw_real.MPI_Startall(count, requests));
	for (int i = 0; i < count && result == MPI_SUCCESS; i++)
		result = hw_MPI_Start(&requests[i]);
	return result;
}
