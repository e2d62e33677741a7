/* Passes a contiguous array to libgfortran as one of a single dimension. It has the same elements in the same order,
 * and is transferred directly between file and memory; libgfortran copies parts of less than half its buffer. The
 * interface is that of soname libgfortran.so.5, GCC 8 and later.
 *
 * Records behave as before. A direct-access record that is too short for the array is not written, where libgfortran
 * would have written columns. After a failed READ, the Fortran standard calls the array undefined, and so the position
 * after a sequential record that was too short. Both are then those of an array of one dimension. */
#include "intercept/files/fortran.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "memory/deferred.h"
#include "real.h"
#include "intercept/files/instead.h"
#include "variant.h"

/* Flags of a data transfer statement. */
#define HAS_ENDED 0x3
#define LIST_FORMAT (1 << 7)
#define NAMELIST_READ (1 << 8)
#define HAS_RECORD (1 << 9)
#define HAS_SIZE (1 << 10)
#define HAS_LENGTH (1 << 11)
#define HAS_FORMAT (1 << 12)
#define IS_INTERNAL (1 << 14)
#define HAS_NAMELIST (1 << 15)
#define HAS_ID (1 << 16)
#define IS_ASYNCHRONOUS (1 << 18)
#define IS_OTHER \
	(HAS_ENDED | LIST_FORMAT | NAMELIST_READ | HAS_SIZE | HAS_LENGTH | HAS_FORMAT | IS_INTERNAL | HAS_NAMELIST | \
		HAS_ID | IS_ASYNCHRONOUS)

/* Types of elements that are plain bytes. */
#define TYPE_INTEGER 1
#define TYPE_COMPLEX 4
#define TYPE_CHARACTER 6

#define DIMENSIONS_MAX 15
/* libgfortran's buffer has 128 KiB by default; larger gaps can't come from it. */
#define BUFFER_BYTES_MAX (4UL << 20)

/* The beginning of a statement's parameters. */
struct statement {
	int32_t flags;
};

struct array {
	char *data;
	size_t offset;
	size_t element_bytes;
	int version;
	signed char rank, type;
	short attribute;
	ptrdiff_t span;
	struct dimension {
		ptrdiff_t stride, lower, upper;
	} dimensions[DIMENSIONS_MAX];
};

typedef void transfer_call(struct statement *statement, struct array *array, int kind, size_t characters);

__thread struct hwio_fortran_array hwio_fortran_array __attribute__((tls_model("initial-exec")));

static transfer_call *original, *original_write;
static transfer_call transfer_array, transfer_array_write;

const struct hwio_runtime_entry hwio_runtime[] = {
	{"libgfortran.so.5", "_gfortran_transfer_array", (void *)transfer_array, (void **)&original},
	{"libgfortran.so.5", "_gfortran_transfer_array_write", (void *)transfer_array_write, (void **)&original_write},
	{NULL, NULL, NULL, NULL},
};

bool hwio_fortran_is_other(const struct hwio_context *context)
{
	return context && context->is_of_runtime && original && !hwio_fortran_array.is_active;
}

/* Returns the number of elements if they are contiguous; 0 otherwise. */
static ptrdiff_t elements_of(const struct array *array, int kind, size_t characters)
{
	bool is_text = array->type == TYPE_CHARACTER && kind == 1 && array->element_bytes == characters;
	bool is_number = array->type >= TYPE_INTEGER && array->type <= TYPE_COMPLEX;
	ptrdiff_t elements = 1;
	size_t bytes;
	if (!array->data || array->version != 0 || array->rank < 1 || array->rank > DIMENSIONS_MAX ||
		(!is_text && !is_number))
		return 0;
	for (int i = 0; i < array->rank; i++) {
		const struct dimension *dimension = &array->dimensions[i];
		ptrdiff_t extent;
		if (__builtin_sub_overflow(dimension->upper, dimension->lower, &extent) || extent < 0 ||
			extent == PTRDIFF_MAX || dimension->stride != elements ||
			__builtin_mul_overflow(elements, extent + 1, &elements))
			return 0;
	}
	return __builtin_mul_overflow((size_t)elements, array->element_bytes, &bytes) || bytes > PTRDIFF_MAX ? 0
													     : elements;
}

static void transfer_elements(transfer_call *call, bool is_write, struct statement *statement, struct array *array,
	int kind, size_t characters)
{
	struct array flat;
	/* libgfortran's write function may call the read function. */
	if (hwio_mode == HWIO_OFF || hwio_depth > 0 || hwio_fortran_array.is_active || (statement->flags & IS_OTHER)) {
		call(statement, array, kind, characters);
		return;
	}
	ptrdiff_t elements = elements_of(array, kind, characters);
	size_t bytes = (size_t)elements * array->element_bytes;
	bool is_short_possible = is_write && (statement->flags & HAS_RECORD);
	if (elements > 0)
		hwio_fortran_array = (struct hwio_fortran_array){array->data, array->data + bytes, array->data, true};
	else
		hwio_fortran_array = (struct hwio_fortran_array){NULL, NULL, NULL, true};
	if (elements > 0 && array->rank > 1 && bytes >= hwio_bytes_min && !is_short_possible) {
		memcpy(&flat, array, offsetof(struct array, dimensions));
		flat.rank = 1;
		flat.dimensions[0] = (struct dimension){1, 1, elements};
		call(statement, &flat, kind, characters);
	} else {
		call(statement, array, kind, characters);
	}
	hwio_fortran_array.is_active = false;
}

static void transfer_array(struct statement *statement, struct array *array, int kind, size_t characters)
{
	transfer_elements(original, false, statement, array, kind, characters);
}

static void transfer_array_write(struct statement *statement, struct array *array, int kind, size_t characters)
{
	transfer_elements(original_write, true, statement, array, kind, characters);
}

/* Returns true if the file has these bytes at this offset. */
static bool has_bytes_at(int descriptor, const char *memory, size_t bytes, off_t offset)
{
	char *copy = malloc(bytes);
	bool is_same = copy && hwio_read_whole(descriptor, copy, bytes, offset) && memcmp(copy, memory, bytes) == 0;
	free(copy);
	return is_same;
}

void hwio_fortran_transferred(int descriptor, const void *memory, size_t bytes, off_t offset)
{
	struct hwio_fortran_array *array = &hwio_fortran_array;
	if (!array->is_active || !array->low || (const char *)memory < array->known)
		return;
	const char *from = array->known, *to = memory;
	int saved = errno;
	array->known = to + bytes;
	size_t before = to > from ? (size_t)(to - from) : 0;
	if (before > 0 && before <= BUFFER_BYTES_MAX && (off_t)before <= offset &&
		has_bytes_at(descriptor, from, before, offset - (off_t)before)) {
		if (hwio_mode == HWIO_OBSERVE)
			hwio_read_observed(descriptor, (char *)(uintptr_t)from, (ssize_t)before,
				offset - (off_t)before);
		else
			hwio_read_recorded(descriptor, (char *)(uintptr_t)from, before, offset - (off_t)before);
	}
	errno = saved;
}
