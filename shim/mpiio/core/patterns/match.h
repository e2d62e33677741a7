/* Messages that a probe has taken. */
#ifndef HW_MATCH_H
#define HW_MATCH_H

#include "../mpi/control.h"

bool hw_match_any(void);

/* Receives such a message if one matches. False: MPI has to. */
bool hw_match_taken(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		    MPI_Status *status, int *result);

/* The same for a receive that doesn't wait. */
bool hw_match_request(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		      MPI_Request *request);

#endif
