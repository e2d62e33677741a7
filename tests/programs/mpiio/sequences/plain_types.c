/* Types by functions without large counts. */
#include "sequences.h"

#define number int
#define address MPI_Aint
#define MPIS(name) name
#include "constructors.h"

int construct_plain(const char *name, MPI_Datatype *made)
{
	return construct(name, made);
}
