/* The engine's files: identity, a descriptor of the engine's own, and the state when the program read the file. A file
 * that has changed since is another one. */
#ifndef HWIO_FILE_H
#define HWIO_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/engine.h"

/* Distinguishes a file from others, on this node and on others. */
struct hwio_identity {
	uint64_t device, inode;
	int64_t bytes;
	int64_t modified_ns, changed_ns;
	/* The machine's boot: device numbers are valid only there. */
	uint64_t boot;
	uint64_t file_system;
};

struct hwio_file {
	int descriptor;
	int references;
	struct hwio_identity identity;
	/* Empty if the file has no name. */
	char path[HWIO_PATH_BYTES_MAX];
	bool is_leased;
	/* The program has changed the file since `identity` was found out. */
	bool has_changed_here;
	struct hwio_file *next;
};

/* Returns the regular file of the program's descriptor, with one reference for the caller; NULL if its reads can't be
 * deferred. */
struct hwio_file *hwio_file_of(int descriptor, const struct stat *status);
/* The same by path; `wanted` is the identity that it must have. NULL, with errno set: there is none. */
struct hwio_file *hwio_file_open(const char *path, int flags, const struct hwio_identity *wanted);
/* The same by path, in whatever state it is now; `same` is the identity that it had. NULL: it is another one,
 * or banned. */
struct hwio_file *hwio_file_open_now(const char *path, const struct hwio_identity *same);
/* Returns true if a path that another rank has sent, with its NUL, is absolute and complete. */
bool hwio_path_is_sound(const char path[HWIO_PATH_BYTES_MAX], uint32_t bytes);
void hwio_file_retain(struct hwio_file *file);
void hwio_file_release(struct hwio_file *file);
/* Returns true if size and time are those of the read. */
bool hwio_file_is_unchanged(struct hwio_file *file);
/* Requests a lease: the kernel notifies before a process on this node opens the file for writing. Without it, a
 * change is seen too late. False: a process writes to it already. */
bool hwio_file_lease(struct hwio_file *file);
/* Returns the known file with this device and inode, with one reference for the caller, or NULL. */
struct hwio_file *hwio_file_known(uint64_t device, uint64_t inode);
void hwio_file_unlease(struct hwio_file *file);
/* Returns a file that another process waits to change, or NULL. Called with the lock held. */
struct hwio_file *hwio_file_with_broken_lease(void);
/* Records the file's new state after a change by the program; of a file on NFS, when it is needed. */
void hwio_file_refresh(int descriptor);
/* Returns true if this node has a part of the file in memory, as far as a few of its pages show. */
bool hwio_file_is_cached(const struct hwio_file *file, off_t offset, size_t bytes);
/* Drops the pages that this node has cached: other nodes have written to the file. */
void hwio_file_forget(int descriptor);
/* Sends what this node has cached of a part of the file to the server, and drops it. Other parts are not sent: all
 * requests to the server would wait for that. Returns 0 or an error number. */
int hwio_file_send(int descriptor, uint64_t low, uint64_t high);
/* Forgets the file's path, which the program is about to remove or replace. */
void hwio_file_forget_path(const struct stat *status);
/* Moves an engine's descriptor to another number. */
void hwio_file_move(int descriptor);
/* Bans a file that is changed without calls, as through a mapping: its reads are never deferred. */
void hwio_file_ban(const struct stat *status);
bool hwio_file_is_banned(const struct stat *status);
/* Returns true for a file on NFS. One server answers all nodes. A node that writes a part of a page may write the rest
 * of the page, too, as it has cached it, so two nodes must not write to the same page. */
bool hwio_identity_is_nfs(const struct hwio_identity *identity);
/* Return true if other nodes may see the file, too. */
bool hwio_identity_is_shared(const struct hwio_identity *identity);
bool hwio_file_system_is_shared(int descriptor);
/* Returns true if the descriptor is the engine's own. */
bool hwio_file_owns(int descriptor);
/* Stops closing descriptors, and therefore opening any: closing one would release the program's own record locks.
 * Opening a file fails with ENOLCK from then on. */
void hwio_file_stop_closing(void);
bool hwio_identity_of(int descriptor, const struct stat *status, struct hwio_identity *identity);
/* Returns true if both are the same file in the same state; with `is_written`, if they are the same file. */
bool hwio_identity_agrees(const struct hwio_identity *a, const struct hwio_identity *b, bool is_written);
void hwio_file_start(void);
/* Returns a digest of the machine's boot; 0: it isn't known. */
uint64_t hwio_file_boot(void);

#endif
