/* Common declarations of the files of libheadwater-relay.so. */
#ifndef HEADWATER_RELAY_H
#define HEADWATER_RELAY_H

#include "../core/internal.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/un.h>

#define RELAY_PATH_BYTES 4096
/* The C library's function behind one of the same name here. */
#define ORIGINAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The reply to a child's request, the path that it would exec: exec, or have the zygote spawn, and return the
 * PID of the process, 0 if there is none. The zygote's socket is attached to the latter. */
struct relay_reply {
	uint32_t go;
	struct hwsp_zygote zygote; /* as its owner sees it; the memory for results has the same address in the child */
};

/* launcher.c: the process that forks. */

struct relay {
	bool ready;
	pid_t owner;
	int listener;
	struct sockaddr_un address; /* of an abstract socket: a child may close descriptors that it did not open */
	socklen_t address_bytes;
	_Atomic uint32_t *awaited; /* generation of the child that may send a request; shared with all children */
	/* In a child. */
	bool child;
	uint32_t generation;
};
extern struct relay hwsp_relay;

/* Has the zygote of a program make a process of this one, if there is one. The number, or -1: nothing has happened. */
pid_t hwsp_relay_spawn(const char *path, const struct pspawn_process *process, const struct pspawn_options *options);

/* stub.c: a child between fork and exec. */

/* Has the zygote start the program, and exits; or returns, without any effect. */
void hwsp_relay_exec(const char *path, char *const argv[], char *const envp[]);

#endif
