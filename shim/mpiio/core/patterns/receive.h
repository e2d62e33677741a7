/* What has arrived in a program's buffer: its data, or something of ours in its place. */
#ifndef HWIO_RECEIVE_H
#define HWIO_RECEIVE_H

#include "../mpi/control.h"

/*
 * Looks at what a completed receive got, and makes it what the program waits for, buffer and status. The result is what
 * the program's call returns. `may_defer`: the program receives nothing else meanwhile.
 */
int hwio_received(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status, bool may_defer);
/* The same for a receive of which the status doesn't say how much it got, or whether it did. */
int hwio_received_unsized(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status);
/* Tells of a receive's memory before it is posted. */
void hwio_before_receive(void *buffer, MPI_Count count, MPI_Datatype type);

#endif
