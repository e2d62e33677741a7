/* The report of what the engine found and did: lines of JSON, or a few lines on standard error. */
#ifndef HWIO_REPORT_H
#define HWIO_REPORT_H

#include <mpi.h>

#include "base/engine.h"

/* Called once the model is known. */
void hwio_report_start(void);
/* Writes the report; called by all ranks, written by rank 0. */
void hwio_report(void);

/* Prints why nothing is done for this job, unless no report is wanted; the format has one `%s`. */
void hwio_report_reason(const char *format, const char *what);

/* For --io observe: the program has sent, received or written this. */
void hwio_observe_send(const void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_observe_scatter(const void *buffer, int ranks, MPI_Count count, MPI_Datatype type);
void hwio_observe_broadcast(const void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_observe_received(const void *buffer, int ranks, MPI_Count count, MPI_Datatype type);
void hwio_observe_write(const void *memory, size_t bytes);

#endif
