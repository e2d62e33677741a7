/* dlsym. A program that gets a function of the C library or of MPI from a handle, as Python's ctypes and Julia do,
 * gets the interposer. With RTLD_NEXT or RTLD_DEFAULT it gets what the loader finds. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "front.h"

typedef void *(*lookup)(void *handle, const char *name);

/* Returns the C library's dlsym, or that of another tool. dlsym can't find itself. */
static lookup next_lookup(void)
{
	static lookup next;
	lookup function = __atomic_load_n(&next, __ATOMIC_RELAXED);

	if (function == NULL) {
		function = (lookup)hwio_library_function("dlsym");
		__atomic_store_n(&next, function, __ATOMIC_RELAXED);
	}
	return function;
}

void *hwio_local_function(const char *name)
{
	Dl_info of;
	void *function = hwio_library_function(name);
	void *library = function && dladdr(function, &of) ? dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;

	/* Of several versions, this finds the one that new programs get. */
	return library ? next_lookup()(library, name) : NULL;
}

static bool is_mpi_name(const char *name)
{
	return strncmp(name + (name[0] == 'P'), "MPI_", 4) == 0;
}

/* Before glibc 2.34, several objects of the C library define the same functions. */
static bool is_of_libc(void *function)
{
	static const char *const objects[] = {"/libc.so.6", "/libpthread.so.0", "/librt.so.1"};
	Dl_info of;
	const char *name = dladdr(function, &of) != 0 ? strrchr(of.dli_fname, '/') : NULL;

	for (size_t at = 0; name != NULL && at < sizeof(objects) / sizeof(*objects); at++)
		if (strcmp(name, objects[at]) == 0)
			return true;
	return false;
}

/* Returns the interposer of a found function, or `found` itself if it belongs to another library. */
static void *interposed_function(void *found, const char *name)
{
	for (unsigned int slot = is_mpi_name(name) ? 0 : hwio_slots_of_mpi; slot < hwio_slots_all; slot++) {
		if (strcmp(hwio_names[slot], name) != 0)
			continue;
		if (slot < hwio_slots_of_mpi)
			return hwio_pick_for(slot, found);
		void *next = hwio_next(name);
		return next == found || (is_of_libc(next) && is_of_libc(found)) ? hwio_stubs[slot] : found;
	}
	return found;
}

HWIO_EXPORT void *hwio_front_dlsym(void *handle, const char *name) __asm__("dlsym");
void *hwio_front_dlsym(void *handle, const char *name)
{
	lookup next = next_lookup();

	/* Compiled to a jump: the next function depends on the caller's return address. */
	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
		return next(handle, name);
	void *found = next(handle, name);
	if (found == NULL)
		return NULL;
	int error = errno;
	found = interposed_function(found, name);
	errno = error;
	return found;
}
