/* MPI_Ibcast is left to MPI: each part of its tree needs the data's size. What was read is reported with the reason. */
#include "base/left.h"
#include "intercept/generated-calls.h"
#include "intercept/messages/pack.h"
#include "mpi/layout.h"
#include "real.h"

static void note_left(const void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm)
{
	if (!hwio_is_busy && hwio_left_reads.high == 0 && !hwio_left_any_unsent())
		return;
	const struct hwio_comm *known = hwio_comm_of(comm);
	size_t bytes = hwio_type_bytes(count, type);
	if (!known || known->rank != root)
		return;
	if (hwio_is_deferred_read(buffer, count, type))
		hwio_left_count(HWIO_READ_BROADCAST, bytes, HWIO_LEFT_AT_ONCE);
	else
		hwio_left_forwarded_so(HWIO_READ_BROADCAST, buffer, bytes, HWIO_LEFT_AT_ONCE);
}

int hwio_MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
	if (hwio_depth == 0 && hwio_mode != HWIO_OFF)
		note_left(buffer, count, type, root, comm);
	if (hwio_is_busy && hwio_depth == 0) {
		hwio_communicates();
		hwio_uses(buffer, count, type);
	}
	return HWIO_INSIDE(hwio_real.MPI_Ibcast(buffer, count, type, root, comm, request));
}
