/* Decodes derived types by MPI_Type_get_contents. Types with an unknown constructor have no layout. */
#include "mpi/layout.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"

/* Types nest; deeper ones are not understood. */
#define DEPTH_MAX 16
/* Maximum of one datatype's arguments. */
#define ARGUMENTS_MAX 65536

struct list {
	struct hwio_block *blocks;
	size_t count, capacity;
};

/* A type's constructor: what the function without large counts has as arguments. */
struct contents {
	int combiner, integer_count, address_count, large_count, type_count;
	int *integers;
	MPI_Aint *addresses;
	MPI_Datatype *types;
	bool is_too_much;
};

static bool flatten(MPI_Datatype type, struct list *list, int depth);

static bool append(struct list *list, intptr_t at, size_t bytes)
{
	if (bytes == 0)
		return true;
	struct hwio_block *last = list->count ? &list->blocks[list->count - 1] : NULL;
	if (last && last->at + (intptr_t)last->bytes == at) {
		last->bytes += bytes;
		return true;
	}
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 16;
		struct hwio_block *more = list->count < HWIO_BLOCKS_MAX
			? realloc(list->blocks, capacity * sizeof(*more))
			: NULL;
		if (!more)
			return false;
		list->blocks = more;
		list->capacity = capacity;
	}
	list->blocks[list->count++] = (struct hwio_block){at, bytes};
	return true;
}

/* Appends `count` copies of `part`, `stride` bytes apart. */
static bool repeat(struct list *list, const struct list *part, size_t count, intptr_t at, intptr_t stride)
{
	if (part->count == 1 && (intptr_t)part->blocks[0].bytes == stride)
		return append(list, at + part->blocks[0].at, part->blocks[0].bytes * count);
	for (size_t i = 0; i < count; i++, at += stride)
		for (size_t block = 0; block < part->count; block++)
			if (!append(list, at + part->blocks[block].at, part->blocks[block].bytes))
				return false;
	return true;
}

static bool extent_of(MPI_Datatype type, MPI_Aint *extent)
{
	MPI_Aint lower;
	return hwio_real.MPI_Type_get_extent(type, &lower, extent) == MPI_SUCCESS;
}

static bool blocks_of(struct list *list, const struct contents *c, const struct list *part, MPI_Aint extent)
{
	const int *n = c->integers;
	bool is_good = true;
	switch (c->combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED:
		return repeat(list, part, 1, 0, extent);
	case MPI_COMBINER_CONTIGUOUS:
		return repeat(list, part, (size_t)n[0], 0, extent);
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR:
		for (int i = 0; i < n[0] && is_good; i++) {
			intptr_t at = c->combiner == MPI_COMBINER_VECTOR ? (intptr_t)i * n[2] * extent
									 : i * c->addresses[0];
			is_good = repeat(list, part, (size_t)n[1], at, extent);
		}
		return is_good;
	case MPI_COMBINER_INDEXED:
	case MPI_COMBINER_HINDEXED:
		for (int i = 0; i < n[0] && is_good; i++) {
			intptr_t at = c->combiner == MPI_COMBINER_INDEXED ? n[1 + n[0] + i] * extent : c->addresses[i];
			is_good = repeat(list, part, (size_t)n[1 + i], at, extent);
		}
		return is_good;
	case MPI_COMBINER_INDEXED_BLOCK:
	case MPI_COMBINER_HINDEXED_BLOCK:
		for (int i = 0; i < n[0] && is_good; i++) {
			intptr_t at = c->combiner == MPI_COMBINER_INDEXED_BLOCK ? n[2 + i] * extent : c->addresses[i];
			is_good = repeat(list, part, (size_t)n[1], at, extent);
		}
		return is_good;
	default:
		return false;
	}
}

/* Appends a subarray, from the slowest dimension to the rows of the fastest. */
static bool subarray(struct list *list, const struct contents *c, const struct list *part, MPI_Aint extent)
{
	int dimensions = c->integers[0];
	const int *sizes = c->integers + 1, *parts = sizes + dimensions, *starts = parts + dimensions;
	bool is_c = starts[dimensions] == MPI_ORDER_C;
	int index[DEPTH_MAX] = {0};
	if (dimensions > DEPTH_MAX)
		return false;
	for (int d = 0; d < dimensions; d++)
		if (parts[d] == 0)
			return true;
			/* From the fastest dimension on. */
#define DIMENSION(d) (is_c ? dimensions - 1 - (d) : (d))
	for (;;) {
		intptr_t at = 0, step = extent;
		for (int d = 0; d < dimensions; d++) {
			int real = DIMENSION(d);
			at += (starts[real] + (d ? index[d] : 0)) * step;
			step *= sizes[real];
		}
		if (!repeat(list, part, (size_t)parts[DIMENSION(0)], at, extent))
			return false;
		int d = 1;
		while (d < dimensions && ++index[d] == parts[DIMENSION(d)])
			index[d++] = 0;
		if (d >= dimensions)
			return true;
	}
#undef DIMENSION
}

/* Gets the numbers of the constructor's arguments. False: it isn't known. */
static bool envelope_of(MPI_Datatype type, struct contents *c)
{
#if MPI_VERSION >= 4
	/* MPI_Type_get_envelope fails for types with large counts, which ends the program. */
	MPI_Count integers, addresses, large, types;
	if (!hwio_real.MPI_Type_get_envelope_c ||
		hwio_real.MPI_Type_get_envelope_c(type, &integers, &addresses, &large, &types, &c->combiner) !=
			MPI_SUCCESS)
		return false;
	c->is_too_much = integers > ARGUMENTS_MAX || addresses > ARGUMENTS_MAX || large > ARGUMENTS_MAX ||
		types > ARGUMENTS_MAX;
	c->integer_count = c->is_too_much ? 0 : (int)integers;
	c->address_count = c->is_too_much ? 0 : (int)addresses;
	c->large_count = c->is_too_much ? 0 : (int)large;
	c->type_count = c->is_too_much ? 0 : (int)types;
	return true;
#else
	bool is_known = hwio_real.MPI_Type_get_envelope(type, &c->integer_count, &c->address_count, &c->type_count,
				&c->combiner) == MPI_SUCCESS;
	c->large_count = 0;
	c->is_too_much = is_known &&
		(c->integer_count > ARGUMENTS_MAX || c->address_count > ARGUMENTS_MAX || c->type_count > ARGUMENTS_MAX);
	return is_known;
#endif
}

static void free_type(MPI_Datatype type)
{
	struct contents c;
	if (envelope_of(type, &c) && c.combiner != MPI_COMBINER_NAMED)
		hwio_real.MPI_Type_free(&type);
}

static bool structure(struct list *list, const struct contents *c, int depth)
{
	bool is_good = true;
	for (int i = 0; i < c->integers[0] && is_good; i++) {
		struct list part = {0};
		MPI_Aint extent;
		is_good = extent_of(c->types[i], &extent) && flatten(c->types[i], &part, depth) &&
			repeat(list, &part, (size_t)c->integers[1 + i], c->addresses[i], extent);
		free(part.blocks);
	}
	return is_good;
}

#if MPI_VERSION >= 4
/* Returns how many of the constructor's large counts are integers of the function without them; addresses follow. */
static int leading_integers(int combiner, const MPI_Count large[], int count)
{
	switch (combiner) {
	case MPI_COMBINER_HVECTOR:
	case MPI_COMBINER_HINDEXED_BLOCK:
		return count < 2 ? count : 2;
	case MPI_COMBINER_HINDEXED:
	case MPI_COMBINER_STRUCT:
		return count > 0 && large[0] >= 0 && large[0] < count ? 1 + (int)large[0] : count;
	case MPI_COMBINER_RESIZED:
		return 0;
	default:
		return count;
	}
}

/* Puts the large counts where the function without them has them. False: one is larger than an int. */
static bool narrow(struct contents *c, const MPI_Count large[])
{
	/* A subarray's number of dimensions precedes them, and its order follows. */
	int order = c->integer_count > 1 ? c->integers[1] : 0, to = c->integer_count > 0;
	int integers = leading_integers(c->combiner, large, c->large_count);

	for (int i = 0; i < integers; i++) {
		if (large[i] < INT_MIN || large[i] > INT_MAX)
			return false;
		c->integers[to++] = (int)large[i];
	}
	if (c->integer_count > 1)
		c->integers[to] = order;
	for (int i = integers; i < c->large_count; i++)
		c->addresses[i - integers] = (MPI_Aint)large[i];
	return true;
}
#endif

/* Gets the constructor's arguments, whose types are then to be freed. `is_usable`: they are understood. */
static bool get_contents(MPI_Datatype type, struct contents *c, bool *is_usable)
{
	*is_usable = true;
#if MPI_VERSION >= 4
	if (c->large_count > 0) {
		MPI_Count *large = calloc((size_t)c->large_count, sizeof(*large));
		bool is_got = large && hwio_real.MPI_Type_get_contents_c &&
			hwio_real.MPI_Type_get_contents_c(type, c->integer_count, c->address_count, c->large_count,
				c->type_count, c->integers, c->addresses, large, c->types) == MPI_SUCCESS;
		*is_usable = is_got && c->combiner != MPI_COMBINER_DARRAY && narrow(c, large);
		free(large);
		return is_got;
	}
#endif
	return hwio_real.MPI_Type_get_contents(type, c->integer_count, c->address_count, c->type_count, c->integers,
		       c->addresses, c->types) == MPI_SUCCESS;
}

/* Appends what a constructor makes of its types. */
static bool construct(struct list *list, const struct contents *c, int depth)
{
	struct list part = {0};
	MPI_Aint extent;

	if (c->combiner == MPI_COMBINER_STRUCT)
		return structure(list, c, depth);
	bool is_good = c->type_count == 1 && extent_of(c->types[0], &extent) && flatten(c->types[0], &part, depth) &&
		(c->combiner == MPI_COMBINER_SUBARRAY ? subarray(list, c, &part, extent)
						      : blocks_of(list, c, &part, extent));
	free(part.blocks);
	return is_good;
}

static bool decode(MPI_Datatype type, struct contents *c, struct list *list, int depth)
{
	bool is_usable;

	if (!get_contents(type, c, &is_usable))
		return false;
	bool is_good = is_usable && construct(list, c, depth + 1);
	for (int i = 0; i < c->type_count; i++)
		free_type(c->types[i]);
	return is_good;
}

static bool flatten(MPI_Datatype type, struct list *list, int depth)
{
	struct contents c;
	MPI_Aint extent;
	MPI_Count size;
	if (depth > DEPTH_MAX || type == MPI_DATATYPE_NULL || !envelope_of(type, &c))
		return false;
	if (c.combiner == MPI_COMBINER_NAMED) {
		/* Pairs such as MPI_DOUBLE_INT have gaps. */
		return extent_of(type, &extent) && hwio_real.MPI_Type_size_x(type, &size) == MPI_SUCCESS &&
			(MPI_Count)extent == size && append(list, 0, (size_t)size);
	}
	if (c.is_too_much)
		return false;
	c.integers = calloc((size_t)c.integer_count + (size_t)c.large_count + 1, sizeof(*c.integers));
	c.addresses = calloc((size_t)c.address_count + (size_t)c.large_count + 1, sizeof(*c.addresses));
	c.types = calloc((size_t)c.type_count + 1, sizeof(*c.types));
	bool is_good = c.integers && c.addresses && c.types && decode(type, &c, list, depth);
	free(c.integers);
	free(c.addresses);
	free(c.types);
	return is_good;
}

static void measure_layout(struct hwio_layout *layout)
{
	intptr_t low = INTPTR_MAX, high = INTPTR_MIN;
	layout->bytes = 0;
	for (size_t i = 0; i < layout->count; i++) {
		const struct hwio_block *block = &layout->blocks[i];
		layout->bytes += block->bytes;
		low = block->at < low ? block->at : low;
		high = block->at + (intptr_t)block->bytes > high ? block->at + (intptr_t)block->bytes : high;
	}
	layout->low = layout->count ? (uintptr_t)(layout->buffer + low) : 0;
	layout->high = layout->count ? (uintptr_t)(layout->buffer + high) : 0;
}

bool hwio_layout_make(struct hwio_layout *layout, const void *buffer, MPI_Count count, MPI_Datatype type)
{
	memset(layout, 0, sizeof(*layout));
	layout->buffer = (char *)(uintptr_t)buffer;
	if (count <= 0 || type == MPI_DATATYPE_NULL)
		return count == 0;
	struct list one = {0}, all = {0};
	MPI_Aint extent;
	bool is_good = flatten(type, &one, 0) && extent_of(type, &extent) &&
		repeat(&all, &one, (size_t)count, 0, extent);
	free(one.blocks);
	if (!is_good) {
		free(all.blocks);
		return false;
	}
	layout->count = all.count;
	layout->blocks = all.blocks;
	if (all.count <= 1) {
		layout->single = all.count ? all.blocks[0] : layout->single;
		free(all.blocks);
		layout->blocks = &layout->single;
	}
	measure_layout(layout);
	return true;
}

void hwio_layout_free(struct hwio_layout *layout)
{
	if (layout->blocks != &layout->single)
		free(layout->blocks);
	layout->blocks = NULL;
}

struct hwio_layout hwio_layout_prefix(const struct hwio_layout *layout, size_t bytes)
{
	struct hwio_layout prefix = *layout;
	size_t left = bytes;
	prefix.count = 0;
	prefix.bytes = bytes;
	/* As many blocks as the bytes fill; the last may be longer. */
	while (left > 0 && prefix.count < layout->count) {
		size_t part = layout->blocks[prefix.count++].bytes;
		left = left > part ? left - part : 0;
	}
	return prefix;
}

void hwio_layout_copy(const struct hwio_layout *layout, size_t from, void *memory, size_t bytes, bool is_write)
{
	char *other = memory;
	for (size_t i = 0; i < layout->count && bytes > 0; i++) {
		const struct hwio_block *block = &layout->blocks[i];
		if (from >= block->bytes) {
			from -= block->bytes;
			continue;
		}
		size_t part = block->bytes - from < bytes ? block->bytes - from : bytes;
		char *at = layout->buffer + block->at + from;
		memcpy(is_write ? at : other, is_write ? other : at, part);
		other += part;
		bytes -= part;
		from = 0;
	}
}

__thread struct hwio_basic hwio_basics[HWIO_BASICS];

size_t hwio_basic_find(MPI_Datatype type)
{
	/* MPI_Type_get_envelope isn't used: it fails for types with large counts. */
	const MPI_Datatype all[] = {MPI_BYTE, MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT,
		MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG,
		MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T,
		MPI_UINT16_T, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_C_BOOL, MPI_C_FLOAT_COMPLEX,
		MPI_C_DOUBLE_COMPLEX, MPI_AINT, MPI_OFFSET, MPI_COUNT,
		/* Fortran's. */
		MPI_CHARACTER, MPI_LOGICAL, MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_COMPLEX,
		MPI_DOUBLE_COMPLEX};
	struct hwio_basic *one = hwio_basic_slot(type);
	MPI_Count size = 0;
	size_t i = 0;
	while (i < sizeof(all) / sizeof(*all) && all[i] != type)
		i++;
	if (i == sizeof(all) / sizeof(*all) || type == MPI_DATATYPE_NULL) {
		*one = (struct hwio_basic){.type = type};
		return 0;
	}
	bool is_known = HWIO_INSIDE(hwio_real.MPI_Type_size_x(type, &size) == MPI_SUCCESS && size > 0);
	if (!is_known)
		return 0;
	*one = (struct hwio_basic){type, (size_t)size};
	return one->bytes;
}

size_t hwio_type_bytes(MPI_Count count, MPI_Datatype type)
{
	MPI_Count size;
	if (count <= 0 || type == MPI_DATATYPE_NULL)
		return 0;
	size_t basic = hwio_basic_bytes(type);
	if (basic > 0)
		return basic * (size_t)count;
	bool is_known = HWIO_INSIDE(hwio_real.MPI_Type_size_x(type, &size) == MPI_SUCCESS && size > 0);
	return is_known ? (size_t)(size * count) : 0;
}
