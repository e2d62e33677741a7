/* Reads the file into which the tracing core writes, and checks conditions. */
#ifndef HWIO_TRACED_H
#define HWIO_TRACED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

/* Returns how often a function was called until now. */
static inline int traced(const char *name)
{
	char line[256];
	int count = 0;
	FILE *trace = fopen(getenv("HEADWATER_TRACE"), "r");

	while (trace != NULL && fgets(line, sizeof(line), trace) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		count += strcmp(line, name) == 0;
	}
	if (trace != NULL)
		fclose(trace);
	return count;
}

#endif
