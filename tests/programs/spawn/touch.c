/* Writes to each page of MEGABYTES of memory that the program has from its start. */
#include <stddef.h>

static char memory[MEGABYTES << 20];

int main(void)
{
	for (size_t at = 0; at < sizeof memory; at += 4096)
		((volatile char *)memory)[at] = 1;
	return 0;
}
