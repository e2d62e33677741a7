/* Sends of data that is in a file, or will be: a hint or an offer replaces the data. */
#ifndef HWIO_SEND_H
#define HWIO_SEND_H

#include "mpi/control.h"

/* Prepares a send's memory before the original is called. */
void hwio_before_send(const void *buffer, MPI_Count count, MPI_Datatype type);

struct hwio_hint;
/* Returns a hint that stands for this message, which is sent as hwio_hint_bytes() bytes, and freed after that. NULL: the
 * data has to be sent. */
struct hwio_hint *hwio_hint_for(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, MPI_Comm comm);

#endif
