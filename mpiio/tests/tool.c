/* A profiling tool that interposes between the front and MPI: its functions are called, and so are those that they
 * call. */
#include <mpi.h>

#include "traced.h"

#ifdef TOOL
__attribute__((visibility("default"))) int tool_calls;

__attribute__((visibility("default"))) int MPI_Barrier(MPI_Comm comm)
{
	tool_calls++;
	return PMPI_Barrier(comm);
}
#else
extern int tool_calls __attribute__((weak));

int main(int count, char **arguments)
{
	MPI_Init(&count, &arguments);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	PMPI_Barrier(MPI_COMM_WORLD);
	CHECK(&tool_calls != NULL && tool_calls == 2 && traced("MPI_Barrier") == 3);
	MPI_Finalize();
	return 0;
}
#endif
