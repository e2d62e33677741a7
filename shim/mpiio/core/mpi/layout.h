/* Where a buffer's bytes lie in memory, in the order in which MPI sends them. */
#ifndef HWIO_LAYOUT_H
#define HWIO_LAYOUT_H

#include <mpi.h>

#include "../engine.h"

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

/* Of `count` elements of the type at `buffer`. False, with nothing to free: it isn't understood, or there is no
 * memory. */
bool hwio_layout_make(struct hwio_layout *layout, const void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_layout_free(struct hwio_layout *layout);
/* The layout of the first bytes of the stream; it is freed with the whole. */
struct hwio_layout hwio_layout_prefix(const struct hwio_layout *layout, size_t bytes);
/* Copies `bytes` from position `from` of the buffer's stream into `to`, or with `is_write` the other way. */
void hwio_layout_copy(const struct hwio_layout *layout, size_t from, void *memory, size_t bytes, bool is_write);
/* Bytes of so many elements, 0 for what has no size. */
size_t hwio_type_bytes(MPI_Count count, MPI_Datatype type);

/* A type of MPI's own, whose elements have no gaps; such a type is never freed. With 0 bytes, a type that isn't
 * one; nor is a later type with its handle. */
struct hwio_basic {
	MPI_Datatype type;
	size_t bytes;
};

#define HWIO_BASICS 8
/* Those that this thread has used lately. */
extern __thread struct hwio_basic hwio_basics[HWIO_BASICS] __attribute__((tls_model("initial-exec")));
size_t hwio_basic_find(MPI_Datatype type);

static inline struct hwio_basic *hwio_basic_slot(MPI_Datatype type)
{
	return &hwio_basics[((uintptr_t)type ^ (uintptr_t)type >> 9) % HWIO_BASICS];
}

/* Bytes of an element, 0 of another type. */
static inline size_t hwio_basic_bytes(MPI_Datatype type)
{
	const struct hwio_basic *one = hwio_basic_slot(type);
	return one->type == type ? one->bytes : hwio_basic_find(type);
}

/* Whether it is some elements of a basic type and of fewer bytes; another type is never said to be. */
static inline bool hwio_is_basic_below(int count, MPI_Datatype type, size_t bytes)
{
	return (size_t)count < bytes && (size_t)count * hwio_basic_bytes(type) - 1 < bytes - 1;
}

#endif
