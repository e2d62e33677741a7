/* A program without MPI that loads a plug-in with MPI, as interpreters do. */
#include <dlfcn.h>

#include "traced.h"

#ifdef PLUGIN
#include <mpi.h>

__attribute__((visibility("default"))) int sum_of_one(void)
{
	int value = 5, sum = 0;

	MPI_Init(NULL, NULL);
	MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	return sum;
}
#else
int main(int count, char **arguments)
{
	CHECK(count == 2);
	free(malloc(10));
	void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
	if (plugin == NULL)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(plugin != NULL && traced("free") == 0);
	int (*sum_of_one)(void) = (int (*)(void))dlsym(plugin, "sum_of_one");
	CHECK(sum_of_one != NULL && sum_of_one() == 5);
	CHECK(traced("MPI_Init") == 1 && traced("MPI_Allreduce") == 1 && traced("free") > 0);
	return 0;
}
#endif
