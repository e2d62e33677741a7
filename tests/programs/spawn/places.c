/* Prints where its stack and its heap are. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	int local;

	return printf("%p %p\n", (void *)&local, malloc(100)) < 0;
}
