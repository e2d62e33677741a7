/* The program's requests that need processing when they start or complete, by handle. */
#ifndef HWIO_TRACKED_H
#define HWIO_TRACKED_H

#include "mpi/control.h"

enum hwio_tracked_kind {
	HWIO_RECEIVE,
	HWIO_SEND_RECEIVE,
	HWIO_OWNED,
	HWIO_PERSISTENT_RECEIVE,
	HWIO_PERSISTENT_SEND,
	HWIO_OFFERED,
	HWIO_COLLECTIVE
};

struct hwio_transfer;

struct hwio_tracked {
	MPI_Request request;
	enum hwio_tracked_kind kind;
	/* The program's; of HWIO_OWNED and HWIO_COLLECTIVE, the library's own, or NULL. */
	void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	bool is_own_type;
	MPI_Comm comm;
	/* For a persistent receive. */
	int source, tag;
	/* True for a receive that has started and may get an envelope. */
	bool is_active;
	/* True if MPI_Request_get_status has processed the data, which has this many bytes; of HWIO_COLLECTIVE, with this
	 * result. */
	bool is_seen;
	MPI_Count bytes;
	/* True if its message, which a probe had taken, is in the program's buffer: the program gets this status and
	 * result when the request completes. */
	bool is_delivered;
	MPI_Status status;
	int result;
	struct hwio_transfer *offered;
	/* Of HWIO_COLLECTIVE: see hwio_requests_collective. */
	int (*finish)(void *operation, bool may_defer);
	/* True while a call that may complete it uses it. */
	bool is_claimed;
	struct hwio_tracked *next;
};

bool hwio_tracked_any(void);
/* Returns NULL if the request isn't tracked. */
struct hwio_tracked *hwio_tracked_find(MPI_Request request);
/* Claims the request for a call that may complete it, before MPI is called. MPI reuses the handle of a completed
 * request, which another thread may have by then. MPICH has one handle for all sends that complete at once, of which
 * each is claimed once. The caller forgets or releases it; NULL may be released, too. */
struct hwio_tracked *hwio_tracked_claim(MPI_Request request);
void hwio_tracked_release(struct hwio_tracked *one);
/* Returns true if another, unclaimed offer has the same handle: the program may mean either. */
bool hwio_tracked_has_twin(const struct hwio_tracked *one);
void hwio_tracked_add(const struct hwio_tracked *one);
/* Removes a tracked request. */
void hwio_tracked_forget(struct hwio_tracked *one);
/* Records that a receive starts or has completed. */
void hwio_tracked_activate(struct hwio_tracked *one, bool is_active);
/* Returns the number of receives under way. */
size_t hwio_tracked_receiving(void);

#endif
