/* A signal handler may make system calls only: the program may be within malloc or MPI. A build with
 * HWIO_CHECK_HANDLERS ends the program where a handler, or the thread that releases leases, does anything else. */
#ifndef HWIO_HANDLER_H
#define HWIO_HANDLER_H

#ifdef HWIO_CHECK_HANDLERS

/* Finds the checks of allocation, which are preloaded. */
void hwio_handlers_start(void);
/* Returns the argument for hwio_handler_ends. */
int hwio_handler_begins(void);
/* Called before a handler of this library calls the program's own. */
int hwio_handler_is_the_programs(void);
void hwio_handler_ends(int before);

#else

static inline void hwio_handlers_start(void)
{
}

static inline int hwio_handler_begins(void)
{
	return 0;
}

static inline int hwio_handler_is_the_programs(void)
{
	return 0;
}

static inline void hwio_handler_ends(int before)
{
	(void)before;
}

#endif

#endif
