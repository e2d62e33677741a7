/*
 * Rank 0 reads one part after the other into a buffer that it uses again, and sends it; the others receive: the data,
 * and the fields of the status.
 */
#ifndef HEADWATER_MPIIO_MESSAGES_H
#define HEADWATER_MPIIO_MESSAGES_H

#include "safety.h"

enum { TAG = 40 };

/* MPICH's probes don't set whether it was cancelled: their statuses begin as zeros. */
static inline void note_status(const MPI_Status *status, MPI_Datatype type)
{
	int count = -7, elements = -7, cancelled = -7;

	MPI_Get_count(status, type, &count);
	MPI_Get_elements(status, type, &elements);
	MPI_Test_cancelled(status, &cancelled);
	note("from %d, tag %d, count %d, elements %d, cancelled %d", status->MPI_SOURCE, status->MPI_TAG, count,
		elements, cancelled);
}

typedef void receive(char *mine);

/* Rank 0 reads a part for each rank and sends it by this call; each receives by `receives`. */
static inline __attribute__((always_inline)) void read_and(int (*send)(char *, int), receive *receives)
{
	char *name = path("in"), *mine = memory(PART + 5000);

	memset(mine, 'm', PART + 5000);
	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);

		for (int to = 1; to < size; to++) {
			note_result("read", read(fd, mine, PART));
			note("send %d", send(mine, to));
		}
		close(fd);
	} else {
		receives(mine);
	}
	note_sum("mine", mine, PART + 5000);
	free(mine);
}

#define SENDS(name, call) \
	static inline __attribute__((always_inline)) int name(char *data, int to) \
	{ \
		return call(data, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD); \
	}

SENDS(plainly, MPI_Send)

static inline __attribute__((always_inline)) int at_once(char *data, int to)
{
	MPI_Request request;

	MPI_Isend(data, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request);
	return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The size of one element with gaps, or of a part of it. */
static inline __attribute__((always_inline)) int partly(char *data, int to)
{
	return MPI_Send(data, odd() ? PART / 7 * 4 : PART / 2, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

/* In two messages, of which the second is a part of the first again. */
static inline __attribute__((always_inline)) int twice(char *data, int to)
{
	MPI_Send(data, PART / 2, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
	return MPI_Send(data + PART / 3, PART / 2, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

#define CASE(name, send, receives) \
	static void name(void) \
	{ \
		read_and(send, receives); \
	}

#endif
