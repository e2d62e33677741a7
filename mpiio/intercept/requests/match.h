/* Messages that a probe has taken. */
#ifndef HWIO_MATCH_H
#define HWIO_MATCH_H

#include "mpi/control.h"

bool hwio_match_any(void);

/* Returns true if other threads may probe. Then no probe may take a message between a receive's check and MPI's
 * receive: lock and unlock ensure that. Otherwise they do nothing. */
bool hwio_match_is_shared(void);
void hwio_match_lock(bool is_shared);
void hwio_match_unlock(bool is_shared);

/* Receives such a message if one matches, and unlocks. False: MPI's function has to be called. */
bool hwio_match_receive(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	MPI_Status *status, bool is_shared, int *result);

/* The same for a receive that returns at once: its request has completed. */
bool hwio_match_request(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	bool is_shared, MPI_Request *request);

/* The same in two steps: the caller that claims a message receives it. NULL: none matches. */
struct hwio_probed;
bool hwio_match_is_probed(int source, int tag, MPI_Comm comm, MPI_Status *status);
struct hwio_probed *hwio_match_claim(int source, int tag, MPI_Comm comm);
int hwio_match_deliver(struct hwio_probed *one, void *buffer, MPI_Count count, MPI_Datatype type, MPI_Status *status);
/* Copies a status that is to be the program's, except for its error, which MPI sets only in some calls. */
void hwio_match_copy_status(const MPI_Status *from, MPI_Status *status);

#endif
