/* The engine of libheadwater-mpiio, which all parts share. One thread at a time is inside, with signals blocked
 * (hwio_enter, hwio_leave); the page fault handler enters the same way. No code allocates while it holds the lock
 * on behalf of a fault, because the program may be inside malloc. */
#ifndef HWIO_ENGINE_H
#define HWIO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "buffer_effects.h"

#define HWIO_PAGE_BYTES 4096UL
/* What one read or write of Linux moves at most. */
#define HWIO_CALL_BYTES_MAX 0x7ffff000UL
#define HWIO_PATH_BYTES_MAX 1024

enum hwio_mode { HWIO_OFF, HWIO_OBSERVE, HWIO_VERIFY, HWIO_AUTO };

/* How this process takes part; HWIO_OFF until MPI_Init has agreed with all ranks. */
extern enum hwio_mode hwio_mode;
/* Smaller operations are left alone without a system call. */
extern size_t hwio_bytes_min;
/*
 * All that a short message is decided by, in one line of the processor's cache: what MPI does meanwhile leaves few
 * others there. The functions are MPI's own; the types those that were last sent or received, basic ones, each with
 * the highest number of elements that is short.
 */
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

/* What a call of MPI's own function gives, which sees none of what it calls. */
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

static inline uintptr_t hwio_page_up(uintptr_t address)
{
	return (address + HWIO_PAGE_BYTES - 1) & ~(HWIO_PAGE_BYTES - 1);
}

static inline uintptr_t hwio_page_down(uintptr_t address)
{
	return address & ~(HWIO_PAGE_BYTES - 1);
}

/* Nests. */
void hwio_enter(void);
void hwio_leave(void);
/* Whether this thread is inside. */
bool hwio_is_inside(void);
/* Computes hwio_is_busy anew. */
void hwio_count_busy(void);

/* One line on standard error, "headwater: …"; no allocation. */
__attribute__((format(printf, 1, 2))) void hwio_say(const char *format, ...);
double hwio_seconds(void);

#endif
