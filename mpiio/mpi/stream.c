/* Data that could not be read from the file is sent as messages. */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/waits.h"
#include "mpi/control.h"
#include "real.h"

void hwio_pause(void)
{
	static __thread unsigned int turns;
	if (++turns % 64 == 0) {
		struct timespec moment = {0, HWIO_NAP_NS};
		nanosleep(&moment, NULL);
	} else {
		sched_yield();
	}
}

/* Number of yields before the first sleep. */
#define YIELDS_MAX 8

int hwio_wait_sparingly(MPI_Request *request)
{
	struct timespec moment = {0, HWIO_NAP_NS};
	int is_done = 0, result = MPI_SUCCESS;
	for (int tests = 0;
		(result = hwio_real.MPI_Test(request, &is_done, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !is_done;
		tests++) {
		if (tests < YIELDS_MAX)
			sched_yield();
		else
			nanosleep(&moment, NULL);
	}
	return result;
}

void hwio_together_reduce(const void *own, void *all, int count, MPI_Datatype type, MPI_Op operation)
{
	MPI_Request request;
	if (hwio_real.MPI_Iallreduce(own, all, count, type, operation, hwio_control, &request) == MPI_SUCCESS)
		hwio_wait_sparingly(&request);
}

void hwio_together_broadcast(void *memory, int bytes)
{
	MPI_Request request;
	if (hwio_real.MPI_Ibcast(memory, bytes, MPI_BYTE, 0, hwio_control, &request) == MPI_SUCCESS)
		hwio_wait_sparingly(&request);
}

void hwio_together_wait(void)
{
	MPI_Request request;
	if (hwio_real.MPI_Ibarrier(hwio_control, &request) == MPI_SUCCESS)
		hwio_wait_sparingly(&request);
}

/* Both sides compute it. */
static size_t piece_bytes(size_t bytes)
{
	size_t least = bytes / HWIO_PIECES_MAX + (bytes % HWIO_PIECES_MAX != 0);
	if (least > HWIO_PIECE_BYTES_MAX)
		return HWIO_PIECE_BYTES_MAX;
	return least > HWIO_PIECE_BYTES_MIN ? least : HWIO_PIECE_BYTES_MIN;
}

static bool transfer_stream(const struct hwio_layout *layout, size_t bytes, int peer, int tag, bool is_send)
{
	size_t most = piece_bytes(bytes);
	char *piece = malloc(bytes < most ? bytes + 1 : most);
	bool is_good = piece;
	for (size_t done = 0; done < bytes && is_good;) {
		size_t part = bytes - done < most ? bytes - done : most;
		if (is_send) {
			hwio_layout_copy(layout, done, piece, part, false);
			is_good = hwio_real.MPI_Send(piece, (int)part, MPI_BYTE, peer, tag, hwio_control) ==
				MPI_SUCCESS;
		} else {
			is_good = hwio_real.MPI_Recv(piece, (int)part, MPI_BYTE, peer, tag, hwio_control,
					  MPI_STATUS_IGNORE) == MPI_SUCCESS;
			if (is_good && layout)
				hwio_layout_copy(layout, done, piece, part, true);
		}
		done += part;
	}
	free(piece);
	return is_good;
}

bool hwio_stream_send(const struct hwio_layout *layout, size_t bytes, int world_rank, int tag)
{
	return transfer_stream(layout, bytes, world_rank, tag, true);
}

bool hwio_stream_receive(const struct hwio_layout *layout, size_t bytes, int world_rank, int tag)
{
	return transfer_stream(layout, bytes, world_rank, tag, false);
}

void hwio_copy_send(struct hwio_copy *copy, char *data, size_t bytes, int world_rank, int tag)
{
	size_t most = piece_bytes(bytes);
	copy->data = data;
	for (size_t done = 0; done < bytes; done += most) {
		size_t part = bytes - done < most ? bytes - done : most;
		hwio_real.MPI_Isend(data + done, (int)part, MPI_BYTE, world_rank, tag, hwio_control,
			&copy->sending[copy->pieces++]);
	}
}

bool hwio_copy_is_sent(struct hwio_copy *copy)
{
	int is_sent = 1;
	if (copy->data)
		hwio_real.MPI_Testall(copy->pieces, copy->sending, &is_sent, MPI_STATUSES_IGNORE);
	if (is_sent) {
		free(copy->data);
		copy->data = NULL;
	}
	return is_sent;
}
