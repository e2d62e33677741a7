/* Unformatted READ and WRITE of whole arrays in Fortran, compiled by GCC. libgfortran transfers them by read and write,
 * but arrays of several dimensions column by column, through its own buffer. */
#ifndef HWIO_FORTRAN_H
#define HWIO_FORTRAN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hwio_context;

/* The memory of the array that this thread transfers; both NULL: the array is not contiguous. */
struct hwio_fortran_array {
	const char *low, *high;
	/* Up to here the origin of the data is known. */
	const char *known;
	bool is_active;
};
extern __thread struct hwio_fortran_array hwio_fortran_array __attribute__((tls_model("initial-exec")));

/* Returns true if a read made now fills libgfortran's buffer, not the program's memory. */
static inline bool hwio_fortran_is_buffer(const void *memory, size_t bytes)
{
	const struct hwio_fortran_array *array = &hwio_fortran_array;
	return array->is_active &&
		((const char *)memory < array->low || (const char *)memory + bytes > array->high || !array->low);
}

/* The same by the context, outside of array transfers. */
bool hwio_fortran_is_other(const struct hwio_context *context);
/* Called when a read of a part was deferred or recorded: records earlier bytes that came from libgfortran's buffer. */
void hwio_fortran_transferred(int descriptor, const void *memory, size_t bytes, off_t offset);

#endif
