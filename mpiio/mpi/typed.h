/* Copies buffers of types whose layout only MPI knows, by messages of this rank to itself. */
#ifndef HWIO_TYPED_H
#define HWIO_TYPED_H

#include "mpi/control.h"

/* Copies the first `bytes` bytes that the buffer would send. All functions return MPI's codes. */
int hwio_typed_read(const void *buffer, MPI_Count count, MPI_Datatype type, void *to, size_t bytes);
/* Writes `bytes` bytes into the buffer, as a received message. */
int hwio_typed_write(void *buffer, MPI_Count count, MPI_Datatype type, const void *from, size_t bytes);
/* Makes a completed request. */
void hwio_typed_done(MPI_Request *request);
/* Makes a handle of a message without content. */
void hwio_typed_message(MPI_Message *message);

#endif
