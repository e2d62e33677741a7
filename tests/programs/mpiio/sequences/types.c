/* Datatypes of a plan; a line has the number of the new one first. */
#include "sequences.h"

#include <string.h>

static MPI_Datatype next_type(void)
{
	return program.types[next()];
}

static void next_numbers(int count, int *numbers)
{
	for (int i = 0; i < count; i++)
		numbers[i] = (int)next();
}

static void next_addresses(int count, MPI_Aint *addresses)
{
	for (int i = 0; i < count; i++)
		addresses[i] = (MPI_Aint)next();
}

/* TYPE COUNT LENGTHS DISPLACEMENTS */
static int indexed(const char *name, MPI_Datatype *made)
{
	MPI_Datatype of = next_type();
	int count = (int)next(), lengths[count + 1], displs[count + 1];
	MPI_Aint addresses[count + 1];

	if (!strcmp(name, "indexed_block")) {
		int length = (int)next();

		next_numbers(count, displs);
		return MPI_Type_create_indexed_block(count, length, displs, of, made);
	}
	next_numbers(count, lengths);
	if (!strcmp(name, "indexed")) {
		next_numbers(count, displs);
		return MPI_Type_indexed(count, lengths, displs, of, made);
	}
	next_addresses(count, addresses);
	return MPI_Type_create_hindexed(count, lengths, addresses, of, made);
}

/* COUNT LENGTHS ADDRESSES TYPES */
static int structure(MPI_Datatype *made)
{
	int count = (int)next(), lengths[count + 1];
	MPI_Aint addresses[count + 1];
	MPI_Datatype types[count + 1];

	next_numbers(count, lengths);
	next_addresses(count, addresses);
	for (int i = 0; i < count; i++)
		types[i] = next_type();
	return MPI_Type_create_struct(count, lengths, addresses, types, made);
}

/* TYPE IS_FORTRAN DIMENSIONS SIZES PARTS STARTS */
static int subarray(MPI_Datatype *made)
{
	MPI_Datatype of = next_type();
	int order = next() ? MPI_ORDER_FORTRAN : MPI_ORDER_C, count = (int)next();
	int sizes[count + 1], parts[count + 1], starts[count + 1];

	next_numbers(count, sizes);
	next_numbers(count, parts);
	next_numbers(count, starts);
	return MPI_Type_create_subarray(count, sizes, parts, starts, order, of, made);
}

MPI_Datatype structure_type(void)
{
	static MPI_Datatype made = MPI_DATATYPE_NULL;
	int lengths[] = {1, 1, 4};
	MPI_Aint displs[] = {0, 8, 12};
	MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_BYTE};

	if (made == MPI_DATATYPE_NULL)
		must(!MPI_Type_create_struct(3, lengths, displs, types, &made) && !MPI_Type_commit(&made),
			"a structure");
	return made;
}

void make_type(const char *name, long id)
{
	MPI_Datatype *made = &program.types[id], of;
	int code = MPI_ERR_TYPE, count, length;
	MPI_Aint at;

	must(id >= BASES && id < TYPES_MAX, "a number for a type");
	if (!strcmp(name, "contiguous")) {
		of = next_type();
		code = MPI_Type_contiguous((int)next(), of, made);
	} else if (!strcmp(name, "vector") || !strcmp(name, "hvector")) {
		of = next_type();
		count = (int)next();
		length = (int)next();
		at = (MPI_Aint)next();
		code = *name == 'v' ? MPI_Type_vector(count, length, (int)at, of, made)
				    : MPI_Type_create_hvector(count, length, at, of, made);
	} else if (!strcmp(name, "resized")) {
		of = next_type();
		at = (MPI_Aint)next();
		code = MPI_Type_create_resized(of, at, (MPI_Aint)next(), made);
	} else if (!strcmp(name, "dup")) {
		code = MPI_Type_dup(next_type(), made);
	} else if (!strcmp(name, "struct")) {
		code = structure(made);
	} else if (!strcmp(name, "subarray")) {
		code = subarray(made);
	} else {
		code = indexed(name, made);
	}
	must(code == MPI_SUCCESS && MPI_Type_commit(made) == MPI_SUCCESS, name);
}
