/*
 * Leases on files of which something is put off: the kernel tells before anybody on this node changes one, and waits until
 * it is given up. A thread of the library is told, and reads what is still to be had from the file, by system calls alone;
 * the program's threads may be anywhere meanwhile, and see their memory filled.
 */
#ifndef HWIO_LEASE_H
#define HWIO_LEASE_H

#include <stdbool.h>

/* False: there is none, with errno set; EAGAIN if somebody may be changing the file. */
bool hwio_lease_take(int descriptor);
void hwio_lease_give_up(int descriptor);
/* Whether the kernel waits for it to be given up. */
bool hwio_lease_is_broken(int descriptor);
/* Whether this thread is the one that is told. */
bool hwio_lease_is_server(void);
/* Ends the thread, as before the program's main thread ends without the process; the next lease begins it anew. */
void hwio_lease_stop(void);

#endif
