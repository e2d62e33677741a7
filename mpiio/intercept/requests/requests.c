/* Tracks receives that may get an envelope from their start to the call that completes them. Other requests cost a
 * look-up in an empty table. */
#include "intercept/requests/requests.h"

#include <stdlib.h>
#include <string.h>

#include "transfer/exchange/deferred_write.h"
#include "intercept/generated-calls.h"
#include "transfer/envelope.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "intercept/messages/receive.h"
#include "intercept/requests/match.h"
#include "real.h"
#include "intercept/requests/tracked.h"

/* Number of receives that completed in this thread's call and are not processed yet. */
static __thread size_t batch_count;

void hwio_requests_own(MPI_Request request, void *memory)
{
	struct hwio_tracked one = {.request = request, .kind = HWIO_OWNED, .buffer = memory};
	if (request == MPI_REQUEST_NULL)
		free(memory);
	else
		hwio_tracked_add(&one);
}

void hwio_requests_delivered(MPI_Request request, void *memory, const MPI_Status *status, int result)
{
	struct hwio_tracked one = {.request = request,
		.kind = HWIO_OWNED,
		.buffer = memory,
		.is_delivered = true,
		.status = *status,
		.result = result};
	hwio_tracked_add(&one);
}

void hwio_requests_offered(MPI_Request request, struct hwio_transfer *offered)
{
	struct hwio_tracked one = {.request = request, .kind = HWIO_OFFERED, .offered = offered};
	hwio_tracked_add(&one);
}

void hwio_requests_collective(MPI_Request request, MPI_Comm comm, int (*finish)(void *operation, bool may_defer),
	void *operation)
{
	struct hwio_tracked one = {.request = request,
		.kind = HWIO_COLLECTIVE,
		.buffer = operation,
		.comm = comm,
		.finish = finish,
		.is_active = true};
	hwio_tracked_add(&one);
}

void hwio_requests_receive(MPI_Request request, bool has_send, void *buffer, MPI_Count count, MPI_Datatype type,
	int source, MPI_Comm comm)
{
	struct hwio_tracked one = {.request = request,
		.kind = has_send ? HWIO_SEND_RECEIVE : HWIO_RECEIVE,
		.buffer = buffer,
		.count = count,
		.type = type,
		.comm = comm,
		.is_active = true};
	if (source != MPI_PROC_NULL && hwio_type_bytes(count, type) >= hwio_bytes_min)
		hwio_tracked_add(&one);
}

/* Processes a completed receive. In MPICH the status of a send and receive isn't the receive's; then, and for an empty
 * status, the buffer's content decides. */
static int process_received(const struct hwio_tracked *one, MPI_Status *status, bool may_defer)
{
	int is_cancelled = 1;
	hwio_real.MPI_Test_cancelled(status, &is_cancelled);
	if (one->kind == HWIO_SEND_RECEIVE || is_cancelled || status->MPI_SOURCE < 0)
		return hwio_received_unsized(one->buffer, one->count, one->type, one->comm, status);
	return hwio_received(one->buffer, one->count, one->type, one->comm, status, may_defer);
}

/* Finishes a completed request; `one` was claimed, or is NULL. */
static int finish_request(struct hwio_tracked *one, MPI_Status *status)
{
	int result = MPI_SUCCESS;
	if (!one)
		return result;
	struct hwio_tracked copy = *one;
	if (copy.kind == HWIO_OFFERED) {
		hwio_offer_progress(one->offered, true);
	} else if (copy.kind == HWIO_COLLECTIVE) {
		hwio_tracked_activate(one, false);
		if (!copy.is_seen)
			copy.result = copy.finish(copy.buffer, hwio_tracked_receiving() <= batch_count);
		result = copy.result == MPI_SUCCESS ? copy.result : hwio_error(copy.comm, copy.result);
	} else if (copy.is_delivered) {
		hwio_match_copy_status(&one->status, status);
		result = copy.result;
	} else if (copy.is_seen) {
		hwio_real.MPI_Status_set_elements_x(status, MPI_BYTE, one->bytes);
	} else if (copy.is_active) {
		hwio_tracked_activate(one, false);
		result = process_received(&copy, status, hwio_tracked_receiving() <= batch_count);
	}
	one->is_delivered = one->is_seen = false;
	if (copy.kind != HWIO_PERSISTENT_RECEIVE && copy.kind != HWIO_PERSISTENT_SEND) {
		hwio_tracked_forget(one);
		return result;
	}
	hwio_tracked_activate(one, false);
	hwio_tracked_release(one);
	return result;
}

__attribute__((noinline)) static int start_receive(void *buffer, int count, MPI_Datatype type, int source, int tag,
	MPI_Comm comm, MPI_Request *request)
{
	if (hwio_is_short(count, type))
		hwio_cache_short_type(type);
	if (hwio_is_short(count, type) || hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return HWIO_INSIDE(hwio_real.MPI_Irecv(buffer, count, type, source, tag, comm, request));
	hwio_before_receive(buffer, count, type);
	bool is_shared = hwio_match_is_shared();
	hwio_match_lock(is_shared);
	if (hwio_match_request(buffer, count, type, source, tag, comm, is_shared, request))
		return MPI_SUCCESS;
	int result = HWIO_INSIDE(hwio_real.MPI_Irecv(buffer, count, type, source, tag, comm, request));
	hwio_match_unlock(is_shared);
	if (result == MPI_SUCCESS)
		hwio_requests_receive(*request, false, buffer, count, type, source, comm);
	return result;
}

int hwio_MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
	if (hwio_passes(count, type))
		return ((__typeof__(hwio_real.MPI_Irecv))hwio_quick.irecv)(buffer, count, type, source, tag, comm,
			request);
	return start_receive(buffer, count, type, source, tag, comm, request);
}

/* MPI's own calls of the C library aren't the program's. While nothing is under way, none is examined, and MPI's function
 * is jumped to. */
#define DIRECTLY(call) (hwio_is_busy ? HWIO_INSIDE(call) : (call))

/* Returns true if MPI's function may be called directly. */
static bool has_nothing_pending(void)
{
	return (!hwio_tracked_any() && !hwio_is_busy) || hwio_depth > 0 || hwio_mode == HWIO_OFF ||
		(!hwio_tracked_any() && !hwio_outstanding_any() && !hwio_deferred_write_any());
}

/* Called between two checks of the request that the program waits for. */
static void poll_others(void)
{
	hwio_outstanding_poll();
	hwio_deferred_write_poll(hwio_requests_any_arrived);
	hwio_pause();
}

/* Returns true if the offers among these requests have ended. All offers are served, because their receivers may wait
 * for this rank. A sender that waits for other requests, too, doesn't delay a receiver. */
static bool are_offers_over(struct hwio_tracked *const ours[], const MPI_Request requests[], int count)
{
	int offers = 0, others = 0;
	bool are_over = true;
	for (int i = 0; i < count && hwio_offer_any(); i++) {
		bool is_offer = ours[i] && ours[i]->kind == HWIO_OFFERED;
		offers += is_offer;
		others += !is_offer && requests[i] != MPI_REQUEST_NULL;
	}
	if (offers > 0 && others > 0)
		hwio_offer_release();
	else
		hwio_offer_progress_all();
	for (int i = 0; i < count && offers > 0; i++)
		if (ours[i] && ours[i]->kind == HWIO_OFFERED)
			are_over = hwio_offer_progress(ours[i]->offered, false) && are_over;
	return are_over;
}

/* Releases all offers if it is in doubt which of two sends with one handle completes: the program may reuse either's
 * memory. */
static void resolve_twins(struct hwio_tracked *const ours[], int count)
{
	for (int i = 0; i < count && hwio_offer_any(); i++) {
		if (ours[i] && ours[i]->kind == HWIO_OFFERED && hwio_tracked_has_twin(ours[i])) {
			hwio_offer_release();
			return;
		}
	}
}

static struct hwio_tracked *claim(MPI_Request request)
{
	struct hwio_tracked *one = hwio_tracked_claim(request);
	resolve_twins(&one, 1);
	return one;
}

/* Drops a request of the program's that MPI has ended with an error. Open MPI frees persistent ones, too, and gives their
 * handles to others. */
static void fail_request(struct hwio_tracked *one, MPI_Request now)
{
	if (one && now == MPI_REQUEST_NULL && one->kind != HWIO_OWNED && one->kind != HWIO_OFFERED)
		hwio_tracked_forget(one);
	else
		hwio_tracked_release(one);
}

int hwio_MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Test(request, flag, status));
	struct hwio_tracked *one = claim(*request);
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (!are_offers_over(&one, request, 1)) {
		hwio_tracked_release(one);
		*flag = 0;
		return MPI_SUCCESS;
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Test(request, flag, actual));
	hwio_outstanding_poll();
	if (result == MPI_SUCCESS && *flag)
		return finish_request(one, actual);
	fail_request(one, *request);
	return result;
}

int hwio_MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	int flag = 0, result = MPI_SUCCESS;
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Wait(request, status));
	if (hwio_outstanding_any() || hwio_offer_any() || hwio_deferred_write_any()) {
		while (result == MPI_SUCCESS && !flag) {
			result = hwio_MPI_Test(request, &flag, status);
			if (!flag && result == MPI_SUCCESS)
				poll_others();
		}
		return result;
	}
	struct hwio_tracked *one = claim(*request);
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	result = HWIO_INSIDE(hwio_real.MPI_Wait(request, actual));
	if (result == MPI_SUCCESS)
		return finish_request(one, actual);
	fail_request(one, *request);
	return result;
}

/* The tracked ones among several requests, claimed before MPI may complete them, and their statuses. Up to 32 need no
 * allocation. */
struct several {
	struct hwio_tracked **ours;
	MPI_Status *statuses;
	struct hwio_tracked *few[32];
	MPI_Status own[32];
	void *allocated;
};

static bool claim_several(struct several *several, int count, const MPI_Request requests[], MPI_Status statuses[])
{
	several->allocated = NULL;
	several->ours = several->few;
	several->statuses = statuses == MPI_STATUSES_IGNORE ? several->own : statuses;
	if (count > 32) {
		several->allocated = malloc((size_t)count * (sizeof(struct hwio_tracked *) + sizeof(MPI_Status)));
		if (!several->allocated)
			return false;
		if (statuses == MPI_STATUSES_IGNORE)
			several->statuses = several->allocated;
		several->ours = (struct hwio_tracked **)((MPI_Status *)several->allocated + count);
	}
	for (int i = 0; i < count; i++)
		several->ours[i] = hwio_tracked_claim(requests[i]);
	resolve_twins(several->ours, count);
	return true;
}

/* Releases the requests that the call has not completed. */
static void release_several(struct several *several, int count)
{
	for (int i = 0; i < count; i++)
		hwio_tracked_release(several->ours[i]);
	free(several->allocated);
}

/* Finishes one of them. */
static int finish_at(struct several *several, int index, MPI_Status *status)
{
	struct hwio_tracked *one = several->ours[index];
	several->ours[index] = NULL;
	return finish_request(one, status);
}

/* Finishes the requests with these indices (NULL: all) after a call that returned `result`; their statuses may have
 * errors. Returns the code for the program; the statuses have the errors of single requests. */
static int finish_several(struct several *several, const MPI_Request requests[], const int indices[], int count,
	int result)
{
	int class = MPI_SUCCESS;
	bool has_failed = false;
	if (result != MPI_SUCCESS && hwio_real.MPI_Error_class(result, &class) == MPI_SUCCESS &&
		class != MPI_ERR_IN_STATUS)
		return result;
	for (int i = 0; i < count && !indices; i++)
		batch_count += several->ours[i] && several->ours[i]->is_active;
	for (int i = 0; i < count; i++) {
		int at = indices ? indices[i] : i;
		MPI_Status *status = &several->statuses[i];
		if (!indices)
			batch_count -= several->ours[i] && several->ours[i]->is_active;
		if (class != MPI_SUCCESS && status->MPI_ERROR != MPI_SUCCESS) {
			fail_request(several->ours[at], requests[at]);
			several->ours[at] = NULL;
			continue;
		}
		int one = finish_at(several, at, status);
		for (int k = 0; k < i && one != MPI_SUCCESS && class == MPI_SUCCESS && !has_failed; k++)
			several->statuses[k].MPI_ERROR = MPI_SUCCESS;
		has_failed |= one != MPI_SUCCESS;
		if (has_failed || class != MPI_SUCCESS)
			status->MPI_ERROR = one;
	}
	return has_failed ? MPI_ERR_IN_STATUS : result;
}

int hwio_MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	struct several several;
	if (has_nothing_pending() || !claim_several(&several, count, requests, statuses))
		return DIRECTLY(hwio_real.MPI_Testall(count, requests, flag, statuses));
	if (!are_offers_over(several.ours, requests, count)) {
		*flag = 0;
		release_several(&several, count);
		return MPI_SUCCESS;
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Testall(count, requests, flag, several.statuses));
	hwio_outstanding_poll();
	if (result != MPI_SUCCESS || *flag)
		result = finish_several(&several, requests, NULL, count, result);
	release_several(&several, count);
	return result;
}

/* MPICH's MPI_Waitall notes the success of each request, and its MPI_Testall doesn't. */
static void note_success(int count, const MPI_Request requests[], MPI_Status statuses[])
{
	for (int i = 0; requests && statuses != MPI_STATUSES_IGNORE && i < count; i++)
		if (requests[i] != MPI_REQUEST_NULL)
			statuses[i].MPI_ERROR = MPI_SUCCESS;
}

int hwio_MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
	struct several several;
	int result = MPI_SUCCESS, flag = 0;
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Waitall(count, requests, statuses));
	if (hwio_outstanding_any() || hwio_offer_any() || hwio_deferred_write_any()) {
		note_success(count, requests, statuses);
		while (result == MPI_SUCCESS && !flag) {
			result = hwio_MPI_Testall(count, requests, &flag, statuses);
			if (!flag && result == MPI_SUCCESS)
				poll_others();
		}
		return result;
	}
	if (!claim_several(&several, count, requests, statuses))
		return DIRECTLY(hwio_real.MPI_Waitall(count, requests, statuses));
	result = HWIO_INSIDE(hwio_real.MPI_Waitall(count, requests, several.statuses));
	result = finish_several(&several, requests, NULL, count, result);
	release_several(&several, count);
	return result;
}

/* Returns the first request whose message was delivered before it started, or -1: MPI can't complete it. */
static int find_delivered(const struct several *several, int count)
{
	for (int i = 0; i < count; i++) {
		const struct hwio_tracked *one = several->ours[i];
		if (one && one->is_delivered && one->kind == HWIO_PERSISTENT_RECEIVE)
			return i;
	}
	return -1;
}

int hwio_MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
	struct several several;
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (has_nothing_pending() || !claim_several(&several, count, requests, MPI_STATUSES_IGNORE))
		return DIRECTLY(hwio_real.MPI_Testany(count, requests, index, flag, status));
	are_offers_over(several.ours, requests, count);
	int delivered = find_delivered(&several, count);
	if (delivered >= 0) {
		*flag = 1;
		*index = delivered;
		int one = finish_at(&several, delivered, actual);
		release_several(&several, count);
		return one;
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Testany(count, requests, index, flag, actual));
	hwio_outstanding_poll();
	if (result == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED)
		result = finish_at(&several, *index, actual);
	release_several(&several, count);
	return result;
}

int hwio_MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
	int result = MPI_SUCCESS, flag = 0;
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Waitany(count, requests, index, status));
	while (result == MPI_SUCCESS && !flag) {
		result = hwio_MPI_Testany(count, requests, index, &flag, status);
		if (!flag && result == MPI_SUCCESS)
			poll_others();
	}
	return result;
}

int hwio_MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	struct several several;
	if (has_nothing_pending() || !claim_several(&several, count, requests, statuses))
		return DIRECTLY(hwio_real.MPI_Testsome(count, requests, done, indices, statuses));
	are_offers_over(several.ours, requests, count);
	int delivered = find_delivered(&several, count);
	if (delivered >= 0) {
		*done = 1;
		*indices = delivered;
		int one = finish_at(&several, delivered, &several.statuses[0]);
		release_several(&several, count);
		return one;
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Testsome(count, requests, done, indices, several.statuses));
	hwio_outstanding_poll();
	if (*done != MPI_UNDEFINED)
		result = finish_several(&several, requests, indices, *done, result);
	release_several(&several, count);
	return result;
}

int hwio_MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	int result = MPI_SUCCESS;
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Waitsome(count, requests, done, indices, statuses));
	do {
		result = hwio_MPI_Testsome(count, requests, done, indices, statuses);
		if (*done == 0 && result == MPI_SUCCESS)
			poll_others();
	} while (result == MPI_SUCCESS && *done == 0);
	return result;
}

int hwio_MPI_Request_free(MPI_Request *request)
{
	struct hwio_tracked *one = hwio_tracked_claim(*request);
	/* The program has freed the request: the data is sent unrequested. */
	if (one && one->kind == HWIO_OFFERED)
		hwio_offer_release();
	int result = HWIO_INSIDE(hwio_real.MPI_Request_free(request));
	/* A hint that is being sent keeps its memory; a freed receive's envelope is never processed. */
	if (result != MPI_SUCCESS) {
		hwio_tracked_release(one);
		one = NULL;
	}
	if (one && (one->kind == HWIO_OWNED || one->kind == HWIO_COLLECTIVE))
		one->buffer = NULL;
	if (one)
		hwio_tracked_forget(one);
	return result;
}

/* Processes a completed request that the program may query again. */
static int process_query(MPI_Request request, MPI_Status *status)
{
	struct hwio_tracked *one = hwio_tracked_find(request);
	int bytes = 0, result = MPI_SUCCESS;
	if (!one)
		return result;
	if (one->kind == HWIO_COLLECTIVE) {
		/* The program gets an error when it completes the request. */
		one->result = one->is_seen ? one->result : one->finish(one->buffer, false);
		one->is_seen = true;
	} else if (one->is_delivered) {
		hwio_match_copy_status(&one->status, status);
	} else if (one->is_seen) {
		hwio_real.MPI_Status_set_elements_x(status, MPI_BYTE, one->bytes);
	} else if (one->is_active) {
		result = process_received(one, status, false);
		hwio_real.MPI_Get_count(status, MPI_BYTE, &bytes);
		one->is_seen = true;
		one->bytes = bytes;
	}
	return result;
}

int hwio_MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Request_get_status(request, flag, status));
	/* The program may call nothing else while it waits for a rank that waits for an offer of this one. */
	struct hwio_tracked *one = claim(request);
	bool are_over = are_offers_over(&one, &request, 1);
	hwio_tracked_release(one);
	hwio_outstanding_poll();
	*flag = 0;
	if (!are_over)
		return MPI_SUCCESS;
	int result = HWIO_INSIDE(hwio_real.MPI_Request_get_status(request, flag, actual));
	return result == MPI_SUCCESS && *flag ? process_query(request, actual) : result;
}

int hwio_MPI_Request_get_status_all(int count, const MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	if (has_nothing_pending())
		return DIRECTLY(hwio_real.MPI_Request_get_status_all(count, requests, flag, statuses));
	int result = MPI_SUCCESS;
	*flag = 1;
	for (int i = 0; i < count && *flag && result == MPI_SUCCESS; i++)
		result = hwio_MPI_Request_get_status(requests[i], flag,
			statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
	return result;
}

/* Ends the offers among several requests before a query of which are complete. */
static void end_offers(struct several *several, const MPI_Request requests[], int count)
{
	hwio_outstanding_poll();
	if (!are_offers_over(several->ours, requests, count))
		hwio_offer_release();
}

int hwio_MPI_Request_get_status_some(int count, const MPI_Request requests[], int *done, int indices[],
	MPI_Status statuses[])
{
	struct several several;
	if (has_nothing_pending() || !claim_several(&several, count, requests, statuses))
		return DIRECTLY(hwio_real.MPI_Request_get_status_some(count, requests, done, indices, statuses));
	end_offers(&several, requests, count);
	int result = HWIO_INSIDE(hwio_real.MPI_Request_get_status_some(count, requests, done, indices,
		several.statuses));
	for (int i = 0; result == MPI_SUCCESS && *done != MPI_UNDEFINED && i < *done; i++)
		result = process_query(requests[indices[i]], &several.statuses[i]);
	release_several(&several, count);
	return result;
}

int hwio_MPI_Request_get_status_any(int count, const MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
	struct several several;
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (has_nothing_pending() || !claim_several(&several, count, requests, MPI_STATUSES_IGNORE))
		return DIRECTLY(hwio_real.MPI_Request_get_status_any(count, requests, index, flag, status));
	end_offers(&several, requests, count);
	release_several(&several, count);
	int result = HWIO_INSIDE(hwio_real.MPI_Request_get_status_any(count, requests, index, flag, actual));
	return result == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED ? process_query(requests[*index], actual)
									 : result;
}
