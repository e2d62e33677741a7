/* Leases on files with deferred reads. The kernel notifies before a process on this node changes one, and waits
 * until the lease is released. A thread of the library is notified, and reads what the file still has, by system
 * calls alone. Meanwhile the program's threads continue, and their memory is filled. */
#ifndef HWIO_LEASE_H
#define HWIO_LEASE_H

#include <stdbool.h>

/* False: there is no lease, with errno set; EAGAIN if a process may be changing the file. */
bool hwio_lease_acquire(int descriptor);
void hwio_lease_release(int descriptor);
/* Whether the kernel waits for it to be given up. */
bool hwio_lease_is_broken(int descriptor);
/* Whether this thread is the one that is told. */
bool hwio_lease_is_thread(void);
/* Ends the thread, as before the program's main thread ends without the process; the next lease begins it anew. */
void hwio_lease_stop(void);

#endif
