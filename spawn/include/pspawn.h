/* Processes, many at once, placed, and from a warm image: the interface of libheadwater-spawn.so.
 *
 * After "Optimizing Latency and Throughput for Spawning Processes on Massively Multicore Processors" (Kulkarni,
 * Lang, Ionkov, Lumsdaine, 2012): one exec and many forks instead of an exec for each process.
 *
 * A context has a zygote: the program, loaded once with all its libraries, and stopped before its first constructor.
 * Each further process is a fork of it, with arguments, environment, descriptors, directory, limits and signals of its
 * own, and is a child of the caller. What a zygote can't do faithfully is done by exec; pspawn_context_mechanism()
 * returns which and why.
 *
 * Unless stated otherwise, functions return -1 and set errno on failure, have no side effects then, may be called by
 * several threads at once on different contexts, and by one at a time on the same. The caller reaps what it
 * spawned with waitpid() or the like. */
#ifndef HEADWATER_PSPAWN_H
#define HEADWATER_PSPAWN_H

#ifndef _GNU_SOURCE
#error "pspawn.h needs _GNU_SOURCE, for sets of processors"
#endif

#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A program that will be spawned. pspawn_context_create() initializes it; it is not to be copied. */
typedef struct pspawn_context {
	struct pspawn_state *state;
} pspawn_context_t;

/* Makes a context of the program at `path`, which contains a slash, or is searched for in PATH. Processes run on
 * `core` alone, or where the caller may run if that is -1. Errors are those of execve(), and EINVAL for a core
 * that isn't there. Returns 0. */
int pspawn_context_create(pspawn_context_t *ctx, const char *path, int core);

/* Ends the context and its zygote. Processes live on, and batches may be ended later: what the zygote has not made by
 * then is made by exec. */
void pspawn_context_destroy(pspawn_context_t *ctx);

/* Spawns one process with these arguments, NULL at their end, and the caller's environment. Returns its PID. */
pid_t pspawn(pspawn_context_t *ctx, char *argv[]);

/* Spawns `nspawn` processes, all with these arguments, and writes their PIDs to `pids`. Returns how many were started:
 * if that is less than `nspawn`, errno has the reason why the next was not. */
int pspawn_n(pid_t *pids, pspawn_context_t *ctx, int nspawn, char *argv[]);

/* How processes are made. */
enum pspawn_mechanism {
	PSPAWN_AUTO,        /* PSPAWN_ZYGOTE if that is faithful, or else PSPAWN_VFORK */
	PSPAWN_ZYGOTE,      /* forks of one process that was exec'd */
	PSPAWN_VFORK,       /* clone with shared memory until exec */
	PSPAWN_CLONE3,      /* the same, straight into a control group, and without signals' handlers */
	PSPAWN_POSIX_SPAWN, /* the C library's, for what it can express */
	PSPAWN_FORK,        /* fork and exec: the paper's sfork and afork, by when the caller waits */
	PSPAWN_PFORK        /* the first child forks the others, which are the caller's children nevertheless */
};

/* How a process from a zygote differs from one that was executed:
 *
 * - addresses: The program, its libraries and what the kernel maps lie at the same addresses in all processes of a
 *   zygote. The heap and the program's frames on the stack begin at addresses of their own, which repeat after 4,096
 *   processes: programs seed generators of random numbers from them. What was freed before the stop lies where it lay.
 * - library: libheadwater-zygote.so is loaded too. It is the last in the list of what is loaded.
 * - choosers: Functions that choose others by the kind of processor (IFUNC) run while the program is loaded: once, in the
 *   zygote.
 * - execution: For the kernel it is a fork. Tracers and audits see no execution, and its parent may still change its
 *   process group.
 *
 * With PSPAWN_STOP_MAIN, besides:
 *
 * - constructors: They run once, in the zygote. What they draw, read or store is the same in all processes: random
 *   numbers, the time, the process's PID, arguments, variables, input. What a fork does not take along is gone: locked
 *   memory, a signal for the parent's end, children.
 * - guards: The values that protect stacks and pointers are the same in all processes of a zygote. They are not derived
 *   from AT_RANDOM, which is new in each.
 * - arguments: Arguments and environment do not lie on the first stack.
 */

/* Where a zygote stops. PSPAWN_STOP_LOAD needs an x86-64 processor and a known version of glibc's loader; with any
 * other there is no zygote. */
enum pspawn_stop {
	PSPAWN_STOP_LOAD,  /* when all libraries are loaded, before the first constructor */
	PSPAWN_STOP_MAIN,  /* before main(), when all constructors have run */
	PSPAWN_STOP_CALL,  /* in main(), which runs with the context's arguments, when it calls pspawn_stop() */
	PSPAWN_STOP_PYTHON /* in a Python interpreter, after `imports` */
};

/* Options of a context. Zero means the default everywhere; `size` is sizeof(struct). */
struct pspawn_context_options {
	size_t size;
	enum pspawn_mechanism mechanism;
	enum pspawn_stop stop;
	int on_core; /* 1: all processes run on `core` alone */
	int core;
	char *const *argv;          /* of the zygote; with PSPAWN_STOP_CALL these reach main() */
	char *const *envp;          /* of the zygote; NULL: the caller's */
	const char *imports;        /* with PSPAWN_STOP_PYTHON: modules, separated by commas. Lines that follow are a
	                               table of how processes reseed modules that draw random numbers as they are
	                               imported: MODULE: STATEMENT. Modules that draw and have no such line are left
	                               out, and so are those that can't be imported */
	const char *key_variables;  /* more variables that constructors read, separated by commas; a process for
	                               which one differs is spawned from another zygote. NAME* matches all that begin
	                               so. LD_*, OMP_*, MALLOC_*, PYTHON* and others are always included */
	unsigned start_ms_max;      /* how long a zygote may take to stop; 10 s */
	const char *zygote_library; /* libheadwater-zygote.so; NULL: $HEADWATER_ZYGOTE_LIBRARY, or beside this one */
	unsigned stopped_ms_max;    /* timeout of a zygote that was stopped, by a signal or with a debugger. Then it
	                               is killed, and exec makes what it has not made; 10 s */
	const cpu_set_t *mask;      /* the processors that the zygote may use; NULL: `core`, or the caller's. If its
	                               libraries count them as they are loaded, a process that may use fewer or more
	                               needs another zygote: one mask of those that processes will have spares it */
	size_t mask_size;           /* in bytes */
};

/* pspawn_context_create() with more options. */
int pspawn_context_create_with(pspawn_context_t *ctx, const char *path, const struct pspawn_context_options *options);

/* How the context makes processes. If `reason` isn't NULL it is set to why there is no zygote, all reasons with "; "
 * between them, or to NULL; the text lives as long as the context, or until the next call. */
enum pspawn_mechanism pspawn_context_mechanism(pspawn_context_t *ctx, const char **reason);

/* What of the program has run before its zygote stopped in front of all constructors, so once for all its processes: as
 * text, or NULL. The text lives as long as the zygote. */
const char *pspawn_context_early(pspawn_context_t *ctx);

/* The number of the context's zygote, or 0. */
pid_t pspawn_context_zygote(pspawn_context_t *ctx);

/* The name of a mechanism. */
const char *pspawn_mechanism_name(enum pspawn_mechanism mechanism);

/* Where PSPAWN_STOP_CALL stops. Returns 1 in a process that was spawned, with its arguments, and 0, with nothing done,
 * in a program that is no zygote. */
int pspawn_stop(int *argc, char ***argv);

/* Actions on a process's descriptors before the program begins, in this order. */
enum pspawn_file_action_kind { PSPAWN_OPEN, PSPAWN_CLOSE, PSPAWN_DUP2 };
struct pspawn_file_action {
	enum pspawn_file_action_kind kind;
	int fd;           /* which is opened, closed, or the copy */
	int from;         /* PSPAWN_DUP2: of what; `from` equal to `fd` clears close-on-exec */
	const char *path; /* PSPAWN_OPEN */
	int flags;        /* as those of open() */
	mode_t mode;
};

/* A process to be spawned. */
struct pspawn_process {
	char *const *argv;
	char *const *envp;     /* NULL: the caller's */
	const cpu_set_t *mask; /* the processors it may run on; NULL: by the context and by `numa` */
	size_t mask_size;      /* in bytes */
	const char *cwd;       /* NULL: the caller's */
	const struct pspawn_file_action *file_actions;
	size_t file_action_count;
};

/* How processes are spread over the machine's memory domains, unless they have a mask. */
enum pspawn_numa {
	PSPAWN_NUMA_NONE,
	PSPAWN_NUMA_FILL,   /* one core each; a domain's cores before those of the next */
	PSPAWN_NUMA_SPREAD, /* one core each; the next domain for each process */
	PSPAWN_NUMA_DOMAIN  /* all cores of a domain; the next domain for each process */
};

enum pspawn_option_flags {
	PSPAWN_SETSID = 1,
	PSPAWN_SETPGROUP = 2, /* to `pgroup`; 0: its own */
	PSPAWN_SETUMASK = 4,
	PSPAWN_SETCGROUP = 8, /* enters the control group whose directory is open at `cgroup` */
	PSPAWN_SETSIGMASK = 16,
	PSPAWN_SETSIGDEF = 32,        /* the signals in `signal_default` get their default action */
	PSPAWN_ONE_GROUP = 64,        /* with PSPAWN_SETPGROUP and 0: the first process leads a group of all */
	PSPAWN_ENDS_WITH_CALLER = 128 /* it is killed when the calling thread ends */
};

struct pspawn_limit {
	int resource;
	struct rlimit limit;
};

/* Options for all processes of one call. Zero means as the caller has it; `size` is sizeof(struct). */
struct pspawn_options {
	size_t size;
	unsigned flags;
	enum pspawn_numa numa;
	pid_t pgroup;
	mode_t umask;
	int cgroup;
	sigset_t signal_mask;
	sigset_t signal_default;
	const struct pspawn_limit *limits;
	size_t limit_count;
	unsigned first; /* the number of the first process, from which `numa` counts */
};

/* Spawns `count` processes. `pids` and `errors` have that many entries; a process that could not be started has pid -1
 * and an errno value. `errors` and `options` may be NULL. Returns how many were started. One failure does not prevent
 * the other processes, except a lack of processes or memory: then those that follow have the same error. */
int pspawn_many(pspawn_context_t *ctx, const struct pspawn_process *processes, unsigned count,
	const struct pspawn_options *options, pid_t *pids, int *errors);

/* The same without waiting. Returns a descriptor that becomes readable once all are started or failed; it belongs to
 * the batch. */
typedef struct pspawn_batch pspawn_batch_t;
int pspawn_many_begin(pspawn_context_t *ctx, const struct pspawn_process *processes, unsigned count,
	const struct pspawn_options *options, pspawn_batch_t **batch);

/* Waits for the batch, returns its outcome as pspawn_many() does, and frees it. */
int pspawn_many_end(pspawn_batch_t *batch, pid_t *pids, int *errors);

/* The paper's vector call. `argv` and `envp` contain a list for each process, one after another, each with a NULL at
 * its end, or one list for all with PSPAWN_SAME_ARGV, PSPAWN_SAME_ENVP; a NULL `envp` is the caller's. `masks` is NULL,
 * or has for each process a set of `clen` bytes or NULL. Returns the number started, and writes the PIDs of the
 * processes; the entry of one that could not be started has -1 and errno is that of the first such. */
enum pspawn_flags {
	PSPAWN_SAME_ARGV = 1,
	PSPAWN_SAME_ENVP = 2,
	PSPAWN_BY_EXEC = 4,  /* never from a zygote */
	PSPAWN_BY_ZYGOTE = 8 /* also for few processes; without, it is used where it pays */
};
int pspawn_vector(const char *filename, char *const argv[], char *const envp[], unsigned nspawns, unsigned clen,
	cpu_set_t *const masks[], int flags, pid_t pids[]);

/* The same without waiting: see pspawn_many_begin(). */
int ipspawn_vector(const char *filename, char *const argv[], char *const envp[], unsigned nspawns, unsigned clen,
	cpu_set_t *const masks[], int flags, pspawn_batch_t **batch);

#ifdef __cplusplus
}
#endif
#endif
