/* The front of libheadwater-mpiio is preloaded and exports all functions of the tables. It forwards each call to the
 * next function of that name, or, if the process has an MPI library with a variant, to the variant's. */
#ifndef HWIO_FRONT_H
#define HWIO_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HWIO_EXPORT __attribute__((visibility("default")))

/* Generated: MPI_X and PMPI_X by turns, then the functions of libc. A slot is NULL until it is first used. */
extern const unsigned int hwio_slots_of_mpi, hwio_slots_all;
extern void *hwio_slots[];
/* The exported function that jumps through a slot. */
extern void *const hwio_stubs[];
extern const char *const hwio_names[];

/* Functions that not every MPI has, as PMPI_X: they are not exported, see hwio_replace. */
extern const char *const hwio_new_names[];
extern const unsigned int hwio_new_count;

/* Returns the slot's function, from now on or for this call. Never NULL. */
__attribute__((cold)) void *hwio_bind(unsigned int slot);

static inline void *hwio_slot(unsigned int slot)
{
	void *function = __atomic_load_n(&hwio_slots[slot], __ATOMIC_ACQUIRE);
	return __builtin_expect(function != NULL, 1) ? function : hwio_bind(slot);
}

/* Returns the next function of this name behind the front, as the loader would find it; NULL if there is none. */
void *hwio_next(const char *name);

/* The same, or the function of a library that the loader doesn't search: of one that was loaded with RTLD_LOCAL, or that
 * such a library needs, as librt before glibc 2.34. Then that library stays loaded. */
void *hwio_next_of_libc(const char *name);

/* A loaded object that defines a symbol. */
struct hwio_object {
	const char *path;
	uintptr_t base;
};

/* Finds the first object that defines all of these functions, and returns how many objects do, without the front.
 * Allocates nothing and doesn't change dlerror. */
unsigned int hwio_objects_with(const char *const names[], unsigned int count, struct hwio_object *found);
/* Returns the object's function at `base`, or of the first object that defines it if `base` is 0. */
void *hwio_object_function(uintptr_t base, const char *name);

/* Returns the function of the first library that defines it, except the front and the program. */
void *hwio_library_function(const char *name);

/* The same; if the library has several versions of the function, the one that new programs get. The library stays
 * loaded. */
void *hwio_local_function(const char *name);

/* Returns the base of the front's own object. */
uintptr_t hwio_front_base(void);

/* Returns the function for an MPI slot: the variant's if there is one, else the program's own target. Sets *is_final if
 * that can't change any more. NULL: the process has no such function. */
void *hwio_pick(unsigned int slot, bool *is_final);

/* Returns the slot's function in place of one that was found by that name; `found` itself if it isn't the MPI
 * library's. */
void *hwio_pick_for(unsigned int slot, void *found);

/* Redirects calls of functions of the object at `base`, in all objects but those at `base` and `except`: bound calls in
 * their tables, and later ones by the object's symbols. Functions that it lacks are skipped. */
struct hwio_replacement {
	const char *name;
	void *call;
	/* Filled in. */
	void *original;
};
void hwio_replace(uintptr_t base, uintptr_t except, struct hwio_replacement *all, size_t count);

/* Returns true if the program's own file defines this function, whether or not it exports it. */
bool hwio_program_contains(const char *name);
/* Prints a line if the program contains its MPI, whose calls can't be seen. */
void hwio_report_contained(void);

/* Called before each vfork; returns libc's. */
void *hwio_front_vfork(void);

#endif
