/* deep.c, built as a library: a function to stop in. Built as a program (PROGRAM): calls it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int library_inner(int depth, const char *how);
#ifndef PROGRAM
int library_inner(int depth, const char *how)
{
	if (depth > 0)
		return library_inner(depth - 1, how) + 1;
	if (how[0] == 'c')
		abort();
	for (int i = 0; how[0] == 'w' && i < 600 && access(how + 1, F_OK); i++)
		usleep(100000);
	return depth;
}
#else
int main(int argc, char **argv)
{
	int depth = library_inner(3, argc > 1 ? argv[1] : "");
	printf("returned %d\n", depth);
	return 0;
}
#endif
