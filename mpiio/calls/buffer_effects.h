/* Calls by which the generated wrappers report the memory that a call of MPI is about to use. NULL, MPI_BOTTOM and
 * MPI_IN_PLACE are valid buffers. What is deferred in it is filled before, even if the call will overwrite it, since a
 * call that fails leaves it as it was. Wrappers make these calls only while something is deferred (hwio_is_busy) or when
 * the memory stays in use (hwio_stays_in_use), and never from within MPI (hwio_depth). */
#ifndef HWIO_BUFFER_EFFECTS_H
#define HWIO_BUFFER_EFFECTS_H

#include <mpi.h>
#include <stddef.h>

#include "base/depth.h"

/* True if the reported memory stays in use after the call: it is never deferred again. */
extern __thread int hwio_stays_in_use __attribute__((tls_model("initial-exec")));

/* Called before MPI communicates, synchronises, or changes a file. */
void hwio_communicates(void);
/* Called after MPI has allocated memory for the program that other processes may use. */
void hwio_allocated(void *memory, MPI_Aint bytes);
/* Called before the program frees memory that MPI has allocated. */
void hwio_freed(void *memory);
/* Returns whether the caller is the root. */
int hwio_is_root(int root, MPI_Comm comm);

/* A count and its type: of a count larger than an int, `type` becomes one element of that many, which `hwio_large_free`
 * frees. */
struct hwio_large {
	int count;
	int is_made;
};
struct hwio_large hwio_large(MPI_Count count, MPI_Datatype *type);
void hwio_large_free(struct hwio_large *large, MPI_Datatype *type);

/* Called before others may see what was written: completes the writes of other ranks. */
void hwio_complete_writes(void);
/* Called before a C library function by which the kernel accesses this memory. */
void hwio_kernel_uses(const void *memory, size_t bytes);
/* Assumed size of memory whose length is unknown. */
#define HWIO_UNSIZED_BYTES 4096

void hwio_uses(const void *buffer, MPI_Count count, MPI_Datatype type);
/* The counts of so many parts, which are contiguous. */
void hwio_uses_sum(const void *buffer, const int counts[], MPI_Datatype type, int parts);
void hwio_uses_sum_c(const void *buffer, const MPI_Count counts[], MPI_Datatype type, int parts);
/* So many parts, each with a count, and a displacement in extents of the type. */
void hwio_uses_v(const void *buffer, const int counts[], const int displacements[], MPI_Datatype type, int parts);
void hwio_uses_v_c(const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	int parts);
/* The same with a type for each, and displacements in bytes; _near: those of neighbours. */
void hwio_uses_w(const void *buffer, const int counts[], const int displacements[], const MPI_Datatype types[],
	int parts);
void hwio_uses_w_near(const void *buffer, const int counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], int parts);
void hwio_uses_w_c(const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], int parts);

/* Return how many parts a call has: one for each process of the communicator or of an inter-communicator's other
 * group; of its own group; of the neighbours that the caller receives from; of those that it sends to. */
int hwio_peers(MPI_Comm comm);
int hwio_group_size(MPI_Comm comm);
int hwio_sources(MPI_Comm comm);
int hwio_destinations(MPI_Comm comm);

#endif
