/* Joining a task to its node: the node agent's socket, and the node's namespaces. */
#ifndef HEADWATER_SLURM_NODE_H
#define HEADWATER_SLURM_NODE_H

#include <stdbool.h>
#include <stddef.h>

/* Maximum of attempts to enter the node's namespaces. */
#define HWSL_ENTER_ATTEMPTS_MAX 10

/* Connects to the node agent at this socket. Returns the size of its answer in bytes, -1 on timeout. */
long hwsl_ask_node(const char *socket, char *answer, size_t size, int timeout_ms);

/* Moves this process, which has one thread, into the namespaces of the supervisor at this socket. The working
 * directory is opened again by its path; if that fails, it stays. On failure `what` has the failed step, and errno
 * is set. */
bool hwsl_enter_namespaces(const char *supervisor, int timeout_ms, const char **what);

#endif
