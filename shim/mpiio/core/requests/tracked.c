/* A hash table. Requests that aren't in it cost a look at an empty one. */
#include "tracked.h"

#include <stdlib.h>

#include "../patterns/offer.h"
#include "match.h"
#include "real.h"
#include "requests.h"

#define BUCKETS 1024

static struct hw_tracked *buckets[BUCKETS];
static size_t tracked_count, receiving_count;

bool hw_tracked_any(void)
{
	return tracked_count > 0;
}

size_t hw_tracked_receiving(void)
{
	return receiving_count;
}

bool hw_requests_receiving(void)
{
	return receiving_count > 0;
}

/*
 * Where only one thread calls MPI, it needs no lock, which would take longer than a short message: no signal handler gets
 * here, since none calls MPI.
 */
static bool enter(void)
{
	bool is_shared = hw_match_is_shared();
	if (is_shared)
		hw_enter();
	return is_shared;
}

static void leave(bool is_shared)
{
	if (is_shared)
		hw_leave();
}

static struct hw_tracked **bucket_of(MPI_Request request)
{
	uintptr_t hash = (uintptr_t)request;
	return &buckets[(hash ^ hash >> 6 ^ hash >> 14) % BUCKETS];
}

static struct hw_tracked *find(MPI_Request request, bool may_be_claimed)
{
	/* Of one that has completed and one that has its handle now, the latter was added later, and comes first. */
	struct hw_tracked *found = *bucket_of(request);
	while (found && (found->request != request || (found->is_claimed && !may_be_claimed)))
		found = found->next;
	return found;
}

struct hw_tracked *hw_tracked_find(MPI_Request request)
{
	if (tracked_count == 0 || request == MPI_REQUEST_NULL)
		return NULL;
	bool is_shared = enter();
	struct hw_tracked *found = find(request, true);
	leave(is_shared);
	return found;
}

struct hw_tracked *hw_tracked_claim(MPI_Request request)
{
	if (tracked_count == 0 || request == MPI_REQUEST_NULL)
		return NULL;
	bool is_shared = enter();
	struct hw_tracked *found = find(request, false);
	if (found)
		found->is_claimed = true;
	leave(is_shared);
	return found;
}

void hw_tracked_release(struct hw_tracked *one)
{
	if (!one)
		return;
	bool is_shared = enter();
	one->is_claimed = false;
	leave(is_shared);
}

bool hw_tracked_has_twin(const struct hw_tracked *one)
{
	bool is_shared = enter();
	const struct hw_tracked *other = *bucket_of(one->request);
	while (other && (other == one || other->request != one->request || other->kind != HW_OFFERED || other->is_claimed))
		other = other->next;
	leave(is_shared);
	return other != NULL;
}

void hw_tracked_add(const struct hw_tracked *what)
{
	struct hw_tracked *one = malloc(sizeof(*one));
	if (!one)
		abort();
	bool is_shared = enter();
	*one = *what;
	/* A type may be freed while the request is on its way. */
	if (one->kind != HW_OWNED && one->kind != HW_OFFERED) {
		hw_step_in();
		one->is_own_type = hw_basic_bytes(what->type) == 0 &&
				   hw_real.MPI_Type_dup(what->type, &one->type) == MPI_SUCCESS;
		hw_step_out();
	}
	struct hw_tracked **link = bucket_of(what->request);
	one->next = *link;
	*link = one;
	tracked_count++;
	receiving_count += one->is_active;
	leave(is_shared);
}

static void free_tracked(struct hw_tracked *one)
{
	if (one->kind == HW_OFFERED) {
		hw_offer_free(one->offered);
	} else if (one->kind == HW_OWNED) {
		free(one->buffer);
	} else if (one->is_own_type) {
		hw_step_in();
		hw_real.MPI_Type_free(&one->type);
		hw_step_out();
	}
	free(one);
}

void hw_tracked_forget(struct hw_tracked *one)
{
	bool is_shared = enter();
	struct hw_tracked **link = bucket_of(one->request);
	while (*link != one)
		link = &(*link)->next;
	*link = one->next;
	tracked_count--;
	receiving_count -= one->is_active;
	leave(is_shared);
	free_tracked(one);
}

void hw_tracked_activate(struct hw_tracked *one, bool is_active)
{
	bool is_shared = enter();
	receiving_count = receiving_count + is_active - one->is_active;
	one->is_active = is_active;
	leave(is_shared);
}

bool hw_requests_any_arrived(void)
{
	int has_arrived = 0;
	hw_step_in();
	for (size_t i = 0; i < BUCKETS && receiving_count > 0 && !has_arrived; i++)
		for (struct hw_tracked *one = buckets[i]; one && !has_arrived; one = one->next)
			if (one->is_active)
				hw_real.MPI_Request_get_status(one->request, &has_arrived, MPI_STATUS_IGNORE);
	hw_step_out();
	return has_arrived;
}
