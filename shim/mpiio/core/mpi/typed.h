/* Buffers of types whose layout only MPI knows: it copies them in messages of this rank to itself. */
#ifndef HWIO_TYPED_H
#define HWIO_TYPED_H

#include "control.h"

/* The first `bytes` of what such a buffer would send; all results are MPI's codes. */
int hwio_typed_read(const void *buffer, MPI_Count count, MPI_Datatype type, void *to, size_t bytes);
/* As a message of so many bytes is received. */
int hwio_typed_write(void *buffer, MPI_Count count, MPI_Datatype type, const void *from, size_t bytes);
/* A request that has completed. */
void hwio_typed_done(MPI_Request *request);
/* A message without content, for a handle to it. */
void hwio_typed_message(MPI_Message *message);

#endif
