/* Writes of data that other ranks still have are delegated to them; before all other writes the memory is filled. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"
#include "intercept/job/report.h"

bool hwio_write_instead(int descriptor, const void *memory, size_t bytes, off_t offset, ssize_t *result)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return false;
	bool is_own = offset == HWIO_OWN_POSITION, is_done = false;
	int saved = errno;
	hwio_offer_move();
	if (hwio_incoming_any()) {
		if (is_own)
			offset = lseek(descriptor, 0, SEEK_CUR);
		if (offset >= 0 && bytes > 0) {
			bool has_overlapped = hwio_before_delegating(descriptor, offset, offset + (off_t)bytes);
			is_done = hwio_incoming_write(descriptor, memory, bytes, offset, has_overlapped);
		}
		if (is_done && is_own)
			lseek(descriptor, offset + (off_t)bytes, SEEK_SET);
	}
	if (is_done) {
		hwio_after_change(descriptor);
		*result = (ssize_t)bytes;
	} else {
		hwio_left_written(memory, bytes);
		hwio_use_in(memory, bytes);
	}
	errno = saved;
	return is_done;
}

/* Completes deferred reads of the range that a write is about to change. */
static void before_write(int descriptor, off_t offset, size_t bytes)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	if (offset == HWIO_OWN_POSITION)
		offset = lseek(descriptor, 0, SEEK_CUR);
	int flags = fcntl(descriptor, F_GETFL);
	if (offset < 0 || (flags >= 0 && (flags & O_APPEND)))
		hwio_before_change(descriptor, 0, INT64_MAX);
	else
		hwio_before_change(descriptor, offset, offset + (off_t)bytes);
	errno = saved;
}

/* Returns whether a write is the original's alone. Apart from the rest, so that it is a jump to the C library. */
static inline bool is_short(size_t bytes)
{
	return bytes < HWIO_LEFT_BYTES_MIN && !hwio_is_busy && hwio_mode != HWIO_OBSERVE;
}

static ssize_t write_or_delegate(int descriptor, const void *memory, size_t bytes, off_t offset)
{
	ssize_t result;
	bool is_own = offset == HWIO_OWN_POSITION;
	if (!hwio_is_busy && hwio_mode != HWIO_OBSERVE) {
		if (bytes >= HWIO_LEFT_BYTES_MIN)
			hwio_left_written(memory, bytes);
		return is_own ? hwio_libc.write(descriptor, memory, bytes)
			      : hwio_libc.pwrite(descriptor, memory, bytes, offset);
	}
	hwio_observe_write(memory, bytes);
	if (hwio_write_instead(descriptor, memory, bytes, offset, &result))
		return result;
	before_write(descriptor, offset, bytes);
	result = is_own ? hwio_libc.write(descriptor, memory, bytes)
			: hwio_libc.pwrite(descriptor, memory, bytes, offset);
	hwio_after_change(descriptor);
	return result;
}

ssize_t hwio_write(int descriptor, const void *memory, size_t bytes)
{
	return is_short(bytes) ? hwio_libc.write(descriptor, memory, bytes)
			       : write_or_delegate(descriptor, memory, bytes, HWIO_OWN_POSITION);
}

ssize_t hwio_pwrite(int descriptor, const void *memory, size_t bytes, off_t offset)
{
	/* The kernel refuses a negative offset. */
	return offset < 0 || is_short(bytes) ? hwio_libc.pwrite(descriptor, memory, bytes, offset)
					     : write_or_delegate(descriptor, memory, bytes, offset);
}

/* Returns true if the pieces are written one after another: streams write their buffer and a long piece in one call. */
static bool is_written_in_pieces(int descriptor, int count)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0 || !hwio_incoming_any() || count < 1 || count > IOV_MAX)
		return false;
	int flags = fcntl(descriptor, F_GETFL);
	return flags >= 0 && !(flags & O_APPEND) && hwio_status_untimed(descriptor, NULL, &status) &&
		S_ISREG(status.st_mode);
}

static ssize_t write_pieces(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	ssize_t all = 0;
	for (int i = 0; i < count; i++) {
		off_t at = offset == HWIO_OWN_POSITION ? offset : offset + all;
		ssize_t written = write_or_delegate(descriptor, pieces[i].iov_base, pieces[i].iov_len, at);
		if (written < 0)
			return all > 0 ? all : -1;
		all += written;
		if ((size_t)written < pieces[i].iov_len)
			break;
	}
	return all;
}

void hwio_before_write_vector(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	size_t bytes = 0;
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	for (int i = 0; i < count; i++) {
		hwio_use_in(pieces[i].iov_base, pieces[i].iov_len);
		bytes += pieces[i].iov_len;
	}
	before_write(descriptor, offset, bytes);
}

static ssize_t write_vector(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	for (int i = 0; hwio_mode == HWIO_OBSERVE && i < count; i++)
		hwio_observe_write(pieces[i].iov_base, pieces[i].iov_len);
	if (is_written_in_pieces(descriptor, count))
		return write_pieces(descriptor, pieces, count, offset);
	hwio_before_write_vector(descriptor, pieces, count, offset);
	ssize_t result = offset == HWIO_OWN_POSITION ? hwio_libc.writev(descriptor, pieces, count)
						     : hwio_libc.pwritev(descriptor, pieces, count, offset);
	hwio_after_change(descriptor);
	return result;
}

ssize_t hwio_writev(int descriptor, const struct iovec *pieces, int count)
{
	return write_vector(descriptor, pieces, count, HWIO_OWN_POSITION);
}

ssize_t hwio_pwritev(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	return offset < 0 ? hwio_libc.pwritev(descriptor, pieces, count, offset)
			  : write_vector(descriptor, pieces, count, offset);
}
