/* Messages that a probe has taken. */
#ifndef HWIO_MATCH_H
#define HWIO_MATCH_H

#include "../mpi/control.h"

bool hwio_match_any(void);

/*
 * Whether other threads may probe. Then from the look for such a message until MPI has the receive, no probe may take
 * one: the two others do nothing otherwise.
 */
bool hwio_match_is_shared(void);
void hwio_match_lock(bool is_shared);
void hwio_match_unlock(bool is_shared);

/* Receives such a message if one matches, and unlocks. False: MPI has to. */
bool hwio_match_taken(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	MPI_Status *status, bool is_shared, int *result);

/* The same for a receive that doesn't wait: its request has completed. */
bool hwio_match_request(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	bool is_shared, MPI_Request *request);

/* In two steps: the caller that claims a message receives it. NULL: none matches. */
struct hwio_taken;
bool hwio_match_is_taken(int source, int tag, MPI_Comm comm, MPI_Status *status);
struct hwio_taken *hwio_match_claim(int source, int tag, MPI_Comm comm);
int hwio_match_deliver(struct hwio_taken *one, void *buffer, MPI_Count count, MPI_Datatype type, MPI_Status *status);

#endif
