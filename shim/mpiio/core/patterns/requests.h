/* Requests of the program that something has to be done about when they complete or start. */
#ifndef HW_REQUESTS_H
#define HW_REQUESTS_H

#include "../mpi/control.h"

/* The memory is freed when the request has completed. */
void hw_requests_own(MPI_Request request, void *memory);
/*
 * The request receives what was probed and taken: this is the status that the program gets, and so many bytes arrive.
 * `content` is what was sent for it, by `sending`.
 */
struct hw_matched {
	MPI_Status status;
	int bytes;
	char *content;
	MPI_Request sending;
};

void hw_requests_matched(MPI_Request request, void *buffer, MPI_Count count, MPI_Datatype type,
			 const struct hw_matched *matched);
struct hw_offered;
/* The request ends when the offer has. */
void hw_requests_offered(MPI_Request request, struct hw_offered *offered);
/* Whether any tracked receive is on its way. */
bool hw_requests_receiving(void);
/* Whether one of them has completed, which the program hasn't seen yet. */
bool hw_requests_any_arrived(void);

#endif
