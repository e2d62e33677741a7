/* Sends of data that is in a file, or will be: a hint or an offer replaces the data. */
#ifndef HWIO_SEND_H
#define HWIO_SEND_H

#include "mpi/control.h"

/* Prepares a send's memory before the original is called. */
void hwio_before_send(const void *buffer, MPI_Count count, MPI_Datatype type);

#endif
