/* A task comes to its node: the socket of the node's part of the job, and the node's namespaces. */
#ifndef HEADWATER_SLURM_NODE_H
#define HEADWATER_SLURM_NODE_H

#include <stdbool.h>
#include <stddef.h>

/* How often a process asks for its node's namespaces. */
#define HWSL_ENTER_ATTEMPTS_MAX 10

/* Asks the node's part of the job at this socket, and gives the bytes of its answer, -1 if none comes in time. */
long hwsl_ask_node(const char *socket, char *answer, size_t size, int timeout_ms);

/* Moves this process, which has one thread, into the namespaces that the supervisor at this socket keeps. The
 * working directory is found again by its path; where that is not to be had, it stays the directory that it was.
 * On failure it says what can't be done, and errno is set. */
bool hwsl_enter_namespaces(const char *supervisor, int timeout_ms, const char **what);

#endif
