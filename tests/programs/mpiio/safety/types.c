/* Types of MPI that are hard to take apart; each is PART bytes and lies in as many. */
#define _GNU_SOURCE
#include "safety.h"

MPI_Datatype large_type(void)
{
	MPI_Datatype type;

#if MPI_VERSION >= 4
	MPI_Type_contiguous_c((MPI_Count)PART, MPI_BYTE, &type);
#else
	MPI_Type_contiguous(PART, MPI_BYTE, &type);
#endif
	MPI_Type_commit(&type);
	return type;
}

MPI_Datatype opaque_type(void)
{
	int part = PART, distribution = MPI_DISTRIBUTE_CYCLIC, argument = 7, processes = 1;
	int *backwards = memory(PART * sizeof *backwards);
	MPI_Datatype type;

	for (int i = 0; i < PART; i++)
		backwards[i] = PART - 1 - i;
	if (round_now == 0)
		type = large_type();
	else if (odd())
		MPI_Type_create_indexed_block(PART, 1, backwards, MPI_BYTE, &type);
	else
		MPI_Type_create_darray(1, 0, 1, &part, &distribution, &argument, &processes, MPI_ORDER_C, MPI_BYTE,
			&type);
	if (round_now)
		MPI_Type_commit(&type);
	free(backwards);
	return type;
}
