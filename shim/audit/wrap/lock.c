/* Locks.
 *
 * No other process would see a lock on the store's copy. So the first call about a lock replaces the copy behind
 * the descriptor by the original. From then on the program reads and locks the original. */
#include "wrap.h"

#include <sys/file.h>
#include <unistd.h>

#include "sys.h"

/* Returns true if no process has a lock on the file. */
static __attribute__((noinline)) bool is_unlocked(long fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return hwa_sys(__NR_fcntl, fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

__attribute__((noinline)) void hwa_exchange_copy(int fd, const struct hw_record *record)
{
	long flags = hwa_sys(__NR_fcntl, fd, F_GETFL), own = hwa_sys(__NR_fcntl, fd, F_GETFD);
	long position = hwa_sys(__NR_lseek, fd, 0, SEEK_CUR);
	if (flags < 0 || own < 0 || position < 0)
		return;
	hwa_announce_change(AT_FDCWD, record->path, 0);
	flags &= O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT | O_NOATIME;
	int original = hwa_open_original(record, (int)flags | O_CLOEXEC);
	if (original < 0)
		return;
	if (hwa_sys(__NR_lseek, original, position, SEEK_SET) == position)
		hwa_sys(__NR_dup3, original, fd, own & FD_CLOEXEC ? O_CLOEXEC : 0);
	/* Closing the descriptor releases this process's own locks on the file, which may come from another descriptor:
	 * then it stays open. */
	if (is_unlocked(original))
		hwa_sys(__NR_close, original);
}

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
