/*
 * Receives that may get a hint are tracked from their start to the call that completes them, in a hash table by handle.
 * Other requests cost a look at an empty table.
 */
#include "requests.h"

#include <stdlib.h>
#include <string.h>

#include "../generated-calls.h"
#include "../memory/deferred.h"
#include "envelope.h"
#include "incoming.h"
#include "match.h"
#include "../exchange/held.h"
#include "offer.h"
#include "outstanding.h"
#include "real.h"
#include "receive.h"

#define BUCKETS 1024

enum kind { RECEIVE, OWNED, PERSISTENT_RECEIVE, PERSISTENT_SEND, MATCHED, OFFERED };

struct tracked {
	MPI_Request request;
	enum kind kind;
	void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	bool is_own_type;
	MPI_Comm comm;
	bool is_active;
	/* Its data has been seen to, by MPI_Request_get_status; so many bytes there are. */
	bool is_seen;
	MPI_Count bytes;
	struct hw_matched matched;
	struct hw_offered *offered;
	struct tracked *next;
};

static struct tracked *buckets[BUCKETS];
static size_t tracked_count, receiving_count;
/* How many of them have completed together, and are seen to one after the other. */
static size_t batch_count;

static struct tracked **place_of(MPI_Request request)
{
	uintptr_t hash = (uintptr_t)request;
	struct tracked **link = &buckets[(hash ^ hash >> 6 ^ hash >> 14) % BUCKETS];
	while (*link && (*link)->request != request)
		link = &(*link)->next;
	return link;
}

static struct tracked *find(MPI_Request request)
{
	if (tracked_count == 0 || request == MPI_REQUEST_NULL)
		return NULL;
	hw_enter();
	struct tracked *found = *place_of(request);
	hw_leave();
	return found;
}

static void track(const struct tracked *what)
{
	struct tracked *one = malloc(sizeof(*one));
	if (!one)
		abort();
	hw_enter();
	*one = *what;
	/* A type may be freed while the request is on its way. */
	if (one->kind != OWNED && one->kind != OFFERED) {
		hw_depth++;
		one->is_own_type = hw_basic_bytes(what->type) == 0 &&
				   hw_real.MPI_Type_dup(what->type, &one->type) == MPI_SUCCESS;
		hw_depth--;
	}
	struct tracked **link = place_of(what->request);
	one->next = *link;
	*link = one;
	tracked_count++;
	receiving_count += one->kind == RECEIVE;
	hw_leave();
}

static void free_tracked(struct tracked *one)
{
	if (one->kind == OFFERED) {
		hw_offer_free(one->offered);
	} else if (one->kind == OWNED) {
		free(one->buffer);
	} else if (one->is_own_type) {
		hw_depth++;
		hw_real.MPI_Type_free(&one->type);
		hw_depth--;
	}
	free(one);
}

static void forget(MPI_Request request)
{
	hw_enter();
	struct tracked **link = place_of(request), *one = *link;
	if (one) {
		*link = one->next;
		tracked_count--;
		receiving_count -= one->kind == RECEIVE || (one->kind == PERSISTENT_RECEIVE && one->is_active);
	}
	hw_leave();
	if (one)
		free_tracked(one);
}

void hw_requests_own(MPI_Request request, void *memory)
{
	struct tracked one = {.request = request, .kind = OWNED, .buffer = memory};
	if (request == MPI_REQUEST_NULL)
		free(memory);
	else
		track(&one);
}

void hw_requests_matched(MPI_Request request, void *buffer, MPI_Count count, MPI_Datatype type,
			 const struct hw_matched *matched)
{
	struct tracked one = {.request = request, .kind = MATCHED, .buffer = buffer, .count = count, .type = type,
			      .comm = MPI_COMM_NULL, .matched = *matched};
	track(&one);
}

void hw_requests_offered(MPI_Request request, struct hw_offered *offered)
{
	struct tracked one = {.request = request, .kind = OFFERED, .offered = offered};
	track(&one);
}

bool hw_requests_receiving(void)
{
	return receiving_count > 0;
}

bool hw_requests_any_arrived(void)
{
	int has_arrived = 0;
	hw_depth++;
	for (size_t i = 0; i < BUCKETS && receiving_count > 0 && !has_arrived; i++)
		for (struct tracked *one = buckets[i]; one && !has_arrived; one = one->next)
			if (one->kind == RECEIVE)
				hw_real.MPI_Request_get_status(one->request, &has_arrived, MPI_STATUS_IGNORE);
	hw_depth--;
	return has_arrived;
}

static int complete_matched(struct tracked *one, MPI_Status *status)
{
	struct hw_matched *matched = &one->matched;
	MPI_Status arrived = matched->status;
	hw_depth++;
	hw_real.MPI_Wait(&matched->sending, MPI_STATUS_IGNORE);
	hw_depth--;
	hw_real.MPI_Status_set_elements_x(&arrived, MPI_BYTE, matched->bytes);
	int result = hw_received(one->buffer, one->count, one->type, MPI_COMM_NULL, &arrived, false);
	int error = status->MPI_ERROR;
	*status = matched->status;
	status->MPI_ERROR = error;
	free(matched->content);
	return result;
}

/* A request that was `before` has completed. */
static int completed(MPI_Request before, MPI_Status *status)
{
	struct tracked *one = find(before);
	int result = MPI_SUCCESS;
	if (hw_is_exposed)
		hw_cover();
	if (!one)
		return result;
	if (one->kind == OFFERED) {
		hw_offer_progress(one->offered, true);
		forget(before);
		return result;
	}
	if (one->kind == MATCHED) {
		result = complete_matched(one, status);
		forget(before);
		return result;
	}
	if (one->is_seen) {
		hw_real.MPI_Status_set_elements_x(status, MPI_BYTE, one->bytes);
		forget(before);
		return result;
	}
	struct tracked copy = *one;
	bool is_receive = copy.kind == RECEIVE || (copy.kind == PERSISTENT_RECEIVE && copy.is_active);
	if (copy.kind == PERSISTENT_RECEIVE || copy.kind == PERSISTENT_SEND) {
		hw_enter();
		receiving_count -= copy.kind == PERSISTENT_RECEIVE && copy.is_active;
		one->is_active = false;
		hw_leave();
	}
	int is_cancelled = 0;
	if (is_receive && hw_real.MPI_Test_cancelled(status, &is_cancelled) == MPI_SUCCESS && !is_cancelled &&
	    status->MPI_SOURCE >= 0)
		result = hw_received(copy.buffer, copy.count, copy.type, copy.comm, status, receiving_count <= batch_count + 1);
	if (copy.kind == RECEIVE || copy.kind == OWNED)
		forget(before);
	return result;
}

static int receive(int (*call)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *), void *buffer, int count,
		   MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request, enum kind kind)
{
	bool is_shared = false;
	if (hw_depth == 0 && hw_mode != HW_OFF) {
		hw_before_receive(buffer, count, type);
		is_shared = hw_match_is_shared();
		hw_match_lock(is_shared);
		if (kind == RECEIVE && hw_match_request(buffer, count, type, source, tag, comm, is_shared, request))
			return MPI_SUCCESS;
	}
	hw_depth++;
	int result = call(buffer, count, type, source, tag, comm, request);
	hw_depth--;
	hw_match_unlock(is_shared);
	if (result != MPI_SUCCESS || hw_mode == HW_OFF || hw_depth > 0 || source == MPI_PROC_NULL ||
	    hw_type_bytes(count, type) < hw_bytes_min)
		return result;
	struct tracked one = {.request = *request, .kind = kind, .buffer = buffer, .count = count, .type = type,
			      .comm = comm};
	track(&one);
	return result;
}

int hw_MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
	if (hw_is_short(count, type))
		return HW_INSIDE(hw_real.MPI_Irecv(buffer, count, type, source, tag, comm, request));
	return receive(hw_real.MPI_Irecv, buffer, count, type, source, tag, comm, request, RECEIVE);
}

int hw_MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		     MPI_Request *request)
{
	return receive(hw_real.MPI_Recv_init, buffer, count, type, source, tag, comm, request, PERSISTENT_RECEIVE);
}

typedef int (*send_init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int init_send(send_init call, const void *buffer, int count, MPI_Datatype type, int destination, int tag,
		     MPI_Comm comm, MPI_Request *request)
{
	hw_depth++;
	int result = call(buffer, count, type, destination, tag, comm, request);
	hw_depth--;
	if (result != MPI_SUCCESS || hw_mode == HW_OFF || hw_depth > 0)
		return result;
	struct tracked one = {.request = *request, .kind = PERSISTENT_SEND, .buffer = (void *)(uintptr_t)buffer,
			      .count = count, .type = type, .comm = comm};
	track(&one);
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

static void before_start(MPI_Request request)
{
	struct tracked *one = find(request);
	if (!one)
		return;
	if (one->kind == PERSISTENT_SEND) {
		hw_in(one->buffer, one->count, one->type);
	} else if (one->kind == PERSISTENT_RECEIVE) {
		hw_out(one->buffer, one->count, one->type);
		hw_enter();
		receiving_count += !one->is_active;
		one->is_active = true;
		hw_leave();
	}
}

int hw_MPI_Start(MPI_Request *request)
{
	if (hw_depth == 0 && tracked_count > 0) {
		hw_communicates();
		before_start(*request);
	}
	bool is_shared = hw_depth == 0 && hw_match_is_shared();
	hw_match_lock(is_shared);
	hw_depth++;
	int result = hw_real.MPI_Start(request);
	hw_depth--;
	hw_match_unlock(is_shared);
	return result;
}

int hw_MPI_Startall(int count, MPI_Request requests[])
{
	if (hw_depth == 0 && tracked_count > 0) {
		hw_communicates();
		for (int i = 0; i < count; i++)
			before_start(requests[i]);
	}
	bool is_shared = hw_depth == 0 && hw_match_is_shared();
	hw_match_lock(is_shared);
	hw_depth++;
	int result = hw_real.MPI_Startall(count, requests);
	hw_depth--;
	hw_match_unlock(is_shared);
	return result;
}

/* Whether a call that waits has anything of ours to look after. */
static bool is_plain(void)
{
	return (tracked_count == 0 && !hw_is_busy) || hw_depth > 0 || hw_mode == HW_OFF ||
	       (tracked_count == 0 && !hw_outstanding_any() && !hw_held_any());
}

/* Between two looks at what the program waits for. */
static void meanwhile(void)
{
	hw_outstanding_poll();
	hw_held_poll();
	hw_pause();
}

/*
 * Whether a request's offer, if it is one, has ended. Those who wait for other requests too don't keep a receiver
 * waiting.
 */
static bool is_offer_over(MPI_Request request, bool is_alone)
{
	struct tracked *one = find(request);
	if (!one || one->kind != OFFERED)
		return true;
	if (is_alone)
		hw_offer_progress_all();
	else
		hw_offer_release();
	return hw_offer_progress(one->offered, false);
}

static bool are_offers_over(int count, const MPI_Request requests[])
{
	bool are_all = true, are_over = true;
	for (int i = 0; i < count && hw_offer_any(); i++) {
		struct tracked *one = find(requests[i]);
		are_all = are_all && (requests[i] == MPI_REQUEST_NULL || (one && one->kind == OFFERED));
	}
	for (int i = 0; i < count && hw_offer_any(); i++)
		are_over = is_offer_over(requests[i], are_all) && are_over;
	return are_over;
}

int hw_MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	if (is_plain())
		return hw_real.MPI_Test(request, flag, status);
	MPI_Request before = *request;
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	if (!is_offer_over(before, true)) {
		*flag = 0;
		return MPI_SUCCESS;
	}
	hw_depth++;
	int result = hw_real.MPI_Test(request, flag, kept);
	hw_depth--;
	hw_outstanding_poll();
	return result == MPI_SUCCESS && *flag ? completed(before, kept) : result;
}

int hw_MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	int flag = 0, result = MPI_SUCCESS;
	if (is_plain())
		return hw_real.MPI_Wait(request, status);
	if (hw_outstanding_any() || hw_offer_any() || hw_held_any()) {
		while (result == MPI_SUCCESS && !flag) {
			result = hw_MPI_Test(request, &flag, status);
			if (!flag && result == MPI_SUCCESS)
				meanwhile();
		}
		return result;
	}
	MPI_Request before = *request;
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	hw_depth++;
	result = hw_real.MPI_Wait(request, kept);
	hw_depth--;
	return result == MPI_SUCCESS ? completed(before, kept) : result;
}

/* Handles and statuses of a call on several requests: small numbers of them need no allocation. */
struct several {
	MPI_Request *before;
	MPI_Status *statuses;
	MPI_Request few[32];
	MPI_Status own[32];
	void *allocated;
};

static bool prepare(struct several *several, int count, const MPI_Request requests[], MPI_Status statuses[])
{
	several->allocated = NULL;
	several->before = several->few;
	several->statuses = statuses == MPI_STATUSES_IGNORE ? several->own : statuses;
	if (count > 32) {
		several->allocated = malloc((size_t)count * (sizeof(MPI_Request) + sizeof(MPI_Status)));
		if (!several->allocated)
			return false;
		if (statuses == MPI_STATUSES_IGNORE)
			several->statuses = several->allocated;
		several->before = (MPI_Request *)((MPI_Status *)several->allocated + count);
	}
	if (count > 0)
		memcpy(several->before, requests, (size_t)count * sizeof(*requests));
	return true;
}

/* Those of a call on all of them that has succeeded. */
static int complete_all(struct several *several, int count)
{
	int result = MPI_SUCCESS;
	for (int i = 0; i < count; i++) {
		const struct tracked *one = find(several->before[i]);
		batch_count += one && one->kind == RECEIVE;
	}
	for (int i = 0; i < count; i++) {
		const struct tracked *tracked = find(several->before[i]);
		batch_count -= tracked && tracked->kind == RECEIVE;
		int one = completed(several->before[i], &several->statuses[i]);
		result = one == MPI_SUCCESS ? result : one;
	}
	return result;
}

int hw_MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	struct several several;
	if (is_plain() || !prepare(&several, count, requests, statuses))
		return hw_real.MPI_Testall(count, requests, flag, statuses);
	if (!are_offers_over(count, requests)) {
		*flag = 0;
		free(several.allocated);
		return MPI_SUCCESS;
	}
	hw_depth++;
	int result = hw_real.MPI_Testall(count, requests, flag, several.statuses);
	hw_depth--;
	hw_outstanding_poll();
	if (result == MPI_SUCCESS && *flag)
		result = complete_all(&several, count);
	free(several.allocated);
	return result;
}

int hw_MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
	struct several several;
	int result = MPI_SUCCESS, flag = 0;
	if (is_plain())
		return hw_real.MPI_Waitall(count, requests, statuses);
	if (hw_outstanding_any() || hw_offer_any() || hw_held_any()) {
		while (result == MPI_SUCCESS && !flag) {
			result = hw_MPI_Testall(count, requests, &flag, statuses);
			if (!flag && result == MPI_SUCCESS)
				meanwhile();
		}
		return result;
	}
	if (!prepare(&several, count, requests, statuses))
		return hw_real.MPI_Waitall(count, requests, statuses);
	hw_depth++;
	result = hw_real.MPI_Waitall(count, requests, several.statuses);
	hw_depth--;
	if (result == MPI_SUCCESS)
		result = complete_all(&several, count);
	free(several.allocated);
	return result;
}

int hw_MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
	struct several several;
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	if (is_plain() || !prepare(&several, count, requests, MPI_STATUSES_IGNORE))
		return hw_real.MPI_Testany(count, requests, index, flag, status);
	are_offers_over(count, requests);
	hw_depth++;
	int result = hw_real.MPI_Testany(count, requests, index, flag, kept);
	hw_depth--;
	hw_outstanding_poll();
	if (result == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED)
		result = completed(several.before[*index], kept);
	free(several.allocated);
	return result;
}

int hw_MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
	int result = MPI_SUCCESS, flag = 0;
	if (is_plain())
		return hw_real.MPI_Waitany(count, requests, index, status);
	while (result == MPI_SUCCESS && !flag) {
		result = hw_MPI_Testany(count, requests, index, &flag, status);
		if (!flag && result == MPI_SUCCESS)
			meanwhile();
	}
	return result;
}

int hw_MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	struct several several;
	if (is_plain() || !prepare(&several, count, requests, statuses))
		return hw_real.MPI_Testsome(count, requests, done, indices, statuses);
	are_offers_over(count, requests);
	hw_depth++;
	int result = hw_real.MPI_Testsome(count, requests, done, indices, several.statuses);
	hw_depth--;
	hw_outstanding_poll();
	for (int i = 0; result == MPI_SUCCESS && *done != MPI_UNDEFINED && i < *done; i++)
		result = completed(several.before[indices[i]], &several.statuses[i]);
	free(several.allocated);
	return result;
}

int hw_MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	int result = MPI_SUCCESS;
	if (is_plain())
		return hw_real.MPI_Waitsome(count, requests, done, indices, statuses);
	do {
		result = hw_MPI_Testsome(count, requests, done, indices, statuses);
		if (*done == 0 && result == MPI_SUCCESS)
			meanwhile();
	} while (result == MPI_SUCCESS && *done == 0);
	return result;
}

int hw_MPI_Request_free(MPI_Request *request)
{
	MPI_Request before = *request;
	struct tracked *one = find(before);
	/* Nobody will wait for it: whoever wants its data gets it. */
	if (one && one->kind == OFFERED)
		hw_offer_release();
	hw_depth++;
	int result = hw_real.MPI_Request_free(request);
	hw_depth--;
	/* A hint that is on its way keeps its memory; what a receive gets then is never looked at. */
	one = result == MPI_SUCCESS ? one : NULL;
	if (one && one->kind == OWNED)
		one->buffer = NULL;
	if (one)
		forget(before);
	return result;
}

int hw_MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	struct tracked *one = is_plain() ? NULL : find(request);
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	hw_depth++;
	int result = hw_real.MPI_Request_get_status(request, flag, kept);
	hw_depth--;
	if (result != MPI_SUCCESS || !one || !*flag)
		return result;
	if (one->kind == MATCHED) {
		int error = kept->MPI_ERROR;
		*kept = one->matched.status;
		kept->MPI_ERROR = error;
	} else if (one->is_seen) {
		hw_real.MPI_Status_set_elements_x(kept, MPI_BYTE, one->bytes);
	} else if (one->kind == RECEIVE && kept->MPI_SOURCE >= 0) {
		result = hw_received(one->buffer, one->count, one->type, one->comm, kept, false);
		int bytes = 0;
		hw_real.MPI_Get_count(kept, MPI_BYTE, &bytes);
		one->is_seen = true;
		one->bytes = bytes;
	}
	return result;
}
