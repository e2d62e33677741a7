/* Prints its arguments, its PID, and what a constructor saw of it: each process is to be as if it alone had been
 * started. */
#include <stdio.h>
#include <stdlib.h>

static int constructed;

__attribute__((constructor)) static void construct(void)
{
	constructed++;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("HEADWATER_RANK");
	const char *ranks = getenv("HEADWATER_RANKS");

	printf("%d constructed, rank %s of %s:", constructed, rank ? rank : "none", ranks ? ranks : "none");
	for (int i = 1; i < argc; i++)
		printf(" %s", argv[i]);
	printf("\n");
	return 0;
}
