/* Constructors of types, for one kind of numbers: `number`, `address`, and MPIS(name) of MPI's functions with such
 * numbers. A source for each kind includes it. */
#ifndef CONSTRUCTORS_H
#define CONSTRUCTORS_H

#include <string.h>

#include "sequences.h"

static MPI_Datatype next_type(void)
{
	return program.types[next()];
}

static void next_numbers(int count, number *numbers)
{
	for (int i = 0; i < count; i++)
		numbers[i] = (number)next();
}

static void next_addresses(int count, address *addresses)
{
	for (int i = 0; i < count; i++)
		addresses[i] = (address)next();
}

/* TYPE COUNT LENGTHS DISPLACEMENTS */
static int indexed(const char *name, MPI_Datatype *made)
{
	MPI_Datatype of = next_type();
	int count = (int)next();
	number lengths[count + 1], displs[count + 1];
	address addresses[count + 1];

	if (!strcmp(name, "indexed_block")) {
		number length = (number)next();

		next_numbers(count, displs);
		return MPIS(MPI_Type_create_indexed_block)(count, length, displs, of, made);
	}
	next_numbers(count, lengths);
	if (!strcmp(name, "indexed")) {
		next_numbers(count, displs);
		return MPIS(MPI_Type_indexed)(count, lengths, displs, of, made);
	}
	next_addresses(count, addresses);
	return MPIS(MPI_Type_create_hindexed)(count, lengths, addresses, of, made);
}

/* COUNT LENGTHS ADDRESSES TYPES */
static int structure(MPI_Datatype *made)
{
	int count = (int)next();
	number lengths[count + 1];
	address addresses[count + 1];
	MPI_Datatype types[count + 1];

	next_numbers(count, lengths);
	next_addresses(count, addresses);
	for (int i = 0; i < count; i++)
		types[i] = next_type();
	return MPIS(MPI_Type_create_struct)(count, lengths, addresses, types, made);
}

/* TYPE IS_FORTRAN DIMENSIONS SIZES PARTS STARTS */
static int subarray(MPI_Datatype *made)
{
	MPI_Datatype of = next_type();
	int order = next() ? MPI_ORDER_FORTRAN : MPI_ORDER_C, count = (int)next();
	number sizes[count + 1], parts[count + 1], starts[count + 1];

	next_numbers(count, sizes);
	next_numbers(count, parts);
	next_numbers(count, starts);
	return MPIS(MPI_Type_create_subarray)(count, sizes, parts, starts, order, of, made);
}

/* Reads a constructor's arguments from the plan, and calls it. */
static int construct(const char *name, MPI_Datatype *made)
{
	MPI_Datatype of;
	number count, length;
	address at;

	if (!strcmp(name, "contiguous")) {
		of = next_type();
		return MPIS(MPI_Type_contiguous)((number)next(), of, made);
	}
	if (!strcmp(name, "vector") || !strcmp(name, "hvector")) {
		of = next_type();
		count = (number)next();
		length = (number)next();
		at = (address)next();
		return *name == 'v' ? MPIS(MPI_Type_vector)(count, length, (number)at, of, made)
				    : MPIS(MPI_Type_create_hvector)(count, length, at, of, made);
	}
	if (!strcmp(name, "resized")) {
		of = next_type();
		at = (address)next();
		return MPIS(MPI_Type_create_resized)(of, at, (address)next(), made);
	}
	if (!strcmp(name, "dup"))
		return MPI_Type_dup(next_type(), made);
	if (!strcmp(name, "struct"))
		return structure(made);
	return strcmp(name, "subarray") ? indexed(name, made) : subarray(made);
}

#endif
