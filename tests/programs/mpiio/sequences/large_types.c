/* Types by functions with large counts, which MPI 4 has. */
#include "sequences.h"

#if MPI_VERSION >= 4
#define number MPI_Count
#define address MPI_Count
#define MPIS(name) name##_c
#include "constructors.h"

int construct_large(const char *name, MPI_Datatype *made)
{
	return construct(name, made);
}
#else
int construct_large(const char *name, MPI_Datatype *made)
{
	return construct_plain(name, made);
}
#endif
