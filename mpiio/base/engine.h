/* The engine of libheadwater-mpiio, which all parts share. One thread at a time is inside, with signals blocked
 * (hwio_enter, hwio_leave); the page fault handler enters the same way. No code allocates while it holds the lock
 * on behalf of a fault, because the program may be inside malloc. */
#ifndef HWIO_ENGINE_H
#define HWIO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/depth.h"

/* The largest page of Linux where this library runs. With a larger one, nothing is deferred. */
#define HWIO_PAGE_BYTES_MAX 65536UL
/* The most bytes that one read or write of Linux transfers. */
#define HWIO_CALL_BYTES_MAX 0x7ffff000UL
#define HWIO_PATH_BYTES_MAX 1024

/* Addresses, the last one excluded. */
struct hwio_range {
	uintptr_t low, high;
};

enum hwio_mode { HWIO_OFF, HWIO_OBSERVE, HWIO_VERIFY, HWIO_AUTO };

/* The kernel's page size, a power of two. Known before any other function of the library is called. */
extern size_t hwio_page_bytes;
/* This process's mode; HWIO_OFF until all ranks have agreed in MPI_Init. */
extern enum hwio_mode hwio_mode;
/* Smaller operations go to the original without a system call. */
extern size_t hwio_bytes_min;
/* The least of all ranks' limits of a file's size (RLIMIT_FSIZE) when the job began. */
extern int64_t hwio_file_bytes_max;
/* All that the path of short messages reads, in one cache line: MPI evicts most others meanwhile. It has MPI's own
 * functions and the two basic types that were last sent or received, each with the highest element count that is
 * short. */
struct hwio_quick {
	/* Whether calls of the C library are attributed to their callers: something is deferred, or another thread
	 * may defer something meanwhile. Otherwise MPI's calls may be taken for the program's own. */
	volatile int is_watchful;
	uint32_t counts_max[2];
	uintptr_t types[2];
	void *send, *receive, *isend, *irecv;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct hwio_quick) == 64, "it is one line");
extern struct hwio_quick hwio_quick;

/* Evaluates a call of MPI's own function; calls that MPI makes meanwhile are not intercepted. */
#define HWIO_INSIDE(call) \
	({ \
		hwio_step_in(); \
		__typeof__(call) inside_result = (call); \
		hwio_step_out(); \
		inside_result; \
	})

static inline bool hwio_examines(size_t bytes)
{
	return bytes >= hwio_bytes_min && hwio_mode != HWIO_OFF && hwio_depth == 0;
}

/* As fstat and, with a path, fstatat, but without the file's times. Before it tells these, a client of NFS sends all that
 * it has cached of the file to the server. */
bool hwio_status_untimed(int descriptor, const char *path, struct stat *status);

static inline uintptr_t hwio_page_up(uintptr_t address)
{
	return (address + hwio_page_bytes - 1) & -hwio_page_bytes;
}

static inline uintptr_t hwio_page_down(uintptr_t address)
{
	return address & -hwio_page_bytes;
}

static inline uintptr_t hwio_least(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

static inline uintptr_t hwio_most(uintptr_t a, uintptr_t b)
{
	return a > b ? a : b;
}

/* Acquires and releases the engine's lock. Calls may nest. */
void hwio_enter(void);
void hwio_leave(void);
/* Whether this thread is inside. */
bool hwio_is_inside(void);
/* After the first call, made in the process that calls MPI: recognises a process that is made as a copy of it by a
 * system call past the C library. Such a copy has its memory, but not its messages: it neither sends nor receives
 * any. */
void hwio_copies_start(void);
bool hwio_is_copy(void);
/* Ends such a copy, which needs what only a message has, with a word about it. */
void hwio_refuse_copy(void);
/* The parts of the library that may have something under way. */
enum hwio_part {
	HWIO_PART_RECORDS,
	HWIO_PART_INCOMING,
	HWIO_PART_WRITES,
	HWIO_PART_HINTS,
	HWIO_PART_OFFERS,
	HWIO_PART_PROBED,
	HWIO_PART_LATE
};
/* Recomputes hwio_is_busy after a change in one part; `is_any` is called with the lock held. */
void hwio_note_busy(enum hwio_part part, bool (*is_any)(void));
/* Sets what is called after each such change, by the thread that made it. Copies that are being sent don't count: they
 * concern no memory of the program. */
void hwio_busy_watch(void (*watch)(bool is_busy));
/* Records that the program has several threads. */
void hwio_threads_begin(void);
bool hwio_is_threaded(void);
/* Protected pages are open for a call of this thread. `protect` is called where its outermost call ends. */
void hwio_expose(void (*protect)(void));

/* Writes one line to standard error, "headwater: …". Doesn't allocate. */
__attribute__((format(printf, 1, 2))) void hwio_log(const char *format, ...);
double hwio_seconds(void);

/* FNV-1a. */
#define HWIO_HASH_START 0xcbf29ce484222325
uint64_t hwio_hash(uint64_t hash, const void *data, size_t bytes);

#endif
