/* The program's error handlers. MPI calls them, but they are the program's own code, and may leave MPI for good, by
 * longjmp or by an exception. While one runs, its thread counts as outside MPI, and stays so if the handler doesn't
 * return. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/engine.h"
#include "real.h"

/* Number of handlers with a trampoline; MPI calls further ones directly. */
#define HANDLERS_MAX 32

/* The parameters that all kinds of handler share: a pointer to the handle, one to the error, and what the MPI adds. */
typedef void handler(void *handle, int *error, ...);

static handler *program_handlers[HANDLERS_MAX];
static atomic_size_t count;

static void run_handler(handler *function, void *handle, int *error, void *more, void *most)
{
	int depth = hwio_depth;
	hwio_depth = 0;
	if (hwio_is_exposed)
		hwio_reprotect();
	function(handle, error, more, most);
	hwio_depth = depth;
}

#define TRAMPOLINE(number) \
	static void trampoline_##number(void *handle, int *error, ...) \
	{ \
		va_list rest; \
		va_start(rest, error); \
		void *more = va_arg(rest, void *), *most = va_arg(rest, void *); \
		va_end(rest); \
		run_handler(program_handlers[number], handle, error, more, most); \
	}
/* Numbers in base eight. */
#define EIGHT(X, tens) X(tens##0) X(tens##1) X(tens##2) X(tens##3) X(tens##4) X(tens##5) X(tens##6) X(tens##7)
#define ALL(X) EIGHT(X, 0) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03)
#define NAME(number) trampoline_##number,

ALL(TRAMPOLINE)
static handler *const trampolines[] = {ALL(NAME)};
_Static_assert(sizeof(trampolines) / sizeof(*trampolines) == HANDLERS_MAX, "one for each");

/* Returns the function that MPI is to call in place of `function`. */
static handler *trampoline_for(handler *function)
{
	size_t at = function ? atomic_fetch_add(&count, 1) : HANDLERS_MAX;
	if (at >= HANDLERS_MAX)
		return function;
	program_handlers[at] = function;
	return trampolines[at];
}

#define CREATES(kind) \
	int hwio_MPI_##kind##_create_errhandler(MPI_##kind##_errhandler_function *function, MPI_Errhandler *made) \
	{ \
		return HWIO_INSIDE(hwio_real.MPI_##kind##_create_errhandler((MPI_##kind##_errhandler_function *)(void \
											    *)trampoline_for((handler \
											    *)(void *)function), \
			made)); \
	}

CREATES(Comm)
CREATES(File)
CREATES(Win)
