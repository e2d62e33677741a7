/*
 * The front of libheadwater-mpiio: it is preloaded, exports all functions of the tables, and does nothing but to lead
 * each call to the next function of that name, or, where an MPI library is in the process that a variant is for, to the
 * variant's.
 */
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

/* Functions of MPI that not every MPI has, as PMPI_X: they are not exported, see hwio_replace. */
extern const char *const hwio_new_names[];
extern const unsigned int hwio_new_count;

/* What the slot's function is from now on, or for this call. Never NULL. */
__attribute__((cold)) void *hwio_bind(unsigned int slot);

static inline void *hwio_slot(unsigned int slot)
{
	void *function = __atomic_load_n(&hwio_slots[slot], __ATOMIC_ACQUIRE);
	return __builtin_expect(function != NULL, 1) ? function : hwio_bind(slot);
}

/* The next function of this name behind the front, as the loader would find it; NULL if there is none. */
void *hwio_next(const char *name);

/* A loaded object that defines a symbol. */
struct hwio_object {
	const char *path;
	uintptr_t base;
};

/*
 * The object that defines all of these functions itself, and how many do: the front isn't counted. Takes no memory and
 * leaves dlerror as it is.
 */
unsigned int hwio_objects_with(const char *const names[], unsigned int count, struct hwio_object *found);
/* The function of this name of the object at `base`, or of the first that has it if `base` is 0. */
void *hwio_object_function(uintptr_t base, const char *name);

/* The function of this name of the first library, but the front, that has it: not that of the program itself. */
void *hwio_library_function(const char *name);

/* The base of the object in which the front itself lies. */
uintptr_t hwio_front_base(void);

/* The interposer of an MPI function: the variant's if there is one, else the program's own target. Sets *is_final
 * if that can't change any more. NULL: the process has no such function. */
void *hwio_pick(unsigned int slot, bool *is_final);

/* The slot's function in place of one that was found by that name: itself, if it isn't the MPI library's. */
void *hwio_pick_for(unsigned int slot, void *found);

/*
 * Leads calls of functions of the object at `base` elsewhere, in all objects but those at `base` and `except`:
 * those that are bound already in their tables, and all others by the object's symbols. Functions that it lacks are
 * passed over.
 */
struct hwio_replacement {
	const char *name;
	void *call;
	/* Filled in. */
	void *original;
};
void hwio_replace(uintptr_t base, uintptr_t except, struct hwio_replacement *all, size_t count);

/* Called before each vfork; gives libc's. */
void *hwio_front_vfork(void);

#endif
