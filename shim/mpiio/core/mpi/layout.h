/* Where a buffer's bytes lie in memory, in the order in which MPI sends them. */
#ifndef HW_LAYOUT_H
#define HW_LAYOUT_H

#include <mpi.h>

#include "../engine.h"

/* A layout with more blocks than this is left alone. */
#define HW_BLOCKS_MAX 262144

struct hw_block {
	/* From the buffer's address. */
	intptr_t at;
	size_t bytes;
};

struct hw_layout {
	char *buffer;
	size_t bytes;
	/* From the first byte to behind the last one. */
	uintptr_t low, high;
	size_t count;
	struct hw_block *blocks;
	struct hw_block single;
};

/* Of `count` elements of the type at `buffer`. False, with nothing to free: it isn't understood, or there is no memory. */
bool hw_layout_make(struct hw_layout *layout, const void *buffer, MPI_Count count, MPI_Datatype type);
void hw_layout_free(struct hw_layout *layout);
/* The layout of the first bytes of the stream; it is freed with the whole. */
struct hw_layout hw_layout_prefix(const struct hw_layout *layout, size_t bytes);
/* Copies `bytes` from position `from` of the buffer's stream into `to`, or with `is_write` the other way. */
void hw_layout_copy(const struct hw_layout *layout, size_t from, void *memory, size_t bytes, bool is_write);
/* Bytes of so many elements, 0 for what has no size. */
size_t hw_type_bytes(MPI_Count count, MPI_Datatype type);

#endif
