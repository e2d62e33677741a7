/* What the files of libheadwater-zygote.so share. */
#ifndef HEADWATER_ZYGOTE_H
#define HEADWATER_ZYGOTE_H

#include "../core/internal.h"

#define EXPORT __attribute__((visibility("default")))

/* zygote.c */
struct zygote {
	int socket; /* -1: this process is none */
	enum pspawn_stop stop;
	int (*main)(int, char **, char **);
	/* What an interpreter does around a fork; NULL: nothing. */
	void (*before_fork)(void), (*after_fork)(void);
	const void *vector; /* the kernel's auxiliary vector */
	size_t vector_bytes;
	/* Of a process that was spawned. */
	int argc;
	char **argv;
};
extern struct zygote hw_zygote;

/* load.c: the stop before all constructors. */

/* Stops there, in the first of all constructors, which has these arguments; `envp` is the caller's environment. What
 * the zygote makes goes on with the next one. */
__attribute__((noreturn)) void hw_load_stop(int argc, char **argv, char *const *envp);
/* Room for what the kernel gives a program at its start. */
void *hw_load_room(size_t bytes);
/* What the loader calls the program in its messages. */
void hw_load_name(char *name);
/* The memory of requests is free. */
void hw_load_forget_requests(void);
/* The kernel's random bytes (AT_RANDOM) are others. */
void hw_load_renew_random(void);

/* early.c: adds what of the program has run though none of its constructors has. */
void hw_early(char notes[HW_REASON_BYTES]);

/* bind.c: if the process is to stop before all constructors, this library's calls of the C library are of that alone. To
 * be called before anything else is. */
void hw_bind(char *const *envp);

/* loop.c: answers requests, and comes back in each process that it makes. */
void hw_zygote_serve(void);
/* Tells the owner why this program can't be a zygote, and ends. */
__attribute__((noreturn, format(printf, 1, 2))) void hw_zygote_refuse(const char *format, ...);

/* The same, if that is for one of the modules that it was to import: see enum hw_refusal. */
__attribute__((noreturn)) void hw_zygote_leave_out(const char *reason);

/* surroundings.c: what constructors change. */

/* Remembers how the process is. */
void hw_surroundings_before(char *const *envp);
/* Adds what is otherwise now. */
void hw_surroundings_changed(char reasons[HW_REASON_BYTES]);

/* present.c: how a process looks from outside. */

/* Finds out what will be needed. False if the kernel lets no process change what /proc shows of its arguments. */
bool hw_present_prepare(void);
/* Arguments and environment become the process's own, everywhere that they can be seen. */
bool hw_present(const struct pspawn_process *process);

/* cores.c: true if something has asked on which processors this process may run. */
bool hw_cores_counted(void);

/* draws.c: who takes random numbers. Noticed is what happens between the first two calls. */
void hw_draws_begin(void);
void hw_draws_end(void);
unsigned hw_draws_count(void);
/* What was noticed first since the call before, or NULL. */
const char *hw_draws_take(void);
/* A process gets random bytes of its own where the kernel has written some. */
void hw_draws_renew(void);

/* signals.c */

/* Before anything else has changed what is ignored. */
void hw_signals_begin(void);
/* The process ignores what its caller does, by bit number - 1. */
void hw_signals_as_caller(uint64_t ignored);

/* forks.c: what the C library does around a fork, for a process made by the kernel's call alone. */
void hw_fork_prepare(void);
void hw_fork_parent(void);
void hw_fork_child(void);
/* Where the C library keeps this thread's number, for the kernel to write it. */
int *hw_thread_number(void);

/* python.c: an interpreter that has imported what its programs will. */

/* An interpreter's main(): it imports, stops, and becomes what its processes' arguments say. */
int hw_python_main(int argc, char **argv);

#endif
