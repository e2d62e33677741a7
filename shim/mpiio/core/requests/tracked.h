/* The program's requests that something has to be done about when they start or complete, by handle. */
#ifndef HW_TRACKED_H
#define HW_TRACKED_H

#include "../mpi/control.h"

enum hw_tracked_kind { HW_RECEIVE, HW_SEND_RECEIVE, HW_OWNED, HW_PERSISTENT_RECEIVE, HW_PERSISTENT_SEND, HW_OFFERED };

struct hw_offered;

struct hw_tracked {
	MPI_Request request;
	enum hw_tracked_kind kind;
	/* The program's; HW_OWNED: ours, or none. */
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
	/* Its message, which a probe had taken, is in the program's buffer: what the program is to be told when it completes. */
	bool is_delivered;
	MPI_Status status;
	int result;
	struct hw_offered *offered;
	/* A call that may complete it has it. */
	bool is_claimed;
	struct hw_tracked *next;
};

bool hw_tracked_any(void);
/* NULL: it is none of them. */
struct hw_tracked *hw_tracked_find(MPI_Request request);
/*
 * The same for a call that may complete the request, before MPI is asked: MPI gives the handle of one that has completed
 * to the next, which another thread may have by then; and MPICH has one handle for all sends that are done at once, of
 * which each is claimed once. It is forgotten, or released. NULL may be released, too.
 */
struct hw_tracked *hw_tracked_claim(MPI_Request request);
void hw_tracked_release(struct hw_tracked *one);
/* Whether another offer, which nobody has claimed, has the handle of this one: the program may mean either. */
bool hw_tracked_has_twin(const struct hw_tracked *one);
void hw_tracked_add(const struct hw_tracked *one);
/* It must be there. */
void hw_tracked_forget(struct hw_tracked *one);
/* A receive starts or has completed. */
void hw_tracked_activate(struct hw_tracked *one, bool is_active);
/* How many receives are on their way. */
size_t hw_tracked_receiving(void);

#endif
