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
	/* Ours, to the same file; -1: left alone. */
	int descriptor;
	bool is_plain;
	/* NULL on all ranks of the file or on none: its collective operations are left alone. */
	struct hwio_collective *collective;
	struct hwio_opened *next;
};

/* NULL: it is to be left alone. */
struct hwio_opened *hwio_opened_of(MPI_File file);
/* The one block of memory that so many elements are; NULL if they aren't, or are none. */
void *hwio_contiguous(const void *buffer, int count, MPI_Datatype type, size_t *bytes);
/* For an operation that has moved so many bytes. */
void hwio_status_set(MPI_Status *status, size_t bytes);

#endif
