/* Examines what has arrived in the program's buffer: its data, or an envelope in its place. */
#ifndef HWIO_RECEIVE_H
#define HWIO_RECEIVE_H

#include "mpi/control.h"

struct hwio_context;

/* Processes a completed receive: replaces an envelope in buffer and status by the data. Returns the code for the
 * program's call. `may_defer`: no other receive of the program is under way. */
int hwio_received(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status, bool may_defer);
/* The same for a receive whose status doesn't have the number of bytes. */
int hwio_received_unsized(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status);
/* The same for a part of a scatter or gather that is complete, and has no status. With a context, the gather's, the part
 * may be deferred. Calls no error handler. */
int hwio_received_part(void *buffer, MPI_Count count, MPI_Datatype type, struct hwio_context *context);
/* Prepares a receive's memory before it is posted. */
void hwio_before_receive(void *buffer, MPI_Count count, MPI_Datatype type);

#endif
