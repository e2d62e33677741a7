/* The program's requests that something has to be done about when they start or complete, by handle. */
#ifndef HWIO_TRACKED_H
#define HWIO_TRACKED_H

#include "../mpi/control.h"

enum hwio_tracked_kind {
	HWIO_RECEIVE,
	HWIO_SEND_RECEIVE,
	HWIO_OWNED,
	HWIO_PERSISTENT_RECEIVE,
	HWIO_PERSISTENT_SEND,
	HWIO_OFFERED
};

struct hwio_offered;

struct hwio_tracked {
	MPI_Request request;
	enum hwio_tracked_kind kind;
	/* The program's; HWIO_OWNED: ours, or none. */
	void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	bool is_own_type;
	MPI_Comm comm;
	/* Of a persistent receive. */
	int source, tag;
	/* It is a receive that has started; what arrives may be ours. */
	bool is_active;
	/* Its data has been seen to, by MPI_Request_get_status; so many bytes there are. */
	bool is_seen;
	MPI_Count bytes;
	/* Its message, which a probe had taken, is in the program's buffer: what the program is to be told when it
	 * completes. */
	bool is_delivered;
	MPI_Status status;
	int result;
	struct hwio_offered *offered;
	/* A call that may complete it has it. */
	bool is_claimed;
	struct hwio_tracked *next;
};

bool hwio_tracked_any(void);
/* NULL: it is none of them. */
struct hwio_tracked *hwio_tracked_find(MPI_Request request);
/*
 * The same for a call that may complete the request, before MPI is asked: MPI gives the handle of one that has
 * completed to the next, which another thread may have by then; and MPICH has one handle for all sends that are
 * done at once, of which each is claimed once. It is forgotten, or released. NULL may be released, too.
 */
struct hwio_tracked *hwio_tracked_claim(MPI_Request request);
void hwio_tracked_release(struct hwio_tracked *one);
/* Whether another, unclaimed offer has the handle of this one: the program may mean either. */
bool hwio_tracked_has_twin(const struct hwio_tracked *one);
void hwio_tracked_add(const struct hwio_tracked *one);
/* It must be there. */
void hwio_tracked_forget(struct hwio_tracked *one);
/* A receive starts or has completed. */
void hwio_tracked_activate(struct hwio_tracked *one, bool is_active);
/* How many receives are on their way. */
size_t hwio_tracked_receiving(void);

#endif
