/* How deep a thread is in calls of MPI and of the library, and whether anything is under way that calls must be examined
 * for. */
#ifndef HWIO_DEPTH_H
#define HWIO_DEPTH_H

/* True while anything is deferred, pending or outstanding: otherwise wrappers only call the original. */
extern volatile int hwio_is_busy;
/* Above 0 inside an MPI call or the engine: calls from there are not intercepted. */
extern __thread int hwio_depth __attribute__((tls_model("initial-exec")));
/* True if protected pages are open for a call of this thread: they are protected again when it returns. */
extern __thread int hwio_is_exposed __attribute__((tls_model("initial-exec")));
void hwio_reprotect(void);

/* Begin and end a call into MPI or the library, within which no call is intercepted. */
static inline void hwio_step_in(void)
{
	hwio_depth++;
}

static inline void hwio_step_out(void)
{
	if (--hwio_depth == 0 && __builtin_expect(hwio_is_exposed, 0))
		hwio_reprotect();
}

#endif
