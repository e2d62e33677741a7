/* Datatypes of a plan; a line has the number of the new one first. */
#include "sequences.h"

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

/* Every other type has large counts, where the MPI has such. */
void make_type(const char *name, long id)
{
	MPI_Datatype *made = &program.types[id];

	must(id >= BASES && id < TYPES_MAX, "a number for a type");
	int code = id % 2 ? construct_large(name, made) : construct_plain(name, made);
	must(code == MPI_SUCCESS && MPI_Type_commit(made) == MPI_SUCCESS, name);
}
