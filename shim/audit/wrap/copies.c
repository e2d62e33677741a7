/* The store's copies that a process has open.
 *
 * A copy follows its original a moment later than that changes. A process that locks, watches or changes a file
 * needs the original itself: it takes the copy's place behind the descriptor. */
#include "wrap.h"

#include <linux/kcmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys.h"

/* Number of descriptors that are examined for one that shares an offset, and when a process writes: a reader of few
 * files has low ones. */
#define SHARING_MAX 256
#define WRITER_MAX 64
/* How much longer than its file a mapping is that waits for more: its last page may be one of 64 KiB. */
#define GROWTH_MIN (64 << 10)
/* Number of descriptors that share one offset. */
#define SHARED_MAX 16

/* Returns true if no process has a lock on the file. */
static __attribute__((noinline)) bool is_unlocked(long fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return hwa_sys(__NR_fcntl, fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* Finds the descriptors behind `fd` that share its offset. Returns their number. */
static __attribute__((noinline)) int sharing(int fd, int *others)
{
	long own = hwa_sys(__NR_getpid);
	int count = 0;
	for (int other = fd + 1; other < SHARING_MAX && count < SHARED_MAX; other++) {
		if (hwa_sys(__NR_kcmp, own, own, KCMP_FILE, fd, other) == 0)
			others[count++] = other;
	}
	return count;
}

static void take_place(int from, int fd)
{
	long own = hwa_sys(__NR_fcntl, fd, F_GETFD);
	if (own >= 0)
		hwa_sys(__NR_dup3, from, fd, own & FD_CLOEXEC ? O_CLOEXEC : 0);
}

__attribute__((noinline)) void hwa_exchange_copy(int fd, const struct hw_record *record)
{
	long flags = hwa_sys(__NR_fcntl, fd, F_GETFL), position = hwa_sys(__NR_lseek, fd, 0, SEEK_CUR);
	if (flags < 0 || position < 0)
		return;
	hwa_announce_change(AT_FDCWD, record->path, 0);
	flags &= O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT | O_NOATIME;
	int original = hwa_open_original(record, (int)flags | O_CLOEXEC);
	if (original < 0)
		return;
	if (hwa_sys(__NR_lseek, original, position, SEEK_SET) == position) {
		int others[SHARED_MAX], count = sharing(fd, others);
		take_place(original, fd);
		for (int i = 0; i < count; i++)
			take_place(original, others[i]);
	}
	/* Closing the descriptor releases this process's own locks on the file, which may come from another descriptor:
	 * then it stays open. */
	if (is_unlocked(original))
		hwa_sys(__NR_close, original);
}

__attribute__((noinline)) void hwa_exchange_copies(int dirfd, const char *path, int below)
{
	struct stat file = {0};
	for (int fd = 0; fd < below; fd++) {
		const struct hw_record *record = hwa_store_descriptor(fd);
		if (!record)
			continue;
		if (!file.st_ino && hwa_sys(__NR_newfstatat, dirfd, path, &file, 0) < 0)
			return;
		if (S_ISREG(file.st_mode) && record->attr.ino == file.st_ino)
			hwa_exchange_copy(fd, record);
	}
}

/* A process that shares a mapping which is longer than its file expects the file to grow: a database's reader. */
static void note_mapping(size_t bytes, int flags, int fd, off64_t offset)
{
	struct stat file;
	if (fd < 0 || !(flags & MAP_SHARED) || !hwa_attached() || hwa_sys(__NR_fstat, fd, &file) < 0 ||
		offset + (off64_t)bytes < file.st_size + GROWTH_MIN)
		return;
	const struct hw_record *record = hwa_store_file(fd, &file);
	if (record)
		hwa_exchange_copy(fd, record);
}

NOTED(void *, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
	(at, bytes, protection, flags, fd, offset), note_mapping(bytes, flags, fd, offset))
NOTED(void *, mmap64, (void *at, size_t bytes, int protection, int flags, int fd, off64_t offset),
	(at, bytes, protection, flags, fd, offset), note_mapping(bytes, flags, fd, offset))

void hwa_announce_content(int dirfd, const char *path)
{
	hwa_announce_change(dirfd, path, HWA_CHANGES_TARGET);
	if (hwa_attached() && hwa_is_address(path))
		hwa_exchange_copies(dirfd, path, WRITER_MAX);
}
