/* Fills slots. libc's slots get the next function of their name when the library is loaded, since a signal handler may
 * need one later. MPI's slots are filled at their first use, since MPI may be loaded later. */
#include <dlfcn.h>
#include <errno.h>

#include "front.h"
#include "slots.h"

/* Maximum of nested bindings: dlsym itself may call an interposed function. */
#define BINDINGS_MAX 4

static __thread unsigned int bindings __attribute__((tls_model("initial-exec")));
static __thread unsigned int bound[BINDINGS_MAX] __attribute__((tls_model("initial-exec")));

static long no_function(void)
{
	errno = ENOSYS;
	return -1;
}

static long no_memory(void)
{
	errno = ENOMEM;
	return 0;
}

/* Memory that is freed while `free` is being bound is lost. */
static long no_effect(void)
{
	return 0;
}

/* An error class: 16 is MPI_ERR_OTHER of Open MPI, and in MPICH one that programs don't expect here. */
static long no_mpi(void)
{
	return 16;
}

static void *fallback_for(unsigned int slot)
{
	if (slot < hwio_slots_of_mpi)
		return (void *)no_mpi;
	if (slot == HWIO_SLOT_free)
		return (void *)no_effect;
	return slot == HWIO_SLOT_realloc || slot == HWIO_SLOT_reallocarray ? (void *)no_memory : (void *)no_function;
}

void *hwio_next(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);
	/* Clears the error, which the program's dlerror would return. Before glibc 2.34, dlerror calls these functions,
	 * and fails if another look-up comes between. */
	if (function == NULL) {
		hwio_slot(HWIO_SLOT_free);
		hwio_slot(HWIO_SLOT_realloc);
		dlerror();
	}
	return function;
}

void *hwio_next_of_libc(const char *name)
{
	void *function = hwio_next(name);
	return function ? function : hwio_local_function(name);
}

void *hwio_bind(unsigned int slot)
{
	bool is_final = true;
	void *function, *expected = NULL;

	for (unsigned int at = 0; at < bindings; at++)
		if (bound[at] == slot)
			return fallback_for(slot);
	if (bindings == BINDINGS_MAX)
		return fallback_for(slot);
	int error = errno;
	bound[bindings++] = slot;
	function = slot < hwio_slots_of_mpi ? hwio_pick(slot, &is_final) : hwio_next_of_libc(hwio_names[slot]);
	bindings--;
	errno = error;
	if (function == NULL)
		return fallback_for(slot);
	/* A variant may have filled the slot meanwhile. */
	if (is_final &&
		!__atomic_compare_exchange_n(&hwio_slots[slot], &expected, function, false, __ATOMIC_ACQ_REL,
			__ATOMIC_ACQUIRE))
		return expected;
	return function;
}

__attribute__((constructor)) static void bind_libc(void)
{
	for (unsigned int slot = hwio_slots_of_mpi; slot < hwio_slots_all; slot++)
		hwio_slot(slot);
	hwio_report_contained();
}
