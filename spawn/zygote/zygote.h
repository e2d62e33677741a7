/* Common declarations of the files of libheadwater-zygote.so. */
#ifndef HEADWATER_ZYGOTE_H
#define HEADWATER_ZYGOTE_H

#include "../core/internal.h"

#include <link.h>

/* zygote.c */
struct zygote {
	int socket; /* -1: this process is none */
	enum pspawn_stop stop;
	int (*main)(int, char **, char **);
	/* An interpreter's actions around a fork; NULL: none. */
	void (*before_fork)(void), (*after_fork)(void);
	const void *vector; /* the kernel's auxiliary vector */
	size_t vector_bytes;
	uint32_t made; /* how many processes were made; in a spawned one, before it */
	/* Of a process that was spawned. */
	int argc;
	char **argv;
};
extern struct zygote hwsp_zygote;

/* load.c: the stop before all constructors. */

/* Stops in the first of all constructors, which has these arguments; `envp` is the caller's environment. The processes
 * that the zygote makes continue with the next constructor. */
__attribute__((noreturn)) void hwsp_load_stop(int argc, char **argv, char *const *envp);
/* Room for the kernel's start data of a program. */
void *hwsp_load_room(size_t bytes);
/* The program's name in the loader's messages. */
void hwsp_load_name(char *name);
/* The memory of requests is free. */
void hwsp_load_forget_requests(void);
/* Renews the kernel's random bytes (AT_RANDOM). */
void hwsp_load_renew_random(void);

/* early.c: adds what of the program has run though none of its constructors has. */
void hwsp_early(char notes[HWSP_REASON_BYTES]);

/* bind.c: if the process is to stop before all constructors, this library's calls of the C library are of that
 * alone. To be called before anything else is. */
void hwsp_bind(char *const *envp);
/* Return entries of a loaded object's dynamic section, 0 if there is none. The loader has turned those with addresses
 * into such, but not in all objects. */
uintptr_t hwsp_dynamic_address(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag, uintptr_t base);
size_t hwsp_dynamic_size(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag);

/* loop.c: answers requests, and returns in each process that it makes. */
void hwsp_zygote_serve(void);
/* Reports to the owner why this program can't be a zygote, and ends. */
__attribute__((noreturn, format(printf, 2, 3))) void hwsp_zygote_refuse(enum hwsp_refusal refused, const char *format,
	...);

/* fork_safety.c: what constructors change. */

/* Remembers how the process is. */
void hwsp_fork_safety_remember(char *const *envp);
/* Adds the differences of now. */
void hwsp_fork_safety_compare(char reasons[HWSP_REASON_BYTES]);

/* process_identity.c: arguments and environment as other processes see them. */

/* Finds out what will be needed. False if the kernel lets no process change what /proc shows of its arguments. */
bool hwsp_process_identity_prepare(void);
/* Numbers that differ between the zygote's processes, for places on the stack, in bytes, and in the heap. Programs seed
 * generators of random numbers from addresses. */
size_t hwsp_stack_shift(void);
size_t hwsp_heap_shift(void);
/* Arguments and environment become the process's own, everywhere that they can be seen. */
bool hwsp_process_identity_set(const struct pspawn_process *process);

/* cores.c: true if any code has queried on which processors this process may run. */
bool hwsp_cores_counted(void);

/* draws.c: draws of random numbers, recorded between the first two calls. */
void hwsp_draws_begin(void);
void hwsp_draws_end(void);
unsigned hwsp_draws_count(void);
/* Returns what was noticed first since the call before, or NULL. */
const char *hwsp_draws_take(void);

/* signals.c */

/* Before anything else has changed which signals are ignored. */
void hwsp_signals_begin(void);
/* The process ignores what its caller does, by bit number - 1. */
void hwsp_signals_as_caller(uint64_t ignored);

/* forks.c: what the C library does around a fork, for a process made by the kernel's call alone. */
void hwsp_fork_prepare(void);
void hwsp_fork_parent(void);
void hwsp_fork_child(void);
/* The C library's variable for this thread's ID, which the kernel writes. */
int *hwsp_thread_number(void);

/* python.c: an interpreter that has imported what its programs will. */

/* An interpreter's main(): it imports, stops, and becomes an interpreter with its process's arguments. */
int hwsp_python_main(int argc, char **argv);

#endif
