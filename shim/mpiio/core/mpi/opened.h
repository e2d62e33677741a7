/* The files that the program has opened by MPI. */
#ifndef HW_OPENED_H
#define HW_OPENED_H

#include <mpi.h>

#include "../engine.h"

struct hw_collective;

/* An open file of the program's. */
struct hw_opened {
	MPI_File file;
	int mode;
	/* Ours, to the same file; -1: left alone. */
	int descriptor;
	bool is_plain;
	/* NULL on all ranks of the file or on none: its collective operations are left alone. */
	struct hw_collective *collective;
	struct hw_opened *next;
};

/* NULL: it is to be left alone. */
struct hw_opened *hw_opened_of(MPI_File file);
/* The one block of memory that so many elements are; NULL if they aren't, or are none. */
void *hw_contiguous(const void *buffer, int count, MPI_Datatype type, size_t *bytes);
/* For an operation that has moved so many bytes. */
void hw_status_set(MPI_Status *status, size_t bytes);

#endif
