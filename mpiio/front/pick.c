/* Finds the MPI library of the process, and its variant, when the program first calls MPI. In doubt, the program's
 * calls are not redirected. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front.h"
#include "variant.h"

#define PATH_BYTES_MAX 4096
/* MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most. */
#define VERSION_BYTES_MAX 16384
/* Maximum of functions that the front exports, by both names, and of those that it doesn't. */
#define OLD_MAX 1024
#define NEW_MAX 512
/* Maximum of functions of a language's run time. */
#define RUNTIME_MAX 8

enum state {
	/* No MPI library was there yet. */
	UNKNOWN,
	PICKED,
	/* The program's calls are never redirected. */
	LEFT_ALONE,
};

static enum state state;
/* True while a thread picks. No thread waits for it: it may hold the loader's lock, which picking needs. */
static bool is_picking;
static struct hwio_object mpi;
static const struct hwio_variant *variant;
static uintptr_t variant_base;

/* The beginning of MPI_Get_library_version's text, and the name of variants for it. */
static const struct family {
	const char *prefix, *name;
} families[] = {
	{"Open MPI v", "openmpi"},
	{"MPICH Version:", "mpich"},
};

static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "PALS_RANKID",
	"FLUX_TASK_RANK", "JSM_NAMESPACE_RANK"};

/* Returns the process's rank in its job; NULL: no launcher has given it one. */
static const char *rank_in_job(void)
{
	const char *rank = NULL;
	for (size_t at = 0; at < sizeof(ranks) / sizeof(ranks[0]) && rank == NULL; at++)
		rank = getenv(ranks[at]);
	return rank;
}

/* Returns true in the process that prints messages for the job. */
static bool is_first(void)
{
	const char *rank = rank_in_job();
	return rank == NULL || strcmp(rank, "0") == 0;
}

/* Prints why the program isn't changed, if --io was requested. */
static void report(const char *what, const char *of)
{
	if (getenv("HEADWATER_IO") != NULL && is_first())
		dprintf(STDERR_FILENO, "headwater: this program's I/O is left as it is: %s%s\n", what, of);
}

/* Finds the path of the variant for a library of this version; false: there is none. */
static bool variant_path(const char *version, char path[PATH_BYTES_MAX], unsigned int *major)
{
	Dl_info own;
	const char *slash;

	for (size_t at = 0; at < sizeof(families) / sizeof(families[0]); at++) {
		const struct family *family = &families[at];
		if (strncmp(version, family->prefix, strlen(family->prefix)) != 0)
			continue;
		const char *digits = version + strlen(family->prefix);
		digits += strspn(digits, " \t");
		size_t count = strspn(digits, "0123456789");
		if (count == 0 || count > 2 || digits[count] != '.' || dladdr(&families, &own) == 0 ||
			(slash = strrchr(own.dli_fname, '/')) == NULL)
			return false;
		*major = (unsigned int)strtoul(digits, NULL, 10);
		return snprintf(path, PATH_BYTES_MAX, "%.*s/headwater/mpiio-%s%u.so", (int)(slash - own.dli_fname),
			       own.dli_fname, family->name, *major) < PATH_BYTES_MAX;
	}
	return false;
}

/* Redirects libc's slots to the variant, but those of functions that the process doesn't have yet. MPI's slots are filled
 * at their first use. */
static void redirect_libc(void)
{
	size_t at = 0;

	for (unsigned int slot = hwio_slots_of_mpi; slot < hwio_slots_all; slot++) {
		for (size_t turn = 0; turn < variant->entry_count; turn++, at = (at + 1) % variant->entry_count) {
			const struct hwio_entry *entry = &variant->entries[at];
			if (strcmp(entry->name, hwio_names[slot]) == 0) {
				if (hwio_slots[slot] != NULL || hwio_next_of_libc(entry->name) != NULL)
					__atomic_store_n(&hwio_slots[slot], entry->call, __ATOMIC_RELEASE);
				break;
			}
		}
	}
}

static void *entry_of(const char *name)
{
	for (size_t at = 0; at < variant->entry_count; at++)
		if (strcmp(variant->entries[at].name, name) == 0)
			return variant->entries[at].call;
	return NULL;
}

/* Returns the function that the program would have called: what the loader finds next, or the MPI library's own if that
 * isn't visible globally. */
static void *original_function(const char *name)
{
	void *function = hwio_next(name);
	return function != NULL ? function : hwio_object_function(mpi.base, name);
}

static bool is_mpi_function(void *function)
{
	Dl_info where;
	return dladdr(function, &where) != 0 && (uintptr_t)where.dli_fbase == mpi.base;
}

/* Returns the variant's function for calls of this name that reach `function`; NULL: they are not redirected. */
static void *entry_for(const char *name, void *function)
{
	bool is_profiling = name[0] == 'P';
	void *own = hwio_object_function(mpi.base, name);

	/* This library may be older than the headers of the variant. */
	if (own == NULL)
		return NULL;
	/* Another tool interposes MPI_X: it calls PMPI_X. */
	if (!is_profiling && function != NULL && function != own && !is_mpi_function(function))
		return NULL;
	return entry_of(is_profiling ? name + 1 : name);
}

/* Redirects the front's symbols to the variant: the program then calls it without the front's stubs. */
static void redirect_mpi(void)
{
	static struct hwio_replacement all[OLD_MAX];
	size_t count = 0;

	for (unsigned int slot = 0; slot < hwio_slots_of_mpi && count < OLD_MAX; slot++) {
		void *call = entry_for(hwio_names[slot], original_function(hwio_names[slot]));
		if (call != NULL)
			all[count++] = (struct hwio_replacement){hwio_names[slot], call, NULL};
	}
	hwio_replace(hwio_front_base(), variant_base, all, count);
}

/* Redirects the functions that the front doesn't export, by both names. */
static void redirect_unexported(void)
{
	static struct hwio_replacement all[2 * NEW_MAX];
	size_t count = 0;

	for (unsigned int at = 0; at < hwio_new_count && at < NEW_MAX; at++) {
		void *call = entry_of(hwio_new_names[at] + 1);
		if (call == NULL)
			continue;
		all[count++] = (struct hwio_replacement){hwio_new_names[at], call, NULL};
		all[count++] = (struct hwio_replacement){hwio_new_names[at] + 1, call, NULL};
	}
	hwio_replace(mpi.base, variant_base, all, count);
}

/* Redirects functions of a language's run time. */
static void redirect_runtime(void)
{
	struct hwio_replacement all[RUNTIME_MAX];
	const char *names[RUNTIME_MAX];
	struct hwio_object object;
	unsigned int count = 0;

	for (const struct hwio_runtime_entry *one = variant->runtime; one->name != NULL && count < RUNTIME_MAX; one++) {
		all[count] = (struct hwio_replacement){one->name, one->call, NULL};
		names[count++] = one->name;
	}
	/* If several objects have them, none is redirected. */
	if (count == 0 || hwio_objects_with(names, count, &object) != 1)
		return;
	const char *wanted = variant->runtime->object, *slash = strrchr(object.path, '/');
	if (strncmp(slash == NULL ? object.path : slash + 1, wanted, strlen(wanted)) != 0)
		return;
	for (unsigned int at = 0; at < count; at++)
		*variant->runtime[at].original = hwio_object_function(object.base, names[at]);
	hwio_replace(object.base, variant_base, all, count);
}

/* Returns the standard of this MPI, and one that is newer than all if MPI doesn't report it. */
static int standard_of_mpi(void)
{
	int (*get)(int *, int *) = (int (*)(int *, int *))hwio_object_function(mpi.base, "MPI_Get_version");
	int version = 0, subversion = 0;

	return get != NULL && get(&version, &subversion) == 0 ? HWIO_STANDARD(version, subversion) : INT_MAX;
}

/* Loads the variant and starts it; NULL and a reason if it can't be used. */
static const struct hwio_variant *load(const char *path, unsigned int major, const char *version, const char **reason)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *libmpi;
	const struct hwio_variant *found;
	Dl_info where;

	if (handle == NULL) {
		dlerror();
		*reason = "no build for this MPI can be loaded: ";
		return NULL;
	}
	*reason = "the build for this MPI does not fit: ";
	found = dlsym(handle, "headwater_mpiio_variant");
	if (found == NULL || found->version != HWIO_VARIANT_VERSION || found->major != major || found->start == NULL ||
		strncmp(version, found->family, strlen(found->family)) != 0 || dladdr(found, &where) == 0)
		return NULL;
	if (found->standard < standard_of_mpi()) {
		*reason = "this MPI is of a newer standard than its build: ";
		return NULL;
	}
	variant_base = (uintptr_t)where.dli_fbase;
	libmpi = dlopen(mpi.path, RTLD_NOLOAD | RTLD_LAZY);
	if (libmpi == NULL) {
		dlerror();
		return NULL;
	}
	return found->start(libmpi, hwio_next_of_libc) == 0 ? found : NULL;
}

static bool is_off(void)
{
	const char *mode = getenv("HEADWATER_IO");
	return mode != NULL && strcmp(mode, "off") == 0;
}

void hwio_report_contained(void)
{
	static const char *const names[] = {"MPI_Init"};
	const char *rank = rank_in_job();
	int error = errno;

	/* What exports its functions is found when it calls one. */
	if (!is_off() && rank != NULL && strcmp(rank, "0") == 0 && hwio_objects_with(names, 1, &mpi) == 0 &&
		hwio_program_contains(names[0]))
		dprintf(STDERR_FILENO,
			"headwater: this program's I/O is left as it is: its MPI is linked into it; link it with the "
			"shared library of MPI (libmpi.so)\n");
	errno = error;
}

/* Returns true for MPICH's and Open MPI's second library, whose handles are those of the standard's binary interface. */
static bool is_other_interface(void)
{
	const char *slash = strrchr(mpi.path, '/');
	return strstr(slash == NULL ? mpi.path : slash, "mpi_abi") != NULL;
}

static enum state pick(void)
{
	static const char *const names[] = {"MPI_Get_library_version", "PMPI_Init"};
	static char version[VERSION_BYTES_MAX], path[PATH_BYTES_MAX];
	int (*get_version)(char *, int *);
	unsigned int count, major;
	int length = 0;
	const char *reason;

	if (is_off())
		return LEFT_ALONE;
	count = hwio_objects_with(names, 2, &mpi);
	if (count == 0)
		return UNKNOWN;
	if (count > 1 || mpi.path[0] == '\0') {
		report("it has several MPI libraries, or one that is linked into it; link it with one shared library of MPI",
			"");
		return LEFT_ALONE;
	}
	get_version = (int (*)(char *, int *))hwio_object_function(mpi.base, names[0]);
	if (get_version == NULL || get_version(version, &length) != 0)
		return LEFT_ALONE;
	version[VERSION_BYTES_MAX - 1] = '\0';
	if (is_other_interface() || !variant_path(version, path, &major)) {
		version[strcspn(version, ",\n")] = '\0';
		report("there is no build for ", version);
		return LEFT_ALONE;
	}
	variant = load(path, major, version, &reason);
	if (variant == NULL) {
		report(reason, path);
		return LEFT_ALONE;
	}
	redirect_libc();
	redirect_mpi();
	redirect_unexported();
	redirect_runtime();
	return PICKED;
}

/* Picks, unless another thread is picking. */
static enum state pick_once(void)
{
	enum state now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);

	if (now == UNKNOWN && !__atomic_exchange_n(&is_picking, true, __ATOMIC_ACQUIRE)) {
		now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
		if (now == UNKNOWN) {
			now = pick();
			__atomic_store_n(&state, now, __ATOMIC_RELEASE);
		}
		__atomic_store_n(&is_picking, false, __ATOMIC_RELEASE);
	}
	return now;
}

void *hwio_pick(unsigned int slot, bool *is_final)
{
	const char *name = hwio_names[slot];
	enum state now = pick_once();

	*is_final = now != UNKNOWN;
	void *function = original_function(name), *entry = now == PICKED ? entry_for(name, function) : NULL;
	return entry != NULL ? entry : function;
}

void *hwio_pick_for(unsigned int slot, void *found)
{
	const char *name = hwio_names[slot];
	void *entry = pick_once() == PICKED && is_mpi_function(found) ? entry_of(name + (name[0] == 'P')) : NULL;
	return entry != NULL ? entry : found;
}

void *hwio_front_vfork(void)
{
	static void *next;
	void *function = __atomic_load_n(&next, __ATOMIC_RELAXED);

	if (function == NULL) {
		function = hwio_next("vfork");
		__atomic_store_n(&next, function, __ATOMIC_RELAXED);
	}
	if (variant != NULL && variant->before_vfork != NULL)
		variant->before_vfork();
	return function;
}
