/* The program's requests that need processing when they start or complete. */
#ifndef HWIO_REQUESTS_H
#define HWIO_REQUESTS_H

#include "mpi/control.h"

/* Frees the memory when the request has completed. */
void hwio_requests_own(MPI_Request request, void *memory);
/* Sets the status and result that the program gets when the request completes; the data is delivered already. The
 * memory is freed. */
void hwio_requests_delivered(MPI_Request request, void *memory, const MPI_Status *status, int result);
/* Tracks a request that may receive an envelope, and may send, too. */
void hwio_requests_receive(MPI_Request request, bool has_send, void *buffer, MPI_Count count, MPI_Datatype type,
	int source, MPI_Comm comm);
/* Tracks a request of a collective operation. When it completes, `finish` is called once; it returns a code, and calls no
 * error handler. `may_defer`: no other receive of the program is under way. The operation's memory is freed. */
void hwio_requests_collective(MPI_Request request, MPI_Comm comm, int (*finish)(void *operation, bool may_defer),
	void *operation);
struct hwio_transfer;
/* Tracks a request that ends when the offer has ended. */
void hwio_requests_offered(MPI_Request request, struct hwio_transfer *offered);
/* Returns true if any tracked receive is under way. */
bool hwio_requests_receiving(void);
/* Returns true if one of them has completed and the program hasn't noticed yet. */
bool hwio_requests_any_arrived(void);

#endif
