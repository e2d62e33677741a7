/* Threads from before MPI's initialisation. */
#ifndef HWIO_THREADS_H
#define HWIO_THREADS_H

#include <stdbool.h>

/* Called when the initialisation begins: notes the threads beside the main one. */
void hwio_threads_note(void);
/* True as soon as that has begun: a thread that is created without it having begun is noted if it lasts. */
bool hwio_threads_are_noted(void);
/* Called when it has ended: the process has threads if one of the noted ones is still there. */
void hwio_threads_check(void);

#endif
