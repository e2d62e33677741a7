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
	/* Of a process that was spawned. */
	int argc;
	char **argv;
};
extern struct zygote hw_zygote;

/* loop.c: answers requests, and comes back in each process that it makes. */
void hw_zygote_serve(void);
/* Tells the owner why this program can't be a zygote, and ends. */
__attribute__((noreturn, format(printf, 1, 2))) void hw_zygote_refuse(const char *format, ...);

/* surroundings.c: what constructors change. */

/* Remembers how the process is. */
void hw_surroundings_before(char *const *envp);
/* What is otherwise now, in words, or NULL. */
const char *hw_surroundings_changed(void);

/* present.c: how a process looks from outside. */

/* Finds out what will be needed. False if the kernel lets no process change what /proc shows of its arguments. */
bool hw_present_prepare(void);
/* Arguments and environment become the process's own, everywhere that they can be seen. */
bool hw_present(const struct pspawn_process *process);

/* cores.c: true if something has asked on which processors this process may run. */
bool hw_cores_counted(void);

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
