/* Sends of data that is in a file, or will be: a hint or an offer replaces the data. */
#ifndef HWIO_SEND_H
#define HWIO_SEND_H

#include "mpi/control.h"
#include "mpi/runs.h"

/* The data of a hint: the program's arguments, and the file that they lead to. */
struct hwio_hinted {
	struct hwio_comm *comm;
	struct hwio_layout layout;
	struct hwio_runs runs;
	struct hwio_file *file;
	struct hwio_context *context;
};

struct hwio_hint;

/* Returns true if the data can be hinted, and MPI would send it. Then hwio_hint_end is to be called. */
bool hwio_hint_find(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
	struct hwio_hinted *sending);
void hwio_hint_end(struct hwio_hinted *sending);
/* Makes the hint. False: the file is about to change. */
bool hwio_hint_make(const struct hwio_hinted *sending, int peer, struct hwio_hint *hint);
/* Returns true if the data is sent besides the hint with this number, without waiting. */
bool hwio_hint_verify(const struct hwio_hinted *sending, uint64_t id, const void *buffer, int peer);
/* Prepares a send's memory before the original is called. */
void hwio_before_send(const void *buffer, MPI_Count count, MPI_Datatype type);

struct hwio_hint;
/* Returns a hint that stands for this message, which is sent as hwio_hint_bytes() bytes, and freed after that. NULL: the
 * data has to be sent. */
struct hwio_hint *hwio_hint_for(const void *buffer, MPI_Count count, MPI_Datatype type, int destination, int tag,
	MPI_Comm comm);
/* Frees a hint that was not sent. */
void hwio_hint_cancel(struct hwio_hint *hint, int destination, MPI_Comm comm);

#endif
