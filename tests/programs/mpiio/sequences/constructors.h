/* Constructors of types, for one kind of numbers: `number`, `address`, OWN(name) of a function here, and MPIS(name) of
 * MPI's functions with such numbers. types.c includes it for each kind. */

static void OWN(next_numbers)(int count, number *numbers)
{
	for (int i = 0; i < count; i++)
		numbers[i] = (number)next();
}

static void OWN(next_addresses)(int count, address *addresses)
{
	for (int i = 0; i < count; i++)
		addresses[i] = (address)next();
}

/* TYPE COUNT LENGTHS DISPLACEMENTS */
static int OWN(indexed)(const char *name, MPI_Datatype *made)
{
	MPI_Datatype of = next_type();
	int count = (int)next();
	number lengths[count + 1], displs[count + 1];
	address addresses[count + 1];

	if (!strcmp(name, "indexed_block")) {
		number length = (number)next();

		OWN(next_numbers)(count, displs);
		return MPIS(MPI_Type_create_indexed_block)(count, length, displs, of, made);
	}
	OWN(next_numbers)(count, lengths);
	if (!strcmp(name, "indexed")) {
		OWN(next_numbers)(count, displs);
		return MPIS(MPI_Type_indexed)(count, lengths, displs, of, made);
	}
	OWN(next_addresses)(count, addresses);
	return MPIS(MPI_Type_create_hindexed)(count, lengths, addresses, of, made);
}

/* COUNT LENGTHS ADDRESSES TYPES */
static int OWN(structure)(MPI_Datatype *made)
{
	int count = (int)next();
	number lengths[count + 1];
	address addresses[count + 1];
	MPI_Datatype types[count + 1];

	OWN(next_numbers)(count, lengths);
	OWN(next_addresses)(count, addresses);
	for (int i = 0; i < count; i++)
		types[i] = next_type();
	return MPIS(MPI_Type_create_struct)(count, lengths, addresses, types, made);
}

/* TYPE IS_FORTRAN DIMENSIONS SIZES PARTS STARTS */
static int OWN(subarray)(MPI_Datatype *made)
{
	MPI_Datatype of = next_type();
	int order = next() ? MPI_ORDER_FORTRAN : MPI_ORDER_C, count = (int)next();
	number sizes[count + 1], parts[count + 1], starts[count + 1];

	OWN(next_numbers)(count, sizes);
	OWN(next_numbers)(count, parts);
	OWN(next_numbers)(count, starts);
	return MPIS(MPI_Type_create_subarray)(count, sizes, parts, starts, order, of, made);
}

static int OWN(constructed)(const char *name, MPI_Datatype *made)
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
		return OWN(structure)(made);
	return strcmp(name, "subarray") ? OWN(indexed)(name, made) : OWN(subarray)(made);
}
