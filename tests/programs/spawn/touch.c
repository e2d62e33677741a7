/* Writes to each page of MEGABYTES of data, which are in the program's file as in the paper: each page is copied. */
#include <stddef.h>

static char memory[MEGABYTES << 20] = {1};

int main(void)
{
	for (size_t at = 0; at < sizeof memory; at += 4096)
		((volatile char *)memory)[at] = 1;
	return 0;
}
