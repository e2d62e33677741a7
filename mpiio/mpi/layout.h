/* Where a buffer's bytes lie in memory, in the order in which MPI sends them. */
#ifndef HWIO_LAYOUT_H
#define HWIO_LAYOUT_H

#include <mpi.h>

#include "base/engine.h"

/* A layout with more blocks than this is left alone. */
#define HWIO_BLOCKS_MAX 262144

struct hwio_block {
	/* From the buffer's address. */
	intptr_t at;
	size_t bytes;
};

struct hwio_layout {
	char *buffer;
	size_t bytes;
	/* From the first byte to behind the last one. */
	uintptr_t low, high;
	size_t count;
	struct hwio_block *blocks;
	struct hwio_block single;
};

/* Makes the layout of `count` elements at `buffer`. False, with nothing to free: the type isn't understood, or there is
 * no memory. */
bool hwio_layout_make(struct hwio_layout *layout, const void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_layout_free(struct hwio_layout *layout);
/* Returns the layout of the stream's first bytes, which is freed with the whole. */
struct hwio_layout hwio_layout_prefix(const struct hwio_layout *layout, size_t bytes);
/* Copies `bytes` bytes from position `from` of the buffer's stream into `memory`; with `is_write`, the inverse. */
void hwio_layout_copy(const struct hwio_layout *layout, size_t from, void *memory, size_t bytes, bool is_write);
/* Returns the bytes of `count` elements; 0 if they have no size. */
size_t hwio_type_bytes(MPI_Count count, MPI_Datatype type);

/* One of MPI's own types, which have no gaps and are never freed. With 0 bytes, the handle of another type. */
struct hwio_basic {
	MPI_Datatype type;
	size_t bytes;
};

#define HWIO_BASICS 8
/* Cache of the types that this thread used lately. */
extern __thread struct hwio_basic hwio_basics[HWIO_BASICS] __attribute__((tls_model("initial-exec")));
size_t hwio_basic_find(MPI_Datatype type);

static inline struct hwio_basic *hwio_basic_slot(MPI_Datatype type)
{
	return &hwio_basics[((uintptr_t)type ^ (uintptr_t)type >> 9) % HWIO_BASICS];
}

/* Returns the bytes of an element; 0 if the type isn't basic. */
static inline size_t hwio_basic_bytes(MPI_Datatype type)
{
	const struct hwio_basic *one = hwio_basic_slot(type);
	return one->type == type ? one->bytes : hwio_basic_find(type);
}

/* Returns true if it is one or more elements of a basic type, of fewer than `bytes` bytes. */
static inline bool hwio_is_basic_below(int count, MPI_Datatype type, size_t bytes)
{
	return (size_t)count < bytes && (size_t)count * hwio_basic_bytes(type) - 1 < bytes - 1;
}

#endif
