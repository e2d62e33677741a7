/* MPI's collective file operations of few bytes, which one rank does for all where that is quicker. */
#ifndef HWIO_COLLECTIVE_H
#define HWIO_COLLECTIVE_H

#include <mpi.h>

#include "opened.h"

/*
 * Called by all ranks of the communicator when they have tried to open a file; they meet in it. `opened`: NULL
 * where this rank has failed. NULL on all ranks or on none.
 */
struct hwio_collective *hwio_collective_open(MPI_Comm comm, const struct hwio_opened *opened);
/* Called by all ranks before they close the file. */
void hwio_collective_close(struct hwio_collective *collective);
/* Called by all ranks: from now on offsets aren't bytes, or order matters. */
void hwio_collective_leave(struct hwio_collective *collective);

#endif
