/* Finds out whether all ranks of a job on one node have this library switched on. A collective operation of the library
 * would never end if one rank didn't call it. */
#ifndef HWIO_RENDEZVOUS_H
#define HWIO_RENDEZVOUS_H

#include <stdbool.h>

/* Announces this rank; called before MPI_Init. */
void hwio_rendezvous_begin(void);
/* Returns, once MPI is up, whether all `ranks` ranks have announced themselves; the same on all of them. 0: this rank
 * withdraws. */
bool hwio_rendezvous_end(int ranks);

#endif
