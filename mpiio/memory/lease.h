/* Leases on files with deferred reads. The kernel notifies before a process on this node changes one, and waits
 * until the lease is released. A thread of the library is notified, and reads what the file still has, by system
 * calls alone. Meanwhile the program's threads continue, and their memory is filled. */
#ifndef HWIO_LEASE_H
#define HWIO_LEASE_H

#include <stdbool.h>

/* Acquires a lease. False, with errno set: there is none; EAGAIN if a process may be changing the file. */
bool hwio_lease_acquire(int descriptor);
void hwio_lease_release(int descriptor);
/* Returns true if the kernel waits for the lease's release. */
bool hwio_lease_is_broken(int descriptor);
/* Sets what reads, by system calls alone, what other ranks may still request of a file whose lease is released. */
struct hwio_file;
void hwio_lease_set_preserve(void (*function)(const struct hwio_file *file));
/* Returns true in the thread that serves leases. */
bool hwio_lease_is_thread(void);
/* Stops the thread, before the program's main thread ends without the process; the next lease starts it again. */
void hwio_lease_stop(void);

#endif
