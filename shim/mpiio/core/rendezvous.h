/*
 * Whether all ranks of a job on one node have this library, and want what it does: a collective operation of ours in
 * which one of them doesn't take part would never end.
 */
#ifndef HWIO_RENDEZVOUS_H
#define HWIO_RENDEZVOUS_H

#include <stdbool.h>

/* Before MPI_Init: this rank will ask. */
void hwio_rendezvous_begin(void);
/* When MPI is up: whether all so many have begun; the same for all of them. 0: this rank doesn't ask after all. */
bool hwio_rendezvous_end(int ranks);

#endif
