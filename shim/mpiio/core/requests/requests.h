/* Requests of the program that something has to be done about when they complete or start. */
#ifndef HWIO_REQUESTS_H
#define HWIO_REQUESTS_H

#include "../mpi/control.h"

/* The memory is freed when the request has completed. */
void hwio_requests_own(MPI_Request request, void *memory);
/* The program is to be told this when the request completes: what it receives is there already. The memory is freed. */
void hwio_requests_delivered(MPI_Request request, void *memory, const MPI_Status *status, int result);
/* The request receives what may be ours, and may send, too. */
void hwio_requests_receive(MPI_Request request, bool has_send, void *buffer, MPI_Count count, MPI_Datatype type,
	int source, MPI_Comm comm);
struct hwio_offered;
/* The request ends when the offer has. */
void hwio_requests_offered(MPI_Request request, struct hwio_offered *offered);
/* Whether any tracked receive is on its way. */
bool hwio_requests_receiving(void);
/* Whether one of them has completed, which the program hasn't seen yet. */
bool hwio_requests_any_arrived(void);

#endif
