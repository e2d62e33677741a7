/* The files that the program has opened by MPI. */
#ifndef HWIO_OPENED_H
#define HWIO_OPENED_H

#include <mpi.h>

#include "../engine.h"

struct hwio_collective;

/* An open file of the program's. */
struct hwio_opened {
	MPI_File file;
	int mode;
	/* The engine's own, to the same file; -1: operations aren't examined. */
	int descriptor;
	bool is_plain;
	/* NULL, on all ranks of the file or on none, if collective operations aren't examined. */
	struct hwio_collective *collective;
	struct hwio_opened *next;
};

/* Returns NULL for files that aren't examined. */
struct hwio_opened *hwio_opened_of(MPI_File file);
/* Returns the one block of memory that the elements are; NULL if they are none or several. */
void *hwio_contiguous(const void *buffer, int count, MPI_Datatype type, size_t *bytes);
/* Sets the status of an operation that has transferred so many bytes. */
void hwio_status_set(MPI_Status *status, size_t bytes);

#endif
