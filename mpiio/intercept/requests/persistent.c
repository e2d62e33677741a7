/* Persistent requests. */
#include "base/left.h"
#include "intercept/generated-calls.h"
#include "intercept/messages/pack.h"
#include "intercept/messages/receive.h"
#include "intercept/requests/match.h"
#include "real.h"
#include "intercept/requests/tracked.h"

int hwio_MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	MPI_Request *request)
{
	if (hwio_depth == 0 && hwio_mode != HWIO_OFF)
		hwio_before_receive(buffer, count, type);
	int result = HWIO_INSIDE(hwio_real.MPI_Recv_init(buffer, count, type, source, tag, comm, request));
	if (result != MPI_SUCCESS || hwio_mode == HWIO_OFF || hwio_depth > 0 || source == MPI_PROC_NULL)
		return result;
	struct hwio_tracked one = {.request = *request,
		.kind = HWIO_PERSISTENT_RECEIVE,
		.buffer = buffer,
		.count = count,
		.type = type,
		.comm = comm,
		.source = source,
		.tag = tag};
	hwio_tracked_add(&one);
	return result;
}

typedef int (*send_init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int init_send(send_init call, const void *buffer, int count, MPI_Datatype type, int destination, int tag,
	MPI_Comm comm, MPI_Request *request)
{
	int result = HWIO_INSIDE(call(buffer, count, type, destination, tag, comm, request));
	if (result != MPI_SUCCESS || hwio_mode == HWIO_OFF || hwio_depth > 0)
		return result;
	struct hwio_tracked one = {.request = *request,
		.kind = HWIO_PERSISTENT_SEND,
		.buffer = (void *)(uintptr_t)buffer,
		.count = count,
		.type = type,
		.comm = comm};
	hwio_tracked_add(&one);
	return result;
}

#define SEND_INIT(name) \
	int hwio_##name(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm, \
		MPI_Request *request) \
	{ \
		return init_send(hwio_real.name, buffer, count, type, destination, tag, comm, request); \
	}

SEND_INIT(MPI_Send_init)
SEND_INIT(MPI_Ssend_init)
SEND_INIT(MPI_Bsend_init)
SEND_INIT(MPI_Rsend_init)

/* Receives a message that a probe has taken; for MPI the request hasn't started. */
static bool deliver(struct hwio_tracked *one, bool is_shared)
{
	int result;
	MPI_Status status;
	if (!hwio_match_receive(one->buffer, one->count, one->type, one->source, one->tag, one->comm, &status,
		    is_shared, &result))
		return false;
	one->is_delivered = true;
	one->status = status;
	one->result = result;
	return true;
}

/* Records that what was read, or has been deferred, is sent as it is. */
static void note_left(const struct hwio_tracked *one)
{
	size_t bytes = hwio_type_bytes(one->count, one->type);
	if (hwio_is_deferred_read(one->buffer, one->count, one->type))
		hwio_left_count(HWIO_READ_SEND, bytes, HWIO_LEFT_PERSISTENT);
	else
		hwio_left_forwarded_so(HWIO_READ_SEND, one->buffer, bytes, HWIO_LEFT_PERSISTENT);
}

int hwio_MPI_Start(MPI_Request *request)
{
	struct hwio_tracked *one = hwio_depth == 0 ? hwio_tracked_find(*request) : NULL;
	if (hwio_depth == 0 && hwio_tracked_any())
		hwio_communicates();
	if (one && one->kind == HWIO_PERSISTENT_SEND) {
		note_left(one);
		hwio_uses(one->buffer, one->count, one->type);
	}
	bool is_receive = one && one->kind == HWIO_PERSISTENT_RECEIVE;
	if (is_receive)
		hwio_before_receive(one->buffer, one->count, one->type);
	bool is_shared = hwio_depth == 0 && hwio_match_is_shared();
	hwio_match_lock(is_shared);
	if (is_receive && deliver(one, is_shared))
		return MPI_SUCCESS;
	/* A small buffer has no envelope. */
	if (is_receive)
		hwio_tracked_activate(one, hwio_type_bytes(one->count, one->type) >= hwio_bytes_min);
	int result = HWIO_INSIDE(hwio_real.MPI_Start(request));
	hwio_match_unlock(is_shared);
	return result;
}

int hwio_MPI_Startall(int count, MPI_Request requests[])
{
	int result = MPI_SUCCESS;
	if (hwio_depth > 0 || !hwio_tracked_any() || count <= 0)
		return HWIO_INSIDE(hwio_real.MPI_Startall(count, requests));
	for (int i = 0; i < count && result == MPI_SUCCESS; i++)
		result = hwio_MPI_Start(&requests[i]);
	return result;
}
