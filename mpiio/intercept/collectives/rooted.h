/* MPI_Scatter and MPI_Gather, with their relatives, as the program called them. The root has the arguments of all
 * parts, each other rank those of its own. */
#ifndef HWIO_ROOTED_H
#define HWIO_ROOTED_H

#include "base/context.h"
#include "base/left.h"
#include "mpi/control.h"
#include "mpi/turn.h"

struct hwio_rooted {
	enum hwio_turn_kind kind;
	const void *send;
	MPI_Count send_count;
	MPI_Datatype send_type;
	void *receive;
	MPI_Count receive_count;
	MPI_Datatype receive_type;
	/* True for MPI_Scatterv and MPI_Gatherv, and for their twins with large counts, which Python's mpi4py calls if
	 * MPI has them. */
	bool has_counts, is_large;
	const int *counts, *displacements;
	const MPI_Count *large_counts;
	const MPI_Aint *large_displacements;
	int root;
	MPI_Comm comm;
	struct hwio_comm *known;
	struct hwio_context *context;
	/* At the root: why the operation isn't transformed. */
	enum hwio_left why;
	/* At the root, of a scatter. */
	struct part *parts;
	struct hwio_file *file;
	/* At the root, of a gather. */
	struct hwio_layout *layouts;
};

/* The arguments of a call whose parameters have these names. */
#define HWIO_ROOTED(operation, ...) \
	{ \
		.kind = operation, .send = send, .send_type = send_type, .receive = receive, \
		.receive_type = receive_type, .root = root, .comm = comm, __VA_ARGS__ \
	}

/* Returns the memory of a rank's part at the root, and its number of elements. */
void *hwio_rooted_block(const struct hwio_rooted *call, int rank, MPI_Count *count);
/* Returns the bytes of all parts. */
size_t hwio_rooted_bytes(const struct hwio_rooted *call);
/* Returns the bytes of one part, which both sides know, of a struct hwio_rooted without counts. */
size_t hwio_rooted_part_bytes(const struct hwio_rooted *call);
/* Counts an operation in which all ranks name the size of one part; some of the operations compare the sizes. False: they
 * have differed once. The standard forbids that and MPIs let it pass, but ranks would decide differently. */
bool hwio_rooted_is_even(const struct hwio_rooted *call);
bool hwio_rooted_is_root(const struct hwio_rooted *call);
/* Fills the memory that the root of a scatter sends from. */
void hwio_rooted_fill_source(const struct hwio_rooted *scatter);
/* Discards what a gather will overwrite at the root. A call that MPI refuses leaves the memory as it is: for such
 * arguments it is filled. */
void hwio_rooted_clear_destination(const struct hwio_rooted *gather);
/* Records that the root's scatter is not transformed. */
void hwio_rooted_scatter_left(const struct hwio_rooted *scatter);
/* Records that the root's gather is not transformed; it is counted if the data is written. */
void hwio_rooted_gather_left(const struct hwio_rooted *gather);
/* Returns true if the operation, which returns at once, is carried out by MPI's function with counts in place of the one
 * without: the same on all ranks, if all name the same size, as the standard requires. */
bool hwio_rooted_goes_by_counts(const struct hwio_rooted *call);
/* Makes the call one with counts; at the root a part is one element of a type of its own. Returns memory that MPI needs
 * until the operation ends, or NULL. After MPI's function is called, hwio_rooted_end_count is. */
int *hwio_rooted_count_parts(struct hwio_rooted *call);
void hwio_rooted_end_count(struct hwio_rooted *call);
/* Returns true if MPI would accept the arguments. */
bool hwio_rooted_is_sound(const struct hwio_rooted *call);

#endif
