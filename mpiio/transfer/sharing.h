/* A part of a file that all ranks of a communicator want: one rank of each node reads some of its pieces, and the pieces
 * travel round a ring of all ranks. So the file system sends each byte once, each link carries each byte once, and
 * reading and sending overlap. */
#ifndef HWIO_SHARING_H
#define HWIO_SHARING_H

#include "memory/file.h"
#include "mpi/control.h"
#include "mpi/layout.h"
#include "mpi/runs.h"

struct hwio_sharing {
	struct hwio_comm *comm;
	/* Distinguishes this one from those of other threads; the same on all ranks. */
	uint64_t id;
	struct hwio_file *file;
	const struct hwio_runs *runs;
	/* As many bytes as the runs have. */
	const struct hwio_layout *layout;
	/* Memory for pieces, where the program's is not in one piece. */
	char *staging;
};

/* Returns true if this rank can take part. hwio_sharing_read needs that of all ranks. */
bool hwio_sharing_prepare(struct hwio_sharing *sharing);
/* Reads all of it, on all ranks. False: this rank couldn't read something, or the file has changed. */
bool hwio_sharing_read(const struct hwio_sharing *sharing);
void hwio_sharing_free(struct hwio_sharing *sharing);

#endif
