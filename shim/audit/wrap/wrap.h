/* How a wrapper is written.
 *
 * A call must use the errno and the functions of the libc that the caller was bound to, and its arguments don't show
 * which that is. So every wrapper is written once, with its namespace as an argument, and WRAP makes one entry for each
 * namespace's slot. Most are made by SERVED or NOTED.
 *
 * A wrapper that can't serve a call ends in a tail call of the original, unless it must process the result. Then no
 * frame of the library's lies under the original, so cancellation and exceptions unwind, and backtraces read, as
 * without it. For that a wrapper has no addressable local variables; code that needs one is a function of its own,
 * which returns UNSERVED if it could not serve. Nothing here changes errno on success. */
#ifndef HEADWATER_WRAP_H
#define HEADWATER_WRAP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "shim.h"

/* No function that is served returns this: the original must be called. */
#define UNSERVED INT_MIN
#define UNSERVED_POINTER ((void *)(intptr_t)UNSERVED)

#define SPLICE(...) __VA_ARGS__

#define ENTRY(slot, type, name, parameters, arguments) \
	type hwa_entry##slot##_##name parameters; \
	type hwa_entry##slot##_##name parameters \
	{ \
		return impl_##name(&hwa_namespaces[slot], SPLICE arguments); \
	}

_Static_assert(HWA_NAMESPACES == 4, "WRAP makes one entry for each namespace");

/* WRAP(type, name, (parameters), (arguments)) { body }: `ns` is the caller's namespace. */
#define WRAP(type, name, parameters, arguments) \
	static __attribute__((noinline)) type impl_##name(struct hwa_namespace *ns, SPLICE parameters); \
	ENTRY(0, type, name, parameters, arguments) \
	ENTRY(1, type, name, parameters, arguments) \
	ENTRY(2, type, name, parameters, arguments) \
	ENTRY(3, type, name, parameters, arguments) \
	static type impl_##name(struct hwa_namespace *ns, SPLICE parameters)

/* The function that the namespace's own libc has under a wrapper's name. */
#define REAL(name) ((__typeof__(&hwa_entry0_##name))ns->real[HWA_FN_##name])
/* The same for a function that libc's headers declare. */
#define LIBC(name) ((__typeof__(&name))ns->real[HWA_FN_##name])

/* A wrapper with the result of `serve`, or with the original's if that is UNSERVED. */
#define SERVED(type, name, parameters, arguments, serve) \
	WRAP(type, name, parameters, arguments) \
	{ \
		type result = serve; \
		return result != (type)(intptr_t)UNSERVED ? result : REAL(name) arguments; \
	}
/* A wrapper that calls the original after `note`. */
#define NOTED(type, name, parameters, arguments, note) \
	WRAP(type, name, parameters, arguments) \
	{ \
		note; \
		return REAL(name) arguments; \
	}

/* Fails as the namespace's libc would. */
static inline int fail(const struct hwa_namespace *ns, int error)
{
	*ns->errno_location() = error;
	return -1;
}

/* ---- calls.c ---- */

/* How many threads have another count than 0. */
extern unsigned hwa_shifted;
bool hwa_is_shifted_off(void);
/* Returns true if this thread has switched the interception of its calls off. Changes are announced all the same. */
static inline bool hwa_is_off(void)
{
	return __atomic_load_n(&hwa_shifted, __ATOMIC_RELAXED) && hwa_is_shifted_off();
}

/* Looks a path up. Returns 0, UNSERVED, or -1 with errno set. */
static inline int look_up(const struct hwa_namespace *ns, int dirfd, const char *path, unsigned want,
	struct hwa_found *found)
{
	if (hwa_is_off())
		return UNSERVED;
	enum hwa_answer answer = hwa_resolve(dirfd, path, want, found);
	if (answer == HWA_FAILS)
		return fail(ns, found->error);
	return answer == HWA_KNOWN ? 0 : UNSERVED;
}

/* The same result for a function that returns a pointer. */
static inline void *pointer_for(int result)
{
	return result == UNSERVED ? UNSERVED_POINTER : NULL;
}

/* Result for a system call by number that is not handled, or that the original makes. */
#define UNCALLED LONG_MIN

/* ---- stat.c ---- */

/* Returns the record of the original whose copy in the store is open as `fd` with these attributes; NULL if there is
 * none. The inode distinguishes it from the program's own files on the store's file system. */
const struct hw_record *hwa_store_file(int fd, const struct stat *st);
/* The same for an open descriptor. */
const struct hw_record *hwa_store_descriptor(int fd);
/* Opens the original of the store's copy that a descriptor has, with flags of open; -1 if that can't be, or another
 * file is at its path by now. */
int hwa_open_original(const struct hw_record *record, int flags);
/* Returns true if the file at a passthrough path is not the one of which the store had a copy. */
bool hwa_is_replaced(const char *original);

/* Converts what a system call with these arguments has reported of a descriptor or path to the original's. Returns
 * the call's result. */
long hwa_mapped_by_number(long number, long result, long a, long b, long c, long d, long e);

/* ---- open.c ---- */

/* Announces what opening a path with these flags changes, if anything. */
void hwa_note_opening(int dirfd, const char *path, int flags);

/* ---- number.c ---- */

/* Announces what a system call with these arguments changes. */
void hwa_note_change_by_number(long number, long a, long b, long c, long d, long e);

/* ---- write.c ---- */

/* Makes a system call that changes the file of a descriptor, if that may be the store's copy; UNCALLED otherwise. */
long hwa_changed_by_number(struct hwa_namespace *ns, long number, long a, long b, long c, long d, long e);

extern const struct headwater_calls hwa_calls;

/* ---- copies.c ---- */

/* Replaces the store's copy behind a descriptor by the original, if it is still the file that was opened. */
void hwa_exchange_copy(int fd, const struct hw_record *record);
/* The same behind all descriptors of this process, up to a number, that have the copy of a file. */
void hwa_exchange_copies(int dirfd, const char *path, int below);
/* Announces that this process is about to change the content of a file, which its descriptors of copies then show. */
void hwa_announce_content(int dirfd, const char *path);

/* ---- dir.c ---- */

struct dirent;
/* Returns entry `number` of a listing, checked, as readdir returns it. */
void hwa_give_entry(struct dirent *out, const struct hw_listing_entry *entry, const char *name, uint32_t number);

/* ---- bare.c ---- */

#define HWA_LIBRARY "libheadwater-audit.so"
/* Returns true if the audit library is in this list, the value of LD_AUDIT. */
bool hwa_is_audited_by(const char *libraries);
/* Returns true if ld.so could open it. */
bool hwa_library_opens(const char *libraries);
/* Counts the strings before a NULL; 0 for no list. */
size_t hwa_count_strings(char *const list[]);
/* Writes the variable without the library, "LD_AUDIT=" and a NUL if there are no others. Returns its length. */
size_t hwa_bare_variable(const char *libraries, char *out);
/* Builds an environment that has the list without the library, in `slots`, of which it takes hwa_bare_slots. */
char **hwa_bare(char *const envp[], const char *libraries, char **slots);
size_t hwa_bare_slots(char *const envp[], const char *libraries);
/* The same for this process's own, by libc: not for a signal handler, nor a child of vfork. */
void hwa_bare_here(struct hwa_namespace *ns, const char *libraries);

/* ---- exec.c ---- */

/* For execve or execveat by its number. If the program does not announce its changes, all processes validate records
 * from now on. If it must run without the audit library, it is executed; UNCALLED otherwise. */
long hwa_exec_by_number(struct hwa_namespace *ns, long number, long a, long b, long c, long d, long e);

/* ---- link.c ---- */

/* Converts what a system call by number has reported of a link to the original's. */
long hwa_shown_by_number(struct hwa_namespace *ns, int dirfd, const char *path, char *buffer, size_t size);

/* Returns true if the path may be one of /proc's links. */
bool hwa_is_proc(const char *path);
/* Returns true if the link (dirfd, path), one of /proc, leads to the store's copy of a file; writes the original's path
 * into `out`. */
bool hwa_link_into_store(int dirfd, const char *path, struct hwa_path *out);

#endif
