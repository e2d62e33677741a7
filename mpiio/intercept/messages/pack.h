/* Data that is copied, or sent, in a way in which it isn't replaced by a hint. */
#ifndef HWIO_PACK_H
#define HWIO_PACK_H

#include "mpi/control.h"

/* Returns true if a read of this memory is deferred. */
bool hwio_is_deferred_read(const void *buffer, MPI_Count count, MPI_Datatype type);

#endif
