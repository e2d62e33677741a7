/* The audit shim's inner interfaces.
 *
 * Everything here is freestanding: no libc, no malloc, no TLS, no DT_NEEDED. Every function is safe
 * in a signal handler, after fork, and in a vfork child (raw system calls, the stack, and atomics
 * only), unless its comment states otherwise. Nothing here changes errno; functions return 0 or a
 * negative error number, and the wrappers set the errno of the libc that called them. */
#ifndef HEADWATER_SHIM_H
#define HEADWATER_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headwater/client.h"
#include "headwater/table.h"

#define HWA_PATH_MAX 4096

/* False for what can't be a pointer, which the kernel refuses: no process has memory below vm.mmap_min_addr, and the
 * kernel's own addresses are negative. */
static inline bool hwa_is_address(const void *pointer)
{
	return (intptr_t)pointer >= 4096;
}

/* ---- path.c: paths in the making ---- */

/* Fits most paths and the store's prefix. More would be too much for small stacks: a thread may have 16 KiB, a signal's
 * stack 8 KiB. */
#define HWA_NEAR_BYTES 256

/* A path, NUL-terminated, with space before it for the store's. It begins in its declarer's own memory, and moves to
 * pages of its own when it outgrows that. */
struct hwa_path {
	char *at;
	size_t bytes;
	size_t room;  /* of the text and its NUL */
	char *memory; /* where all of it begins */
	size_t memory_bytes;
	bool apart; /* the memory is its own */
	char none[1];
};
/* Declares a path, whose pages are unmapped at the block's end. */
#define HWA_PATH(name) \
	char name##_near[HWA_NEAR_BYTES]; \
	struct hwa_path name __attribute__((cleanup(hwa_path_end))); \
	hwa_path_begin(&name, name##_near, sizeof name##_near)
/* The same with nothing on the stack. */
#define HWA_PATH_APART(name) \
	struct hwa_path name __attribute__((cleanup(hwa_path_end))); \
	hwa_path_begin(&name, NULL, 0)
void hwa_path_begin(struct hwa_path *path, char *near, size_t bytes);
/* Empties the path. */
void hwa_path_clear(struct hwa_path *path);
void hwa_path_end(struct hwa_path *path);
/* Gives the path the largest possible capacity; false if it has that already, or there is no memory. */
bool hwa_path_widen(struct hwa_path *path);
/* Where a copy of a file is read. */
enum hwa_place {
	HWA_IN_STORE,
	HWA_IN_DOMAIN, /* the store's mirror for the process's memory domain */
	HWA_IN_MOUNT,  /* the node's mount, which fetches what is read */
};
/* Returns the path of the copy in this place; NULL without one. It is written before the path's own text, which doesn't
 * change. */
const char *hwa_copy_of(struct hwa_path *path, enum hwa_place place);

/* Replaces a path in the store by the original's, which is shorter; nothing of it remains. Returns the path. */
char *hwa_strip_in_place(char *path);
/* Writes a number in decimal. Returns its end, which is not terminated. */
char *hwa_put_number(char *at, size_t number);
/* Writes the link of /proc to a descriptor's file. */
#define HWA_LINK_BYTES 32
void hwa_descriptor_link(int fd, char out[HWA_LINK_BYTES]);

/* ---- table.c: the mapped table ---- */

/* Maps the table named by HEADWATER_TABLE in envp and the counters that it names. Idempotent. Without a usable
 * table every hwa_resolve returns HWA_ORIGINAL. A process that may find other files than the daemon under the
 * table's paths gets no table. */
void hwa_attach(char *const envp[]);
bool hwa_attached(void);
/* Returns false once the session has ended or this process has given the table up: all calls go to the originals. */
bool hwa_in_use(void);
bool hwa_has_ended(void);
void hwa_give_up(void);
/* Gives the table up for good, for this process and its programs: the process may see other files from now on, or may
 * not call the wrappers. hwa_has_left returns whether that has happened. */
void hwa_leave(void);
bool hwa_has_left(void);
/* Suspends or resumes serving; processes that are forked meanwhile are never served. Returns the previous state. */
bool hwa_set_suspended(bool away);
/* Returns true once unaudited programs run in the session: they do not announce their changes. */
bool hwa_unaudited(void);

/* Returns true if the store may have the content of a file of this size; a table must be mapped. */
bool hwa_stores(uint64_t bytes);
uint64_t hwa_generation(void);
/* Returns the daemon's socket, NUL-terminated. */
const char *hwa_socket(size_t *bytes);
/* Returns the table's hash of a byte string. */
uint64_t hwa_hash(const char *data, size_t bytes);
/* Returns the record of exactly this path, its state read once with acquire order; NULL if unknown. */
const struct hw_record *hwa_find(const char *path, size_t bytes, uint64_t *state);
/* Returns the record of the store's file with this inode number. */
const struct hw_record *hwa_find_inode(uint64_t ino, uint64_t *state);
/* Returns a link's target (its length in *bytes), which may lack a NUL; NULL if damaged. */
const char *hwa_link_target(const struct hw_record *record, size_t *bytes);
/* Returns a checked listing; NULL if damaged. hwa_listing_name checks its names. */
const struct hw_listing *hwa_listing_of(const struct hw_record *record, uint64_t state);
/* Returns entry `number` of a listing, or NULL; *name is NUL-terminated. */
const struct hw_listing_entry *hwa_listing_name(const struct hw_record *record, const struct hw_listing *listing,
	uint32_t number, const char **name);
/* Returns 1 if the listing has this name, 0 if not, -1 if damaged; sets d_type if type is not NULL. */
int hwa_listing_has(const struct hw_record *record, const struct hw_listing *listing, const char *name, size_t bytes,
	uint8_t *type);

/* The header's strings, NUL-terminated. */
const char *hwa_store_prefix(size_t *bytes);
/* Without a mount it has no bytes. */
const char *hwa_mount_point(size_t *bytes);
/* Returns true if the store is reached through a process that may end: then a known copy can't be opened. */
bool hwa_store_can_vanish(void);
/* Returns the memory domain whose mirror this process uses; -1 for the common mirror. */
int hwa_domain(void);
/* Returns true if (major, minor) is the store's device, or the mount's. */
bool hwa_is_store_dev(uint32_t major, uint32_t minor);
bool hwa_is_mount_dev(uint32_t major, uint32_t minor);
/* Returns true if an absolute, cleaned path lies in the scope. */
bool hwa_in_scope(const char *path, size_t bytes);

/* Returns the next directory of the scope below an absolute, cleaned path, counted by *number; NULL at the end. */
const char *hwa_scope_below(const char *path, size_t bytes, size_t *number);

enum hwa_counter {
	HWA_COUNT_LOOKUPS,
	HWA_COUNT_ANSWERED,
	HWA_COUNT_REQUESTS,
	HWA_COUNT_FALLBACKS,
	HWA_COUNT_PROCESSES
};
void hwa_count(enum hwa_counter which);

/* ---- view.c: what this process sees ---- */

/* Returns true if absolute paths and owners mean the same to this process as to the daemon that wrote the header. */
bool hwa_has_same_view(const struct hw_header *header);
/* The one process that hands the audit library on to what it executes; 0: all do. */
extern long hwa_handing_on;

/* ---- request.c: asking the daemon ---- */

/* Requests `path` from the daemon and waits. HW_DONE: the table has the answer. HW_FALLBACK: use the original; the
 * daemon is dead, of another version, silent for HW_SILENCE_MS_MAX, or was silent a short while ago. */
enum hw_status hwa_request(const char *path, size_t bytes, unsigned want);
/* Returns the seconds of the monotonic clock. */
uint64_t hwa_now_s(void);

/* ---- resolve.c: from a program's path to an answer ---- */

enum hwa_answer {
	HWA_ORIGINAL, /* call the original with the program's own arguments */
	HWA_FAILS,    /* found->error is the error number to set (ENOENT, EACCES, …) */
	HWA_KNOWN,    /* found->record, ->state, ->path */
};

struct hwa_found {
	const struct hw_record *record;
	uint64_t state;
	int error;
	struct hwa_path path; /* the original's canonical path: no links, no ".." */
};
#define HWA_FOUND(name) \
	char name##_near[HWA_NEAR_BYTES]; \
	struct hwa_found name __attribute__((cleanup(hwa_found_end))); \
	hwa_path_begin(&name.path, name##_near, sizeof name##_near)
static inline void hwa_found_end(struct hwa_found *found)
{
	hwa_path_end(&found->path);
}

/* Resolves `path` (relative to dirfd or the working directory) by the table. Links are followed as the kernel does, the
 * last component's not with HW_WANT_NO_FOLLOW. What the table lacks of `want` is requested from the daemon.
 *
 * HWA_KNOWN promises that the record's state has what was wanted; with HW_WANT_LOADABLE, _WHOLE or _EXECUTE, that the
 * store had the bytes at the time of the look-up. HW_EXECUTABLE states whether they may be executed. Once unaudited
 * programs run, the record is compared with the source file, and HWA_FAILS is not returned. A trailing slash demands a
 * directory. A NULL, empty or over-long path is HWA_ORIGINAL. */
enum hwa_answer hwa_resolve(int dirfd, const char *path, unsigned want, struct hwa_found *found);

/* Writes the absolute path, cleaned but with its links and "..", that (dirfd, path) names, if it can lie in the
 * scope. Returns 0 or a negative error number. A descriptor of the original's directory or of the store's yields
 * the original's path. */
int hwa_absolute(int dirfd, const char *path, struct hwa_path *out);

#define HWA_CHANGES_TREE 1u   /* and everything below: a directory is renamed or removed */
#define HWA_CHANGES_TARGET 2u /* if it is a link, what that leads to */
#define HWA_CHANGES_NEW 4u    /* and everything below, if the session knows nothing there: a directory is made */

/* Announces to the daemon that the program is about to change (dirfd, path), if that lies in the scope or links
 * lead there. If that fails, this process gives the table up, because it would hide the program's own changes. */
void hwa_announce_change(int dirfd, const char *path, unsigned how);

/* Announces to the daemon that an unaudited program is about to run, in this process or another. If that fails,
 * this process gives the table up. */
void hwa_announce_unaudited(void);

/* Writes hwa_copy_of into `out`, for a path of any length. Returns its length or a negative error number. */
int hwa_store_path(const char *path, size_t bytes, enum hwa_place place, char out[2 * HWA_PATH_MAX]);
/* Returns where the loadable bytes of a file in this state are. */
enum hwa_place hwa_loads_from(uint64_t state);
/* Returns true if the mirror of the process's memory domain has the file in this state: the loadable bytes
 * (HW_REPLICATED) or all (HW_REPLICATED_WHOLE). The domain is that in which the process started. */
bool hwa_replicated(uint64_t state, uint64_t extent);
/* Returns the place that a path is in; HWA_IN_STORE for paths elsewhere. */
enum hwa_place hwa_place_of(const char *path);
/* Returns true if there are such mirrors: the inode index lacks their files. */
bool hwa_has_replicas(void);
/* Returns the original's path (a suffix of `path`) if `path` lies in the store or the mount, else NULL. */
const char *hwa_strip_store(const char *path);
/* Returns what follows "/GENERATION/root" or "/GENERATION/rootDOMAIN" in `text`, if it starts like that, else NULL. */
const char *hwa_after_mirror(const char *text);
/* Returns what follows "/proc/PID/fd/N" in a path that starts so, else the path. */
const char *hwa_after_proc_fd(const char *path);

/* For a bare name that is nowhere, the loader gets the store's prefix, this, and the name: it fails without a search,
 * and dlerror drops the prefix. */
#define HWA_NOWHERE_PREFIX "//"

/* ---- audit.c: namespaces and objects ---- */

#define HWA_NAMESPACES 4 /* objects of further namespaces are left alone */

/* Every function that has a wrapper, as FUNCTION(name): functions.def. */
enum hwa_function {
#define FUNCTION(name) HWA_FN_##name,
#include "functions.def"
#undef FUNCTION
	HWA_FUNCTIONS
};

/* One libc and its definitions. */
struct hwa_namespace {
	long lmid;
	int *(*errno_location)(void);
	char ***environment;       /* libc's own */
	void *real[HWA_FUNCTIONS]; /* the addresses of this libc's own functions; NULL if it has none */
};
extern struct hwa_namespace hwa_namespaces[HWA_NAMESPACES];
/* Returns the namespace's own environment; NULL if it can't be found. */
char **hwa_environment(const struct hwa_namespace *ns);

/* ---- wrap/ ---- */

/* A function's wrapper for each namespace. */
extern void *const hwa_wrappers[HWA_FUNCTIONS][HWA_NAMESPACES];

/* ---- objects, as dladdr, dlinfo and the loader's search need them ---- */
struct link_map;
/* Writes the original directory of a link map's object, as $ORIGIN shows it, and a NUL; false, and nothing is written,
 * if it did not come from the store. */
bool hwa_original_origin(const struct link_map *map, char *out);

/* ---- exec.c, shared with the `headwater exec` command ---- */

#define HWA_LINE_BYTES 256
/* What execve(path, argv, …) would run, redirected. */
struct hwa_exec {
	struct hwa_found found;
	const char *file;  /* on HWA_KNOWN, what to execute: the store's copy, or an interpreter */
	char *interpreter; /* as a script names it, in `line`; NULL if it is none */
	char *argument;    /* of the script's line, before its own name; NULL if there is none */
	char *line;        /* HWA_LINE_BYTES where the pages begin that the path has then */
};
#define HWA_EXEC(name) \
	char name##_near[HWA_NEAR_BYTES - 64]; \
	struct hwa_exec name __attribute__((cleanup(hwa_exec_end))); \
	hwa_path_begin(&name.found.path, name##_near, sizeof name##_near)
static inline void hwa_exec_end(struct hwa_exec *exec)
{
	hwa_path_end(&exec->found.path);
}
enum hwa_answer hwa_exec_resolve(int dirfd, const char *path, char *const argv[], struct hwa_exec *exec);
/* Returns true, after a pause, if an execution failed because the daemon still had the copy open for writing: it is to
 * be tried again. `tries` begins with 0. */
bool hwa_exec_again(int error, unsigned *tries);
/* Writes the arguments of a script's interpreter. Slots of `out`: the length of argv + 3. */
void hwa_exec_arguments(const struct hwa_exec *exec, const char *path, char *const argv[], char **out);
/* hwa_exec_resolve for callers without cleanup (Rust): it copies the file's path and a script's line. */
enum hwa_answer hwa_exec_copy(const char *path, char *const argv[], char file[2 * HWA_PATH_MAX],
	char line[HWA_LINE_BYTES], char **interpreter, char **argument, int *error);

/* ---- program.c, likewise ---- */

enum hwa_format {
	HWA_IS_FOREIGN, /* a program that does not run audited */
	HWA_IS_OTHERS,  /* an unaudited program that can't be audited: of another processor or mode */
	HWA_IS_PROGRAM, /* one that does */
	HWA_IS_SCRIPT,
	HWA_IS_TEXT, /* nothing that the kernel knows by itself */
};

/* Returns the open file's format. Writes a script's first line and a NUL into the HWA_LINE_BYTES at `line`, unless that
 * is NULL. */
enum hwa_format hwa_format(long fd, char *line);
/* Returns true if this process could open the file only by capabilities that it does not pass on: those of a process
 * that is not root. */
bool hwa_only_by_capability(long fd);
/* Splits a script's first line as the kernel's binfmt_script does: the interpreter, and all the rest
 * as one argument (NULL if none). False if the kernel must decide. */
bool hwa_parse_line(char line[HWA_LINE_BYTES], char **interpreter, char **argument);

/* Returns true if the path's last name is one of these, up to a NULL. */
bool hwa_is_named(const char *path, const char *const *names);
/* Returns true for programs that run another one by reading it themselves: its loader would audit in what they report
 * of it. */
bool hwa_reads_programs(const char *path);

enum hwa_manner {
	HWA_IS_NONE,   /* there is no such program */
	HWA_ANNOUNCES, /* announces its changes to the daemon */
	HWA_SILENT,
	HWA_COMPLAINS, /* silent, and complains of the audit library */
};
/* Returns how execve(path) would run with the audit library in its environment. An empty path is the descriptor
 * itself. */
enum hwa_manner hwa_manner_of(int dirfd, const char *path);

#endif
