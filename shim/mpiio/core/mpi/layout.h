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

/*
 * A type of MPI's own, whose elements have no gaps; such a type is never freed. Or, with 0 bytes, one that isn't: what
 * has its name later isn't either.
 */
struct hw_basic {
	MPI_Datatype type;
	size_t bytes;
};

#define HW_BASICS 8
/* Those that this thread has used lately. */
extern __thread struct hw_basic hw_basics[HW_BASICS] __attribute__((tls_model("initial-exec")));
size_t hw_basic_look(MPI_Datatype type);

static inline struct hw_basic *hw_basic_place(MPI_Datatype type)
{
	return &hw_basics[((uintptr_t)type ^ (uintptr_t)type >> 9) % HW_BASICS];
}

/* Bytes of an element, 0 of another type. */
static inline size_t hw_basic_bytes(MPI_Datatype type)
{
	const struct hw_basic *one = hw_basic_place(type);
	return one->type == type ? one->bytes : hw_basic_look(type);
}

/* Whether it is some elements of a basic type and of fewer bytes; another type is never said to be. */
static inline bool hw_is_basic_below(int count, MPI_Datatype type, size_t bytes)
{
	return (size_t)count < bytes && (size_t)count * hw_basic_bytes(type) - 1 < bytes - 1;
}

#endif
