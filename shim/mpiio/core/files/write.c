/* Writes of data that other ranks still have are delegated to them; before all other writes the memory is filled. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../effects.h"
#include "../generated-calls.h"
#include "../patterns/incoming.h"
#include "../report.h"

bool hwio_write_instead(int descriptor, const void *memory, size_t bytes, off_t offset, ssize_t *result)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return false;
	bool is_own = offset == HWIO_OWN_POSITION, is_done = false;
	int saved = errno;
	if (hwio_incoming_any()) {
		if (is_own)
			offset = lseek(descriptor, 0, SEEK_CUR);
		if (offset >= 0 && bytes > 0) {
			hwio_before_change(descriptor, offset, offset + (off_t)bytes);
			is_done = hwio_incoming_write(descriptor, memory, bytes, offset);
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

ssize_t hwio_write(int descriptor, const void *memory, size_t bytes)
{
	ssize_t result;
	if (!hwio_is_busy && hwio_mode != HWIO_OBSERVE) {
		hwio_left_written(memory, bytes);
		return hwio_libc.write(descriptor, memory, bytes);
	}
	hwio_observe_write(memory, bytes);
	if (hwio_write_instead(descriptor, memory, bytes, HWIO_OWN_POSITION, &result))
		return result;
	before_write(descriptor, HWIO_OWN_POSITION, bytes);
	result = hwio_libc.write(descriptor, memory, bytes);
	hwio_after_change(descriptor);
	return result;
}

ssize_t hwio_pwrite(int descriptor, const void *memory, size_t bytes, off_t offset)
{
	ssize_t result;
	if (!hwio_is_busy && hwio_mode != HWIO_OBSERVE) {
		hwio_left_written(memory, bytes);
		return hwio_libc.pwrite(descriptor, memory, bytes, offset);
	}
	hwio_observe_write(memory, bytes);
	if (offset >= 0 && hwio_write_instead(descriptor, memory, bytes, offset, &result))
		return result;
	before_write(descriptor, offset, bytes);
	result = hwio_libc.pwrite(descriptor, memory, bytes, offset);
	hwio_after_change(descriptor);
	return result;
}

/* Streams write their buffer and a long piece in one call: the pieces are written one after another. */
static bool write_vector_instead(int descriptor, const struct iovec *pieces, int count, off_t offset, ssize_t *result)
{
	struct stat status;
	bool is_own = offset == HWIO_OWN_POSITION;
	int flags = fcntl(descriptor, F_GETFL);
	if (!hwio_incoming_any() || count < 1 || count > IOV_MAX || flags < 0 || (flags & O_APPEND) ||
		fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	*result = 0;
	for (int i = 0; i < count; i++) {
		off_t at = is_own ? offset : offset + *result;
		ssize_t written = is_own ? hwio_write(descriptor, pieces[i].iov_base, pieces[i].iov_len)
					 : hwio_pwrite(descriptor, pieces[i].iov_base, pieces[i].iov_len, at);
		if (written < 0) {
			*result = *result > 0 ? *result : -1;
			return true;
		}
		*result += written;
		if ((size_t)written < pieces[i].iov_len)
			return true;
	}
	return true;
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

static void observe_vector(const struct iovec *pieces, int count)
{
	for (int i = 0; hwio_mode == HWIO_OBSERVE && i < count; i++)
		hwio_observe_write(pieces[i].iov_base, pieces[i].iov_len);
}

ssize_t hwio_writev(int descriptor, const struct iovec *pieces, int count)
{
	ssize_t result;
	observe_vector(pieces, count);
	if (hwio_is_busy && hwio_depth == 0 &&
		write_vector_instead(descriptor, pieces, count, HWIO_OWN_POSITION, &result))
		return result;
	hwio_before_write_vector(descriptor, pieces, count, HWIO_OWN_POSITION);
	result = hwio_libc.writev(descriptor, pieces, count);
	hwio_after_change(descriptor);
	return result;
}

ssize_t hwio_pwritev(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	ssize_t result;
	observe_vector(pieces, count);
	if (hwio_is_busy && hwio_depth == 0 && offset >= 0 &&
		write_vector_instead(descriptor, pieces, count, offset, &result))
		return result;
	hwio_before_write_vector(descriptor, pieces, count, offset);
	result = hwio_libc.pwritev(descriptor, pieces, count, offset);
	hwio_after_change(descriptor);
	return result;
}
