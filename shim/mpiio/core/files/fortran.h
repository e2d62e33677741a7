/*
 * Fortran's READ and WRITE of whole arrays without formats, as programs of GCC make them: libgfortran moves them by
 * read and write, but an array of several dimensions column by column, through a buffer of its own.
 */
#ifndef HWIO_FORTRAN_H
#define HWIO_FORTRAN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hwio_context;

/* The memory of the array that this thread transfers; both NULL: of one that lies in pieces. */
struct hwio_fortran_array {
	const char *low, *high;
	/* So far it is known where its data came from. */
	const char *known;
	bool is_active;
};
extern __thread struct hwio_fortran_array hwio_fortran_array __attribute__((tls_model("initial-exec")));

/* Whether a read made now fills a buffer of libgfortran's, not the program's memory. */
static inline bool hwio_fortran_is_buffer(const void *memory, size_t bytes)
{
	const struct hwio_fortran_array *array = &hwio_fortran_array;
	return array->is_active &&
		((const char *)memory < array->low || (const char *)memory + bytes > array->high || !array->low);
}

/* The same by the context, where no array is transferred. */
bool hwio_fortran_is_other(const struct hwio_context *context);
/* A part of the array was deferred, or its read recorded: earlier bytes may come from the buffer. */
void hwio_fortran_transferred(int descriptor, const void *memory, size_t bytes, off_t offset);

#endif
