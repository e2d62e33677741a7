/*
 * Reads of large parts of regular files are put off until somebody looks. What the call returns is what the original
 * would have: the file's size is looked at when the call is made. Source: Natvig, Elster and Meyer, §III.A.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../context.h"
#include "../generated-calls.h"
#include "../memory/deferred.h"
#include "../memory/private.h"
#include "../model.h"
#include "../mpi/control.h"
#include "../patterns/delegated.h"
#include "../patterns/incoming.h"
#include "../mpi/mounts.h"
#include "change.h"
#include "fortran.h"
#include "real.h"
#include "transfer.h"

/* How much the read of a file with this status would get, or 0 if it is to be left alone. */
static size_t would_get(int descriptor, size_t bytes, off_t *offset, const struct stat *status)
{
	int flags = fcntl(descriptor, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || (flags & (O_DIRECT | O_PATH)) || !S_ISREG(status->st_mode) ||
	    hw_file_is_banned(status))
		return 0;
	if (*offset == HW_OWN_POSITION)
		*offset = lseek(descriptor, 0, SEEK_CUR);
	if (*offset < 0 || *offset >= status->st_size)
		return 0;
	size_t left = (size_t)(status->st_size - *offset);
	bytes = bytes < HW_CALL_BYTES_MAX ? bytes : HW_CALL_BYTES_MAX;
	return bytes < left ? bytes : left;
}

__thread enum hw_left hw_read_left;

/* Why such a read can't be put off, as far as is known before. */
static enum hw_left why_not(const struct hw_file *file, const void *memory, size_t bytes)
{
	if (!file)
		return HW_LEFT_OPENED;
	if (!hw_mounts_share(&file->identity))
		return HW_LEFT_NOT_SHARED;
	if (!hw_private_can_fill())
		return HW_LEFT_THREADS;
	return hw_private_is(memory, bytes) ? HW_NOT_LEFT : HW_LEFT_MEMORY;
}

static bool put_off(int descriptor, void *memory, size_t bytes, off_t offset, const struct stat *status,
		    struct hw_context *context)
{
	if (hw_incoming_is_writing() && hw_delegated_overlaps(status->st_dev, status->st_ino, 0, UINT64_MAX))
		hw_incoming_wait();
	hw_use_out(memory, bytes);
	hw_enter();
	struct hw_file *file = hw_file_of(descriptor, status);
	hw_read_left = why_not(file, memory, bytes);
	bool is_deferred = hw_read_left == HW_NOT_LEFT && hw_defer(memory, bytes, file, offset, context);
	if (hw_read_left == HW_NOT_LEFT && !is_deferred)
		hw_read_left = HW_LEFT_CHANGING;
	if (file)
		hw_file_release(file);
	hw_leave();
	return is_deferred;
}

/* A small file may grow, or be closed without a call that is seen: after so many reads it is looked at again. */
#define LOOK_EVERY 17

/* A file that isn't worth it as a whole isn't in parts. */
static bool is_worth_it(int descriptor, struct stat *status)
{
	static __thread struct {
		int descriptor;
		unsigned int changes, passed;
	} left_alone = {.descriptor = -1};
	unsigned int changes = __atomic_load_n(&hw_descriptor_changes, __ATOMIC_RELAXED);
	if (left_alone.descriptor == descriptor && left_alone.changes == changes && ++left_alone.passed % LOOK_EVERY != 0)
		return false;
	bool is_worth = fstat(descriptor, status) == 0 && S_ISREG(status->st_mode) &&
			hw_model_scatter_gain((size_t)status->st_size, hw_ranks) > 0;
	if (is_worth) {
		left_alone.descriptor = -1;
	} else if (left_alone.descriptor != descriptor || left_alone.changes != changes) {
		left_alone.descriptor = descriptor;
		left_alone.changes = changes;
		left_alone.passed = 0;
	}
	return is_worth;
}

bool hw_read_instead(int descriptor, void *memory, size_t bytes, off_t offset, const void *caller, ssize_t *result)
{
	struct stat status;
	hw_read_left = bytes < hw_bytes_min ? HW_LEFT_SMALL : HW_NOT_LEFT;
	if (!hw_looks_at(bytes) || hw_mode == HW_OBSERVE || hw_fortran_is_buffer(memory, bytes))
		return false;
	int saved = errno;
	bool is_worth = is_worth_it(descriptor, &status);
	struct hw_context *context = is_worth ? hw_context_of(HW_OP_READ, caller) : NULL;
	hw_read_left = is_worth ? HW_NOT_LEFT : HW_LEFT_SMALL_FILE;
	if (hw_context_is_off(context) || hw_fortran_is_other(context)) {
		errno = saved;
		return false;
	}
	bool is_own = offset == HW_OWN_POSITION;
	hw_enter();
	hw_step_in();
	size_t would = would_get(descriptor, bytes, &offset, &status);
	hw_step_out();
	hw_leave();
	bool is_deferred = false;
	hw_read_left = would > 0 ? HW_LEFT_SMALL : HW_LEFT_OPENED;
	if (would >= hw_bytes_min) {
		/* As the call that is put off would. */
		pthread_testcancel();
		hw_context_begins(context);
		is_deferred = put_off(descriptor, memory, would, offset, &status, context);
	}
	if (is_deferred) {
		hw_fortran_got(descriptor, memory, would, offset);
		*result = (ssize_t)would;
		if (is_own)
			lseek(descriptor, offset + (off_t)would, SEEK_SET);
	}
	errno = saved;
	return is_deferred;
}

void hw_read_noted(int descriptor, void *memory, size_t bytes, off_t offset)
{
	struct stat status;
	if (bytes == 0 || fstat(descriptor, &status) != 0 || hw_record_count() + 4 > HW_RECORDS_MAX)
		return;
	hw_enter();
	struct hw_file *file = hw_file_of(descriptor, &status);
	struct hw_record record = {.low = (uintptr_t)memory, .high = (uintptr_t)memory + bytes, .state = HW_PEEKED,
				   .file = file, .offset = offset};
	if (file) {
		hw_record_cut(record.low, record.high);
		hw_record_add(&record);
		hw_file_release(file);
	}
	hw_count_busy();
	hw_leave();
}

void hw_read_observed(int descriptor, void *memory, ssize_t bytes, off_t offset)
{
	struct stat status;
	if (hw_mode != HW_OBSERVE || bytes <= 0 || !hw_looks_at((size_t)bytes) ||
	    hw_fortran_is_buffer(memory, (size_t)bytes))
		return;
	int saved = errno;
	struct hw_context *context = hw_context_here(HW_OP_READ);
	if (hw_fortran_is_other(context)) {
		errno = saved;
		return;
	}
	bool is_noted = false;
	hw_step_in();
	if (context && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
		if (offset == HW_OWN_POSITION)
			offset = lseek(descriptor, 0, SEEK_CUR) - bytes;
		hw_context_begins(context);
		hw_enter();
		hw_record_cut((uintptr_t)memory, (uintptr_t)memory + (size_t)bytes);
		struct hw_file *file = hw_file_of(descriptor, &status);
		struct hw_record record = {.low = (uintptr_t)memory, .high = (uintptr_t)memory + (size_t)bytes,
					   .state = HW_OBSERVED, .file = file, .offset = offset, .context = context};
		if (file) {
			hw_record_add(&record);
			hw_file_release(file);
		}
		hw_count_busy();
		hw_leave();
		is_noted = true;
	}
	hw_step_out();
	if (is_noted)
		hw_fortran_got(descriptor, memory, (size_t)bytes, offset);
	errno = saved;
}

/* What the read will overwrite is given up; what it may leave as it is, is filled. */
static void before_read(int descriptor, void *memory, size_t bytes, off_t offset)
{
	struct stat status;
	if (!hw_is_busy || hw_depth > 0)
		return;
	int saved = errno;
	hw_enter();
	hw_step_in();
	bool is_known = fstat(descriptor, &status) == 0;
	size_t would = is_known ? would_get(descriptor, bytes, &offset, &status) : 0;
	hw_step_out();
	hw_leave();
	if (is_known)
		hw_before_access(&status, offset, offset + (off_t)bytes);
	hw_use_in((char *)memory + would, bytes - would);
	hw_use_out(memory, would);
	errno = saved;
}

/* Nothing is to be seen to. */
static inline bool is_plain(size_t bytes)
{
	return bytes < hw_bytes_min && !hw_is_busy;
}

ssize_t hw_read(int descriptor, void *memory, size_t bytes)
{
	ssize_t result;
	if (is_plain(bytes)) {
		result = hw_libc.read(descriptor, memory, bytes);
		hw_left_read(descriptor, memory, result, HW_LEFT_SMALL);
		return result;
	}
	if (hw_read_instead(descriptor, memory, bytes, HW_OWN_POSITION, __builtin_return_address(0), &result))
		return result;
	before_read(descriptor, memory, bytes, HW_OWN_POSITION);
	result = hw_libc.read(descriptor, memory, bytes);
	hw_left_read(descriptor, memory, result, hw_read_left);
	hw_read_observed(descriptor, memory, result, HW_OWN_POSITION);
	return result;
}

ssize_t hw_pread(int descriptor, void *memory, size_t bytes, off_t offset)
{
	ssize_t result;
	hw_read_left = HW_LEFT_SMALL;
	if (is_plain(bytes)) {
		result = hw_libc.pread(descriptor, memory, bytes, offset);
		hw_left_read(descriptor, memory, result, hw_read_left);
		return result;
	}
	if (offset >= 0 && hw_read_instead(descriptor, memory, bytes, offset, __builtin_return_address(0), &result))
		return result;
	before_read(descriptor, memory, bytes, offset);
	result = hw_libc.pread(descriptor, memory, bytes, offset);
	hw_left_read(descriptor, memory, result, hw_read_left);
	hw_read_observed(descriptor, memory, result, offset);
	return result;
}

ssize_t hw_pread64(int descriptor, void *memory, size_t bytes, off64_t offset)
{
	return hw_pread(descriptor, memory, bytes, offset);
}

/* With less room than bytes the original ends the process. */
ssize_t hw___read_chk(int descriptor, void *memory, size_t bytes, size_t room)
{
	return bytes > room ? hw_libc.__read_chk(descriptor, memory, bytes, room) : hw_read(descriptor, memory, bytes);
}

ssize_t hw___pread_chk(int descriptor, void *memory, size_t bytes, off_t offset, size_t room)
{
	return bytes > room ? hw_libc.__pread_chk(descriptor, memory, bytes, offset, room)
			    : hw_pread(descriptor, memory, bytes, offset);
}

ssize_t hw___pread64_chk(int descriptor, void *memory, size_t bytes, off64_t offset, size_t room)
{
	return bytes > room ? hw_libc.__pread64_chk(descriptor, memory, bytes, offset, room)
			    : hw_pread(descriptor, memory, bytes, offset);
}

static size_t total(const struct iovec *pieces, int count)
{
	size_t bytes = 0;
	for (int i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	return bytes;
}

/* One long piece behind short ones is how streams read: the short ones are read, the long one put off. */
static bool vector_instead(int descriptor, const struct iovec *pieces, int count, off_t offset, ssize_t *result)
{
	if (count < 1 || count > IOV_MAX || !hw_looks_at(total(pieces, count)))
		return false;
	bool is_own = offset == HW_OWN_POSITION;
	*result = 0;
	for (int i = 0; i < count; i++) {
		off_t at = is_own ? offset : offset + *result;
		ssize_t got;
		if (!hw_read_instead(descriptor, pieces[i].iov_base, pieces[i].iov_len, at, NULL, &got)) {
			if (pieces[i].iov_len == 0)
				continue;
			before_read(descriptor, pieces[i].iov_base, pieces[i].iov_len, at);
			got = is_own ? hw_libc.read(descriptor, pieces[i].iov_base, pieces[i].iov_len)
				     : hw_libc.pread(descriptor, pieces[i].iov_base, pieces[i].iov_len, at);
			hw_left_read(descriptor, pieces[i].iov_base, got, hw_read_left);
		}
		if (got < 0) {
			*result = *result > 0 ? *result : -1;
			return true;
		}
		*result += got;
		if ((size_t)got < pieces[i].iov_len)
			return true;
	}
	return true;
}

static bool is_regular(int descriptor)
{
	struct stat status;
	return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

static void before_vector(const struct iovec *pieces, int count)
{
	for (int i = 0; hw_is_busy && hw_depth == 0 && i < count; i++)
		hw_use_in(pieces[i].iov_base, pieces[i].iov_len);
}

ssize_t hw_readv(int descriptor, const struct iovec *pieces, int count)
{
	ssize_t result;
	if (count > 0 && hw_looks_at(total(pieces, count)) && is_regular(descriptor) &&
	    vector_instead(descriptor, pieces, count, HW_OWN_POSITION, &result))
		return result;
	before_vector(pieces, count);
	return hw_libc.readv(descriptor, pieces, count);
}

ssize_t hw_preadv(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	ssize_t result;
	if (offset >= 0 && count > 0 && hw_looks_at(total(pieces, count)) && is_regular(descriptor) &&
	    vector_instead(descriptor, pieces, count, offset, &result))
		return result;
	before_vector(pieces, count);
	return hw_libc.preadv(descriptor, pieces, count, offset);
}

ssize_t hw_preadv64(int descriptor, const struct iovec *pieces, int count, off64_t offset)
{
	return hw_preadv(descriptor, pieces, count, offset);
}

ssize_t hw_preadv2(int descriptor, const struct iovec *pieces, int count, off_t offset, int flags)
{
	if (flags == 0)
		return offset == -1 ? hw_readv(descriptor, pieces, count) : hw_preadv(descriptor, pieces, count, offset);
	before_vector(pieces, count);
	return hw_libc.preadv2(descriptor, pieces, count, offset, flags);
}

ssize_t hw_preadv64v2(int descriptor, const struct iovec *pieces, int count, off64_t offset, int flags)
{
	return hw_preadv2(descriptor, pieces, count, offset, flags);
}
