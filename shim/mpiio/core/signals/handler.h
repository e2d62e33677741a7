/*
 * What a signal's handler may do is system calls alone: the program may be within malloc or MPI. A build with
 * HW_CHECK_HANDLERS ends the program where a handler, or the thread that gives leases up, does anything else.
 */
#ifndef HW_HANDLER_H
#define HW_HANDLER_H

#ifdef HW_CHECK_HANDLERS

/* Looks for the checks of allocation, which are preloaded. */
void hw_handlers_start(void);
/* Gives what hw_handler_ends is called with. */
int hw_handler_begins(void);
/* The program's own handler is about to be called, by one of this library. */
int hw_handler_is_the_programs(void);
void hw_handler_ends(int before);

#else

static inline void hw_handlers_start(void)
{
}

static inline int hw_handler_begins(void)
{
	return 0;
}

static inline int hw_handler_is_the_programs(void)
{
	return 0;
}

static inline void hw_handler_ends(int before)
{
	(void)before;
}

#endif

#endif
