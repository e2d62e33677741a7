/* A hash table of requests. */
#include "intercept/requests/tracked.h"

#include <stdlib.h>

#include "transfer/offer.h"
#include "intercept/requests/match.h"
#include "real.h"
#include "intercept/requests/requests.h"

#define BUCKETS 1024

static struct hwio_tracked *buckets[BUCKETS];
static size_t tracked_count, receiving_count;

bool hwio_tracked_any(void)
{
	return tracked_count > 0;
}

size_t hwio_tracked_receiving(void)
{
	return receiving_count;
}

bool hwio_requests_receiving(void)
{
	return receiving_count > 0;
}

/* If only one thread calls MPI, no lock is needed, which would take longer than a short message. Signal handlers never
 * get here, since none calls MPI. */
static bool lock_if_shared(void)
{
	bool is_shared = hwio_match_is_shared();
	if (is_shared)
		hwio_enter();
	return is_shared;
}

static void unlock_if_shared(bool is_shared)
{
	if (is_shared)
		hwio_leave();
}

static struct hwio_tracked **bucket_of(MPI_Request request)
{
	uintptr_t hash = (uintptr_t)request;
	return &buckets[(hash ^ hash >> 6 ^ hash >> 14) % BUCKETS];
}

static struct hwio_tracked *find_tracked(MPI_Request request, bool may_be_claimed)
{
	/* Of a completed request and a new one with its handle, the new one comes first. */
	struct hwio_tracked *found = *bucket_of(request);
	while (found && (found->request != request || (found->is_claimed && !may_be_claimed)))
		found = found->next;
	return found;
}

struct hwio_tracked *hwio_tracked_find(MPI_Request request)
{
	if (tracked_count == 0 || request == MPI_REQUEST_NULL)
		return NULL;
	bool is_shared = lock_if_shared();
	struct hwio_tracked *found = find_tracked(request, true);
	unlock_if_shared(is_shared);
	return found;
}

struct hwio_tracked *hwio_tracked_claim(MPI_Request request)
{
	if (tracked_count == 0 || request == MPI_REQUEST_NULL)
		return NULL;
	bool is_shared = lock_if_shared();
	struct hwio_tracked *found = find_tracked(request, false);
	if (found)
		found->is_claimed = true;
	unlock_if_shared(is_shared);
	return found;
}

void hwio_tracked_release(struct hwio_tracked *one)
{
	if (!one)
		return;
	bool is_shared = lock_if_shared();
	one->is_claimed = false;
	unlock_if_shared(is_shared);
}

bool hwio_tracked_has_twin(const struct hwio_tracked *one)
{
	bool is_shared = lock_if_shared();
	const struct hwio_tracked *other = *bucket_of(one->request);
	while (other &&
		(other == one || other->request != one->request || other->kind != HWIO_OFFERED || other->is_claimed))
		other = other->next;
	unlock_if_shared(is_shared);
	return other != NULL;
}

void hwio_tracked_add(const struct hwio_tracked *what)
{
	struct hwio_tracked *one = malloc(sizeof(*one));
	if (!one)
		abort();
	bool is_shared = lock_if_shared();
	*one = *what;
	/* The program may free the type while the request is under way. */
	if (one->kind != HWIO_OWNED && one->kind != HWIO_OFFERED && one->kind != HWIO_COLLECTIVE) {
		hwio_step_in();
		one->is_own_type = hwio_basic_bytes(what->type) == 0 &&
			hwio_real.MPI_Type_dup(what->type, &one->type) == MPI_SUCCESS;
		hwio_step_out();
	}
	struct hwio_tracked **link = bucket_of(what->request);
	one->next = *link;
	*link = one;
	tracked_count++;
	receiving_count += one->is_active;
	unlock_if_shared(is_shared);
}

static void free_tracked(struct hwio_tracked *one)
{
	if (one->kind == HWIO_OFFERED) {
		hwio_offer_free(one->offered);
	} else if (one->kind == HWIO_OWNED || one->kind == HWIO_COLLECTIVE) {
		free(one->buffer);
	} else if (one->is_own_type) {
		hwio_step_in();
		hwio_real.MPI_Type_free(&one->type);
		hwio_step_out();
	}
	free(one);
}

void hwio_tracked_forget(struct hwio_tracked *one)
{
	bool is_shared = lock_if_shared();
	struct hwio_tracked **link = bucket_of(one->request);
	while (*link != one)
		link = &(*link)->next;
	*link = one->next;
	tracked_count--;
	receiving_count -= one->is_active;
	unlock_if_shared(is_shared);
	free_tracked(one);
}

void hwio_tracked_activate(struct hwio_tracked *one, bool is_active)
{
	bool is_shared = lock_if_shared();
	receiving_count = receiving_count + is_active - one->is_active;
	one->is_active = is_active;
	unlock_if_shared(is_shared);
}

bool hwio_requests_any_arrived(void)
{
	int has_arrived = 0;
	hwio_step_in();
	for (size_t i = 0; i < BUCKETS && receiving_count > 0 && !has_arrived; i++)
		for (struct hwio_tracked *one = buckets[i]; one && !has_arrived; one = one->next)
			if (one->is_active)
				hwio_real.MPI_Request_get_status(one->request, &has_arrived, MPI_STATUS_IGNORE);
	hwio_step_out();
	return has_arrived;
}
