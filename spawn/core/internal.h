/* The interface between the library and the zygote, and between the files of each. Not installed. */
#ifndef HEADWATER_SPAWN_INTERNAL_H
#define HEADWATER_SPAWN_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "pspawn.h"

#define EXPORT __attribute__((visibility("default")))

#define HWSP_SPAWN_VERSION 3u
/* Set in a process that is to become a zygote: "SOCKET STOP NAME". */
#define HWSP_ZYGOTE_VARIABLE "HEADWATER_ZYGOTE_SOCKET"
/* The imports of a Python zygote, separated by commas. */
#define HWSP_IMPORTS_VARIABLE "HEADWATER_ZYGOTE_IMPORTS"
/* A zygote's own descriptors have this number or higher ones; those that processes inherit are lower. */
#define HWSP_PRIVATE_FDS 16
/* No higher than this: every process has a table up to its highest descriptor. */
#define HWSP_BOUNDARY_MAX 1024
/* Descriptors that one message carries: the kernel takes 253. */
#define HWSP_FDS_MAX 240
/* Requests up to this size are in the packet itself, larger ones in a file in memory. */
#define HWSP_INLINE_MAX 65536
/* Processes of one request whose results fit into the context's own memory. */
#define HWSP_RESULTS 512
#define HWSP_REASON_BYTES 480
/* The separator of the reasons of a list. */
#define HWSP_BETWEEN_REASONS "; "
#define HWSP_DOMAINS_WORDS 16
#define HWSP_SIGNALS 64
/* Processors that a set can name. */
#define HWSP_MASK_BYTES sizeof(cpu_set_t)

/* The outcome of one process. The kernel writes `pid` as it makes the process, so that it is known even if the zygote
 * dies in that moment. */
struct hwsp_result {
	int32_t pid;
	int32_t error;
};

enum hwsp_refusal {
	HWSP_STOPPED,    /* none */
	HWSP_UNFAITHFUL, /* its processes could not be faithful, `reason` has why; it has ended */
	HWSP_DOUBTFUL,   /* the same, but it continues: only its reasons were requested */
	HWSP_LEAVES_OUT /* it can be one if it does not import a module: `reason` is "?NAME\nWHY" for one that isn't there,
	                  or "-NAME\nWHY" */
};

/* The first message of a zygote, when it has stopped. It continues after one byte from its owner. */
struct hwsp_hello {
	uint32_t version;
	uint32_t refused; /* enum hwsp_refusal */
	uint32_t counted; /* 1: something has queried on which processors it may run */
	char reason[HWSP_REASON_BYTES];
	char early[HWSP_REASON_BYTES]; /* what of the program has run before it stopped in front of all constructors */
};

enum hwsp_request_flags {
	HWSP_OWN_RESULTS = 1, /* a file in memory for the results is attached, and a socket for the answer */
	HWSP_IN_FILE = 2,     /* the request is in a file in memory */
	HWSP_WITH_CGROUP = 4  /* a control group's directory is attached */
};

/* Begins a request. Descriptors are attached: those that processes inherit in ascending order, then the working
 * directory, and those that `flags` name, in the order of their values. */
struct hwsp_head {
	uint32_t version;
	uint32_t flags;
	uint32_t count; /* of processes */
	uint32_t fds;   /* inherited */
	uint64_t bytes; /* of what follows */
};

struct hwsp_answer {
	uint32_t tried; /* results that are valid */
	uint32_t error; /* why no more were tried */
};

/* The caller's attributes that a process inherits, and that exec would preserve. */
struct hwsp_inherited {
	uint64_t ignored; /* signals, by bit number - 1 */
	uint64_t blocked;
	uint64_t credentials; /* a digest */
	bool may_move;        /* to other namespaces, without a change of credentials */
	mode_t umask;
	int nice;
	pid_t group, session;
	cpu_set_t affinity;
	int policy; /* of memory */
	unsigned long policy_domains[HWSP_DOMAINS_WORDS];
	struct rlimit limits[RLIM_NLIMITS];
	uint32_t fd_count;
	int32_t fds[HWSP_FDS_MAX]; /* ascending */
	/* 1: exec closes it, it is attached for the file actions that name it. */
	uint8_t fd_ends[HWSP_FDS_MAX];
};

/* A request, decoded: `processes` and `options` point into it. */
struct hwsp_request {
	struct hwsp_inherited inherited;
	struct pspawn_options options;
	uint32_t count;
	struct pspawn_process *processes;
	struct hwsp_block *memory;
};

/* reason.c */

/* Adds one to a list of reasons, as far as there is room. */
__attribute__((format(printf, 2, 3))) void hwsp_add_reason(char list[HWSP_REASON_BYTES], const char *format, ...);

/* system.c */

/* Moves a descriptor to a high number, so that it takes none that the program would get and its processes would see.
 * Returns its number: close-on-exec if moved, the old one where there is no room. */
int hwsp_move_high(int fd);
/* Returns 1 if a directory has a name for which `is_it` returns true, which ends the search, 0 if not, and -1 if the
 * directory can't be opened. */
int hwsp_find_entry(const char *path, bool (*is_it)(int directory, const char *name, void *context), void *context);
/* Closes the descriptors from `first` to `last`, on any kernel. */
void hwsp_close_range(int first, int last);
/* Returns the time of a clock that only runs forward. */
long hwsp_now_ms(void);
/* Reads a file's beginning, or a link, as a string. Returns its length, -1 on failure: then it is empty. */
ssize_t hwsp_read_text(const char *path, char *text, size_t bytes);
ssize_t hwsp_read_link(const char *path, char *text, size_t bytes);

/* wire.c */

/* Bytes that grow. After a lack of memory `failed` is set, and everything is ignored. */
struct hwsp_bytes {
	char *data;
	size_t length, capacity;
	bool failed;
};
void hwsp_encode(struct hwsp_bytes *bytes, const struct hwsp_inherited *inherited,
	const struct pspawn_process *processes, uint32_t count, const struct pspawn_options *options);
/* 0, EINVAL for bytes that are no request, or ENOMEM. The bytes must outlive the request. */
int hwsp_decode(const char *data, size_t length, uint32_t count, struct hwsp_request *request);
void hwsp_request_free(struct hwsp_request *request);
/* Allocator of requests: the C library's, except in a process that may not use that yet. */
struct hwsp_memory {
	void *(*take)(size_t bytes); /* zeros, or NULL */
	void (*release)(void *taken);
};
extern struct hwsp_memory hwsp_memory;

/* apply.c: attributes of the new process, applied in it. Async-signal-safe; returns 0 or an errno value. */

/* Applied first, in the process or by its creator. */
struct hwsp_cpu_placement {
	bool bound;
	cpu_set_t mask;
	int domain; /* of memory, -1: as the caller */
};
int hwsp_apply(const struct pspawn_process *process, const struct pspawn_options *options,
	const struct hwsp_cpu_placement *placement);
/* Signals that have handlers get their default action, as exec does. */
void hwsp_default_handlers(void);

/* cpu_placement.c */

/* Sets where the process with this number runs: by its own mask, or else by the options. Returns 0, or EINVAL for a
 * mask without an available processor. */
int hwsp_place_process(const struct pspawn_process *process, const struct pspawn_options *options, unsigned number,
	struct hwsp_cpu_placement *placement);

/* direct.c: processes made by exec. */

/* Spawns them in order. Returns how many were tried; `*error` is why no more were. */
uint32_t hwsp_direct(enum pspawn_mechanism mechanism, const char *path, const struct pspawn_process *processes,
	uint32_t count, const struct pspawn_options *options, struct hwsp_result *results, int *error);

/* Reaps a process that the program has not started. */
void hwsp_reap(pid_t pid);
/* Kills a process if it is a child of the caller. Otherwise another waiter may have reaped it, and its PID may
 * belong to another process. */
void hwsp_kill_child(pid_t pid);

/* inherit.c */

/* 0, or ENOTSUP for more descriptors than a message carries, or another errno value. `boundary`: no descriptor at
 * or above it can be handed on. */
int hwsp_inherit(struct hwsp_inherited *inherited, int boundary);
/* Adds the descriptors that exec closes and that file actions name. 0, or ENOTSUP if there is no room. */
int hwsp_inherit_named(struct hwsp_inherited *inherited, const struct pspawn_process *processes, uint32_t count,
	int boundary);
/* A digest of the attributes that a zygote can't change later: credentials, session, namespaces, control group. */
uint64_t hwsp_key_attributes(const struct hwsp_inherited *inherited);
/* The same but for session and control group, to be compared with another process's: of what the caller would be after
 * exec. */
uint64_t hwsp_key_elsewhere(const struct hwsp_inherited *inherited);
/* A digest of the variables that constructors read. */
uint64_t hwsp_key_variables(char *const *envp, const char *more_variables);
/* Both. */
uint64_t hwsp_key(char *const *envp, const char *more_variables, const struct hwsp_inherited *inherited);

/* program.c */

/* Which file a path meant, and as it was then. */
struct hwsp_identity {
	dev_t device;
	ino_t number;
	off_t bytes;
	struct timespec modified, changed;
};
/* False if there is none. */
bool hwsp_identify(const char *path, struct hwsp_identity *identity);
bool hwsp_is_same(const struct hwsp_identity *a, const struct hwsp_identity *b);

/* A program as it would be executed. */
struct hwsp_program {
	char *path;                      /* of the file that is run: a script's interpreter; to free() */
	char *script;                    /* or NULL; to free() */
	char *argument;                  /* the script's argument for its interpreter, or NULL; to free() */
	char refusal[HWSP_REASON_BYTES]; /* why no zygote can be made of it: all reasons, or none */
	struct hwsp_identity file;       /* which was examined: the script's, if it is one */
};
/* Returns 0 or the error of execve(). `name` is searched for in PATH if it has no slash. */
int hwsp_program(const char *name, struct hwsp_program *program);
/* elf.c: adds the reasons why an ELF file can't become a zygote. Returns 0 or the error of execve(). */
int hwsp_elf(int fd, char reasons[HWSP_REASON_BYTES]);
/* The path for execve(). */
char *hwsp_program_name(const struct hwsp_program *program);
void hwsp_program_free(struct hwsp_program *program);

/* python.c: the arguments of a Python interpreter. */

enum hwsp_python_kind {
	HWSP_PYTHON_COMMAND,
	HWSP_PYTHON_MODULE,
	HWSP_PYTHON_FILE,
	HWSP_PYTHON_ARCHIVE, /* a file that turns out to be a directory or an archive, with a module __main__ */
	HWSP_PYTHON_INPUT
};
/* The program of an interpreter. */
struct hwsp_python {
	enum hwsp_python_kind kind;
	const char *what;  /* code, a module, or a file; of an input, "-" or NULL */
	char *const *rest; /* the arguments that follow */
};
/* Options that are read: the next argument, and the rest of this one. */
struct hwsp_python_options {
	char *const *word;
	const char *at;
};
/* False for arguments that only the interpreter itself should read. */
bool hwsp_python_read(char *const *argv, struct hwsp_python *read);
/* True if a zygote with the former arguments can become an interpreter with the latter, which begins in the directory
 * `cwd`. Without one, a name that depends on the directory is refused. */
bool hwsp_python_alike(char *const *zygote, char *const *argv, char *const *envp, const char *cwd);
/* The dependencies of a Python zygote besides those of every zygote. */
#define HWSP_PYTHON_VARIABLES "PATH,HOME,TZ"

/* watch.c */

/* The files that a zygote has loaded. */
struct hwsp_watch {
	int inotify;      /* -1: none */
	bool is_notified; /* of every change on this machine */
	size_t count;
	struct hwsp_seen *seen;
	long checked_ms;
};
struct hwsp_start;
/* Examines a zygote that has stopped. False, with the reasons added, if its processes could not be faithful. */
bool hwsp_watch_begin(struct hwsp_watch *watch, pid_t pid, const struct hwsp_start *start, int boundary,
	char reason[HWSP_REASON_BYTES]);
/* False once one of the files is another. */
bool hwsp_watch_unchanged(struct hwsp_watch *watch);
void hwsp_watch_end(struct hwsp_watch *watch);

/* zygote_client.c: a zygote as its owner sees it. */

struct hwsp_zygote {
	pid_t pid; /* 0: none */
	int socket;
	ino_t identity; /* of the socket: the program may close the descriptor and reuse its number */
	pid_t owner;    /* a fork of the owner has no zygote */
	uint64_t began; /* when it was started: another process of its PID began later */
	unsigned stopped_ms_max, answer_ms_max; /* see hwsp_pending_request */
	int boundary;
	uint64_t key;
	unsigned
		cores; /* number of processors that it may run on, if something has queried that before main(); 0: nothing has */
	char **arguments;              /* that it was started with; to free() */
	char early[HWSP_REASON_BYTES]; /* the program's code that it has run, as text */
	struct hwsp_result *results;
	struct hwsp_watch watch;
};
#define HWSP_NO_ZYGOTE ((struct hwsp_zygote){.socket = -1, .watch = {.inotify = -1}})
struct hwsp_start {
	const struct hwsp_program *program;
	const struct pspawn_context_options *options;
	char *const *envp;
	const struct hwsp_inherited *inherited;
	uint64_t key;
	const cpu_set_t *cores; /* on which it starts; NULL: the caller's */
};
/* Returns the lowest descriptor of a zygote's own if it is to serve a process with these limits. */
int hwsp_boundary(const struct hwsp_inherited *inherited);
/* Starts a zygote and waits until it has stopped. Returns 0, or an errno value with the reasons as text. */
int hwsp_zygote_start(struct hwsp_zygote *zygote, const struct hwsp_start *start, char reason[HWSP_REASON_BYTES]);
void hwsp_zygote_end(struct hwsp_zygote *zygote);
/* True if it can serve requests. */
bool hwsp_zygote_lives(const struct hwsp_zygote *zygote);
/* A request that was sent. */
struct hwsp_pending_request {
	pid_t zygote;
	uint64_t began;
	unsigned stopped_ms_max; /* how long the zygote may be stopped; 0: the default */
	unsigned answer_ms_max;  /* how long it may take; 0: as long as it isn't stopped */
	int socket;              /* of the answer; the zygote's own, or one to close */
	ino_t identity;
	bool own;
	uint32_t count;
	struct hwsp_result *results;
	size_t mapped; /* bytes, 0: the zygote's own memory */
	char *body;    /* as it was sent, for what the zygote leaves undone */
	size_t body_bytes;
};
/* The origin of what a process inherits, if it is not the caller itself. */
struct hwsp_origin {
	const int *fds; /* for each inherited number, the caller's descriptor */
	int cwd;        /* a descriptor */
};
/* Sends it. With `apart` the answer arrives on its own socket; `origin` may be NULL. Returns 0 or an errno value. */
int hwsp_zygote_send_request(struct hwsp_zygote *zygote, const struct hwsp_inherited *inherited,
	const struct hwsp_origin *origin, const struct pspawn_process *processes, uint32_t count,
	const struct pspawn_options *options, bool apart, struct hwsp_pending_request *pending);
/* Waits for the reply. Returns how many results are valid; `*error` is why there are no more. */
uint32_t hwsp_zygote_receive_reply(struct hwsp_pending_request *pending, int *error);
void hwsp_pending_request_free(struct hwsp_pending_request *pending);

/* zygote_timeout.c: zygotes that make no progress. */

/* When a process began, or 0. */
uint64_t hwsp_began(pid_t pid);
/* Waits until the socket is ready. False if the zygote was killed because of a timeout: then it has ended. */
bool hwsp_zygote_await(const struct hwsp_pending_request *pending, short events);
/* Waits for the end of a process that was killed, and takes its status. Returns false while a debugger prevents the
 * end. */
bool hwsp_reap_killed(pid_t pid);

/* batch.c: the context ends with the batch. */
void hwsp_batch_own(pspawn_batch_t *batch, const pspawn_context_t *context);
/* context.c: a copy of the context's zygote, for a process that the caller has forked. False if there is none, or
 * not any more. */
bool hwsp_context_zygote(const pspawn_context_t *ctx, struct hwsp_zygote *zygote);

/* wait.c: idle zygotes are children of the caller that it has not started. A program that waits for its children by
 * their PIDs alone needs none of this. */
#ifdef HWSP_WITHOUT_WAIT
static inline bool hwsp_children_hide(pid_t pid)
{
	return pid > 0;
}
static inline void hwsp_children_show(pid_t pid)
{
	(void)pid;
}
#else
/* False if there are too many. */
bool hwsp_children_hide(pid_t pid);
void hwsp_children_show(pid_t pid);
#endif

/* message.c: packets with descriptors. All functions return 0 or an errno value. */

/* Sends a packet with one descriptor, or none if that is -1. */
int hwsp_send(int socket, const void *data, size_t bytes, int fd);
/* Sends a packet of two parts by these flags of sendmsg(). */
int hwsp_send_parts(int flags, int socket, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
	const int *fds, uint32_t fd_count);
/* `*received` are bytes, 0 at the end; at most `*fd_count` descriptors, and how many were received. */
int hwsp_receive(int socket, void *data, size_t bytes, size_t *received, int *fds, uint32_t *fd_count);

#endif
