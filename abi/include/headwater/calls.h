/* What <headwater.h> calls in an audited process: getauxval(HEADWATER_AUXV) returns the address of a headwater_calls
 * there, and 0 elsewhere. */
#ifndef HEADWATER_CALLS_H
#define HEADWATER_CALLS_H

#define HEADWATER_AUXV 0x68777274UL

struct headwater_calls {
	/* 1. A later version only adds members. */
	unsigned long version;
	/* Adds to the calling thread's count, and returns it. The thread's calls aren't intercepted while it is below 0.
	 * LONG_MIN: too many threads have another count than 0, and nothing is changed. */
	long (*shift)(long by);
	/* Returns 1 if the file at this path is served, else 0; for NULL, if this process is served. */
	int (*serves)(const char *path);
};

/* In a mount, the extended attribute of the files and directories that are served. */
#define HEADWATER_ATTRIBUTE "user.headwater.served"

#endif
