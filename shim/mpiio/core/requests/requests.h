/* Requests of the program that something has to be done about when they complete or start. */
#ifndef HW_REQUESTS_H
#define HW_REQUESTS_H

#include "../mpi/control.h"

/* The memory is freed when the request has completed. */
void hw_requests_own(MPI_Request request, void *memory);
/* The program is to be told this when the request completes: what it receives is there already. The memory is freed. */
void hw_requests_delivered(MPI_Request request, void *memory, const MPI_Status *status, int result);
/* The request receives what may be ours, and may send, too. */
void hw_requests_receive(MPI_Request request, bool has_send, void *buffer, MPI_Count count, MPI_Datatype type, int source,
			 MPI_Comm comm);
struct hw_offered;
/* The request ends when the offer has. */
void hw_requests_offered(MPI_Request request, struct hw_offered *offered);
/* Whether any tracked receive is on its way. */
bool hw_requests_receiving(void);
/* Whether one of them has completed, which the program hasn't seen yet. */
bool hw_requests_any_arrived(void);

#endif
