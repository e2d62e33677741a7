/* The loader's side of the shim, shared by audit.c, objects.c, search.c, ldcache.c, symbols.c and tls.c.
 *
 * All of it runs in the loader's callbacks, under the loader's lock, except hwa_original_origin. */
#ifndef HEADWATER_LOADER_H
#define HEADWATER_LOADER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <link.h>

#include "shim.h"

/* What the kernel passed to the process at its start. */
struct hwa_start {
	const char *library_path; /* LD_LIBRARY_PATH, "" if unset */
	const char *executable;   /* the original's path if the store's copy was executed, else "" */
	const char *platform;     /* AT_PLATFORM, NULL if there is none */
	size_t page_bytes;
	const Elf64_Phdr *segments; /* of the executable */
	size_t segment_count;
	uintptr_t loader_base; /* AT_BASE; 0 if run as `ld.so PROGRAM`, whose options change the search */
};
extern struct hwa_start hwa_start;

/* ---- objects.c ---- */

struct hwa_object {
	struct hwa_object *next;   /* of all records, used or not */
	struct link_map *map;      /* NULL if the record is not in use */
	struct hwa_object *loader; /* as glibc's l_loader: whose RPATH counts too; NULL for dlopen's own */
	int slot;                  /* the namespace's, -1 if it has none */
	bool from_store;
	enum hwa_place place;                 /* if it is from the store */
	uint64_t dev, ino;                    /* the original's; zero if it is not in the scope */
	const char *path;                     /* the original's absolute path, "" if it has none */
	const char *rpath, *runpath, *soname; /* NULL if absent; no rpath where there is a runpath */
	const char *strings;                  /* DT_STRTAB */
	uint64_t flags_1;
};

/* Returns memory that is never freed; NULL if there is none. */
void *hwa_arena(size_t bytes);

/* An interned string, with a pointer to data about it. */
struct hwa_interned {
	struct hwa_interned *next;
	uint64_t hash;
	void *known;
	size_t bytes;
	char text[];
};
struct hwa_interned *hwa_intern(const char *text, size_t bytes);

struct hwa_object *hwa_object_new(struct link_map *map, int slot);
void hwa_object_free(struct hwa_object *object);
/* Returns the object of a cookie; NULL if the shim has not opened it. */
struct hwa_object *hwa_object_of(const uintptr_t *cookie);
uintptr_t hwa_object_cookie(struct hwa_object *object);
/* Returns an object of the namespace that was loaded from the source file (dev, ino) or its copy. */
struct hwa_object *hwa_object_same(int slot, uint64_t dev, uint64_t ino);
/* NULL before they have been opened. */
extern struct hwa_object *hwa_program, *hwa_ld_so;

/* Returns the directory that $ORIGIN means, interned; NULL if unknown. */
const char *hwa_object_origin(struct hwa_object *object);
/* Sets an object's visible name to `display`, and its $ORIGIN to that directory, where they are the store's. `limit`
 * is an address behind the link map's own members. */
void hwa_object_rename(struct link_map *map, const char *display, const void *limit);

/* Returns true if eight bytes can be read at this address. */
bool hwa_readable(uintptr_t address);

/* What a name leads to. */
struct hwa_target {
	bool in_store;
	enum hwa_place place;
	uint64_t dev, ino; /* the original's, zero if not known */
	size_t path_bytes;
	char path[HWA_PATH_MAX]; /* absolute, spelled as the loader would */
};

struct stat;
void hwa_identify(const struct stat *st, struct hwa_target *target);
void hwa_identify_record(const struct hw_record *record, struct hwa_target *target);

/* ---- search.c ---- */

enum hwa_search {
	HWA_UNSURE,  /* glibc must search */
	HWA_FOUND,   /* the target */
	HWA_NOWHERE, /* glibc would find nothing */
};

/* Finds a name without a slash, as glibc would for a dependency or dlopen of `loader`. */
enum hwa_search hwa_search(struct hwa_object *loader, const char *name, struct hwa_target *target);

/* ---- ldcache.c ---- */

/* Returns the path that /etc/ld.so.cache has for a name. NULL: none; with *unsure, it has several or can't be read. */
const char *hwa_ldcache_find(const char *name, bool *unsure);
void hwa_ldcache_release(void);

/* ---- symbols.c ---- */

/* Returns an object's dynamic entry as an address, whether or not the loader has relocated it. */
const void *hwa_dynamic_address(const struct link_map *map, uint64_t value);
/* Replaces the functions that libc (or an older glibc's libpthread or libdl) exports by the wrappers, for later
 * bindings, and saves their addresses. */
void hwa_redirect(const struct link_map *map, int slot);

/* ---- tls.c: the start-up's static thread-local storage ---- */

/* Restores the environment if the program was executed again. */
void hwa_tls_restore(char **envp);
/* Starts counting the base namespace's objects and names; hwa_tls_end stops it. */
void hwa_tls_start(char **argv, char **envp, const char *execfn);
void hwa_tls_end(void);
/* Records that the loader has reached this name, or has an object of this name. */
void hwa_tls_reached(const char *name);
/* Records that the loader has opened this object. */
void hwa_tls_object(const struct hwa_object *object);
/* Executes the program again with a larger surplus, if it needs one and the loader has opened all that it needs;
 * returns otherwise. None of the program's code may have run. */
void hwa_tls_settle(void);

#endif
