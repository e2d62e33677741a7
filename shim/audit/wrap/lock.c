/* Locks.
 *
 * No other process would see a lock on the store's copy. So the first call about a lock replaces the copy behind
 * the descriptor by the original. From then on the program reads and locks the original. */
#include "wrap.h"

#include <sys/file.h>
#include <unistd.h>

static void note_lock(int fd)
{
	const struct hw_record *record = hwa_store_descriptor(fd);
	if (record)
		hwa_exchange_copy(fd, record);
}

static void note_command(int fd, int command)
{
	switch (command) {
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		note_lock(fd);
	}
}

NOTED(int, fcntl, (int fd, int command, long argument), (fd, command, argument), note_command(fd, command))
NOTED(int, fcntl64, (int fd, int command, long argument), (fd, command, argument), note_command(fd, command))
NOTED(int, flock, (int fd, int operation), (fd, operation), note_lock(fd))
NOTED(int, lockf, (int fd, int command, off_t bytes), (fd, command, bytes), note_lock(fd))
NOTED(int, lockf64, (int fd, int command, off_t bytes), (fd, command, bytes), note_lock(fd))
