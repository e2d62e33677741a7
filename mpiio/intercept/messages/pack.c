/* MPI_Pack copies what the program has read. What is sent then is reported, with the reason. */
#include "intercept/messages/pack.h"

#include "base/left.h"
#include "intercept/generated-calls.h"
#include "memory/deferred.h"
#include "memory/records.h"
#include "mpi/layout.h"
#include "real.h"

bool hwio_is_deferred_read(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	uintptr_t low = (uintptr_t)buffer;
	if (low >= hwio_records_high)
		return false;
	uintptr_t high = low + hwio_type_bytes(count, type);
	return hwio_may_be_recorded(low, high) && hwio_deferred_in(low, high);
}

int hwio_MPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int out_bytes, int *position, MPI_Comm comm)
{
	bool is_outer = hwio_depth == 0 && hwio_mode != HWIO_OFF;
	bool is_read = is_outer && count > 0 && (hwio_left_is_read(in) || hwio_is_deferred_read(in, count, type));
	if (hwio_is_busy && hwio_depth == 0) {
		hwio_uses(in, count, type);
		hwio_uses(out, out_bytes, MPI_BYTE);
	}
	int result = HWIO_INSIDE(hwio_real.MPI_Pack(in, count, type, out, out_bytes, position, comm));
	/* From the beginning: a header may have been packed before. */
	if (is_read && result == MPI_SUCCESS)
		hwio_left_packed(out, (size_t)*position);
	return result;
}
