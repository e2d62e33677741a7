/* A core that changes nothing: it writes the name of each function that the program calls into the file that
 * HEADWATER_TRACE names, one a line. Tests read there what the front and the generated wrappers do. */
#include <string.h>

#include "real.h"
#include "buffer_effects.h"
#include "trace.h"
#include "variant.h"

volatile int hwio_is_busy = 1;
__thread int hwio_depth, hwio_stays_in_use, hwio_is_exposed;
static int trace = -1;

void hwio_trace(const char *name)
{
	char line[128];
	size_t length = strnlen(name, sizeof(line) - 1);

	if (hwio_depth > 0 || trace < 0)
		return;
	memcpy(line, name, length);
	line[length++] = '\n';
	/* The original, which isn't traced. */
	hwio_libc.write(trace, line, length);
}

int hwio_variant_start(void *libmpi, void *(*next)(const char *name))
{
	const char *path = getenv("HEADWATER_TRACE");

	if (!hwio_bind_real(libmpi, next))
		return -1;
	if (path != NULL)
		trace = hwio_libc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	return 0;
}

const struct hwio_runtime_entry hwio_runtime[] = {{NULL, NULL, NULL, NULL}};

void hwio_settle_everything(void)
{
	hwio_trace("vfork");
}

void hwio_reprotect(void)
{
	hwio_is_exposed = 0;
}

void hwio_complete_writes(void)
{
	hwio_trace("hwio_complete_writes");
}

void hwio_communicates(void)
{
	hwio_trace("hwio_communicates");
}

void hwio_allocated(void *memory, MPI_Aint bytes)
{
	(void)memory;
	hwio_trace(bytes > 0 ? "hwio_allocated" : "hwio_allocated nothing");
}

void hwio_freed(void *memory)
{
	(void)memory;
	hwio_trace("hwio_freed");
}

int hwio_is_root(int root, MPI_Comm comm)
{
	int rank = -1;

	return hwio_real.MPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == root;
}

int hwio_peers(MPI_Comm comm)
{
	return hwio_group_size(comm);
}

int hwio_group_size(MPI_Comm comm)
{
	int size = 0;

	hwio_real.MPI_Comm_size(comm, &size);
	return size;
}

int hwio_sources(MPI_Comm comm)
{
	return hwio_group_size(comm);
}

int hwio_destinations(MPI_Comm comm)
{
	return hwio_group_size(comm);
}

/* All of these only record that they were called. */
#define ROLE(NAME, ...) \
	void NAME(__VA_ARGS__) \
	{ \
		hwio_trace(#NAME); \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"

ROLE(hwio_uses, const void *buffer, MPI_Count count, MPI_Datatype type)
ROLE(hwio_uses_sum, const void *buffer, const int counts[], MPI_Datatype type, int parts)
ROLE(hwio_uses_sum_c, const void *buffer, const MPI_Count counts[], MPI_Datatype type, int parts)
ROLE(hwio_uses_v, const void *buffer, const int counts[], const int displacements[], MPI_Datatype type, int parts)
ROLE(hwio_uses_v_c, const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	int parts)
ROLE(hwio_uses_w, const void *buffer, const int counts[], const int displacements[], const MPI_Datatype types[],
	int parts)
ROLE(hwio_uses_w_near, const void *buffer, const int counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], int parts)
ROLE(hwio_uses_w_c, const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], int parts)
