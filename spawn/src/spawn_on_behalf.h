/* Processes for another process of the same program, which describes what it would retain over exec. Not installed. */
#ifndef HEADWATER_SPAWN_ON_BEHALF_H
#define HEADWATER_SPAWN_ON_BEHALF_H

#include "../core/internal.h"

/* A process's description of itself. */
struct hwsp_description {
	char *data; /* a request for one process; to free() */
	size_t bytes;
	uint64_t attributes; /* a digest of the attributes that its processes can't receive later */
	uint64_t variables;  /* a digest of the variables that constructors read */
	uint32_t fd_count;
	int32_t fds[HWSP_FDS_MAX]; /* that stay open over exec, ascending */
};

/* Describes the caller, and a program with these lists. `python`: it is an interpreter. The program would ignore what
 * the caller ignores, of SIGPIPE, SIGCHLD and SIGXFSZ what `ignored` has, and block what `blocked` has: bit n-1 for
 * signal n. Returns 0, or an errno value: ENOTSUP if more descriptors are open than can be passed. */
int hwsp_describe(char *const argv[], char *const envp[], bool python, uint64_t ignored, uint64_t blocked,
	struct hwsp_description *description);

/* A description as it has arrived. */
struct hwsp_arrived {
	const char *data; /* of any content */
	size_t bytes;
	const int *fds; /* for each described descriptor, the received one */
	uint32_t fd_count;
	int cwd;    /* a directory's descriptor */
	int cgroup; /* the directory of the control group in which the process is to begin, or -1: that of the caller */
	uint64_t attributes;
};

/* Ensures that the context has a zygote for the process; it may be started now, in that directory. Returns 0, or an
 * errno value with the reason in `why`, which has HWSP_REASON_BYTES. */
int hwsp_on_behalf_prepare(pspawn_context_t *ctx, const struct hwsp_arrived *arrived, char *why);

/* The imports of the context's zygote that failed, each a line: "?NAME: WHY" if there is no such module, "-NAME: WHY"
 * if processes import it themselves. The text lives until the next call. */
const char *hwsp_on_behalf_left_out(const pspawn_context_t *ctx);

/* Makes the process, never by exec: a child of the caller that leads a group of its own and is killed when the calling
 * thread ends. Returns 0 with its PID, or an error as above. */
int hwsp_on_behalf_spawn(pspawn_context_t *ctx, const struct hwsp_arrived *arrived, pid_t *pid, char *why);

#endif
