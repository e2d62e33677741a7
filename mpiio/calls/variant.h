/* The interface of a variant, the build for one MPI: its only symbol is headwater_mpiio_variant. It uses none of MPI's
 * types, because the front is the same for all MPIs. */
#ifndef HWIO_VARIANT_H
#define HWIO_VARIANT_H

#include <stddef.h>

/* Changes with this file: a front refuses variants of other versions. */
#define HWIO_VARIANT_VERSION 3

/* A version of the MPI standard as a number. */
#define HWIO_STANDARD(version, subversion) (100 * (version) + (subversion))

/* A function of the tables, MPI_X or one of libc, and its interposer. */
struct hwio_entry {
	const char *name;
	void *call;
};

/* A function of a language's run time, and its interposer where the process has an object of that name. */
struct hwio_runtime_entry {
	const char *object, *name;
	void *call;
	/* Filled in before the call is made. */
	void **original;
};

struct hwio_variant {
	unsigned int version;
	/* The beginning of MPI_Get_library_version's text, and the number before the first dot of the rest. */
	const char *family;
	unsigned int major;
	/* The MPI standard of which it interposes all functions: HWIO_STANDARD. It isn't used for an MPI of a newer one. */
	int standard;
	/* In the tables' order. */
	const struct hwio_entry *entries;
	size_t entry_count;
	/* All entries are of one object; a NULL name ends them. */
	const struct hwio_runtime_entry *runtime;
	/* Called once, before any entry, with a handle of the MPI library, in which dlsym finds PMPI_X, and a function
	 * that finds libc's functions behind the front. Not 0: the variant isn't used. */
	int (*start)(void *libmpi, void *(*next)(const char *name));
	/* Called before each vfork, in the caller's thread: until it returns, the child runs with the caller's
	 * memory. */
	void (*before_vfork)(void);
};

/* The variant's definitions of `runtime`, `start` and `before_vfork`. */
extern const struct hwio_runtime_entry hwio_runtime[];
int hwio_variant_start(void *libmpi, void *(*next)(const char *name));
void hwio_settle_everything(void);

#endif
