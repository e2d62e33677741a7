/* What the engine has seen and done, for people: lines of JSON, or a few lines on standard error. */
#ifndef HWIO_REPORT_H
#define HWIO_REPORT_H

#include <mpi.h>

#include "engine.h"

/* Called by all ranks; rank 0 writes what all have to say. */
void hwio_report(void);

/* Says why nothing is done for this job, unless no report is wanted; the format has one `%s`. */
void hwio_report_reason(const char *format, const char *what);

/* --io observe: the program has read, sent, received or written this. */
void hwio_observe_send(const void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_observe_scatter(const void *buffer, int ranks, MPI_Count count, MPI_Datatype type);
void hwio_observe_received(const void *buffer, int ranks, MPI_Count count, MPI_Datatype type);
void hwio_observe_write(const void *memory, size_t bytes);

#endif
