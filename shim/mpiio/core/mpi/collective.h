/* Small collective file operations, which one rank does for all where that is faster. */
#ifndef HWIO_COLLECTIVE_H
#define HWIO_COLLECTIVE_H

#include <mpi.h>

#include "opened.h"

/* Agrees with all ranks of the communicator after they have tried to open a file. `opened`: NULL if this rank has
 * failed. Returns NULL on all ranks or on none. */
struct hwio_collective *hwio_collective_open(MPI_Comm comm, const struct hwio_opened *opened);
/* Called by all ranks before they close the file. */
void hwio_collective_close(struct hwio_collective *collective);
/* Called by all ranks when offsets are no longer bytes, or order matters: operations are not examined any more. */
void hwio_collective_leave(struct hwio_collective *collective);

#endif
