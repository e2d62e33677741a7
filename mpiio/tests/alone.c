/* An MPI program whose calls must not reach a variant. */
#include <mpi.h>

#include "traced.h"

int main(int count, char **arguments)
{
	int value = 5, sum = 0;

	MPI_Init(&count, &arguments);
	MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	PMPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	CHECK(sum == 5 && traced("MPI_Init") == 0 && traced("MPI_Allreduce") == 0);
	MPI_Finalize();
	return 0;
}
