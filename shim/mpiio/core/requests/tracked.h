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
	struct hw_tracked *next;
};

bool hw_tracked_any(void);
/* NULL: it is none of them. */
struct hw_tracked *hw_tracked_find(MPI_Request request);
void hw_tracked_add(const struct hw_tracked *one);
void hw_tracked_forget(MPI_Request request);
/* A receive starts or has completed. */
void hw_tracked_activate(struct hw_tracked *one, bool is_active);
/* How many receives are on their way. */
size_t hw_tracked_receiving(void);

#endif
