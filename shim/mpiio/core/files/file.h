/*
 * Files as the engine knows them: which one it is, a descriptor of our own to it, and what it was like when the program
 * read it. A file that has changed since is another one.
 */
#ifndef HWIO_FILE_H
#define HWIO_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../engine.h"

/* What tells a file from others, on this node and on others. */
struct hwio_identity {
	uint64_t device, inode;
	int64_t bytes;
	int64_t modified_ns, changed_ns;
	/* Of the machine's boot: device numbers mean something only there. */
	uint64_t boot;
	uint64_t file_system;
};

struct hwio_file {
	int descriptor;
	int references;
	struct hwio_identity identity;
	/* None for a file without a name. */
	char path[HWIO_PATH_BYTES_MAX];
	bool is_leased;
	struct hwio_file *next;
};

/* The regular file behind the program's descriptor, with one reference for the caller; NULL if it is to be left
 * alone. */
struct hwio_file *hwio_file_of(int descriptor, const struct stat *status);
/* The same by its path, for reading; `wanted` is what it must be, or NULL. */
struct hwio_file *hwio_file_open(const char *path, int flags, const struct hwio_identity *wanted);
/* Whether what another rank has sent as a name, with its end, is an absolute one. */
bool hwio_path_is_sound(const char path[HWIO_PATH_BYTES_MAX], uint32_t bytes);
void hwio_file_keep(struct hwio_file *file);
void hwio_file_release(struct hwio_file *file);
/* Whether it is still as it was when it was read. */
bool hwio_file_is_unchanged(const struct hwio_file *file);
/* A file that changes this much later has other times. */
#define HWIO_TICK_NS 10000000L
/* Requests a lease: the kernel notifies before a process on this node opens the file for writing. Without it, a
 * change is seen too late. False: a process writes to it already. */
bool hwio_file_lease(struct hwio_file *file);
/* Of the files with deferred records, the one with these numbers, with one reference for the caller, or NULL. */
struct hwio_file *hwio_file_known(uint64_t device, uint64_t inode);
void hwio_file_unlease(struct hwio_file *file);
/* A file that a process waits to change, or NULL. With the lock held. */
struct hwio_file *hwio_file_with_broken_lease(void);
/* The program has changed the file: this is what it is like now. */
void hwio_file_refresh(const struct stat *status);
/* What this node has kept of the file is older than what other nodes have written. */
void hwio_file_forget(int descriptor);
/* The file's path names another one, or none, from now on. */
void hwio_file_forget_path(const struct stat *status);
/* Gives the number of one of the engine's descriptors up for another. */
void hwio_file_move(int descriptor);
/* The file is changed without calls, as through a mapping: its reads are never deferred. */
void hwio_file_ban(const struct stat *status);
bool hwio_file_is_banned(const struct stat *status);
/* Whether other nodes may see the file, too. */
bool hwio_file_system_is_shared(int descriptor);
/* Whether the descriptor is the engine's own. */
bool hwio_file_owns(int descriptor);
/*
 * Descriptors are no longer closed, and so none is opened: closing one would release the program's own record
 * locks. What opens files fails with ENOLCK from then on.
 */
void hwio_file_locks_are_used(void);
bool hwio_identity_of(int descriptor, const struct stat *status, struct hwio_identity *identity);
/* Whether both are the same file in the same state; `is_written`: only which file it is. */
bool hwio_identity_agrees(const struct hwio_identity *a, const struct hwio_identity *b, bool is_written);
void hwio_file_start(void);

#endif
