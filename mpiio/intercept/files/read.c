/* Defers reads of large parts of regular files until the memory is accessed. The return value is the original's:
 * the file's size is checked when the call is made. Source: Natvig, Elster and Meyer, §III.A. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/context.h"
#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "memory/deferred.h"
#include "mpi/model.h"
#include "mpi/control.h"
#include "transfer/delegated.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"
#include "mpi/mounts.h"
#include "intercept/files/fortran.h"

/* Returns how many bytes a read would return; 0 if it can't be deferred. */
static size_t available_bytes(int descriptor, size_t bytes, off_t *offset, const struct stat *status)
{
	int flags = fcntl(descriptor, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || (flags & (O_DIRECT | O_PATH)) ||
		!S_ISREG(status->st_mode) || hwio_file_is_banned(status))
		return 0;
	if (*offset == HWIO_OWN_POSITION)
		*offset = lseek(descriptor, 0, SEEK_CUR);
	if (*offset < 0 || *offset >= status->st_size)
		return 0;
	size_t left = (size_t)(status->st_size - *offset);
	bytes = bytes < HWIO_CALL_BYTES_MAX ? bytes : HWIO_CALL_BYTES_MAX;
	return bytes < left ? bytes : left;
}

__thread enum hwio_left hwio_read_left;

/* Returns why the read can't be deferred, as far as is known before. */
static enum hwio_left find_obstacle(const struct hwio_file *file, const void *memory, size_t bytes)
{
	if (!file)
		return HWIO_LEFT_OPENED;
	if (!hwio_mounts_share(&file->identity))
		return HWIO_LEFT_NOT_SHARED;
	if (!hwio_memory_map_can_fill())
		return HWIO_LEFT_THREADS;
	return hwio_memory_map_is_private(memory, bytes) ? HWIO_NOT_LEFT : HWIO_LEFT_MEMORY;
}

static bool defer(int descriptor, void *memory, size_t bytes, off_t offset, const struct stat *status,
	struct hwio_context *context)
{
	if (hwio_incoming_is_writing() && hwio_delegated_overlaps(status->st_dev, status->st_ino, 0, UINT64_MAX))
		hwio_incoming_wait();
	hwio_use_out(memory, bytes);
	hwio_enter();
	struct hwio_file *file = hwio_file_of(descriptor, status);
	hwio_read_left = find_obstacle(file, memory, bytes);
	bool is_deferred = hwio_read_left == HWIO_NOT_LEFT && hwio_defer(memory, bytes, file, offset, context);
	if (hwio_read_left == HWIO_NOT_LEFT && !is_deferred)
		hwio_read_left = HWIO_LEFT_CHANGING;
	if (file)
		hwio_file_release(file);
	hwio_leave();
	return is_deferred;
}

/* A small file may grow, or be closed without an intercepted call: it is examined again after this many reads. */
#define REVALIDATE_EVERY 17

/* Decides by the size of the whole file, which bounds the gain of all its parts. */
static bool is_file_worth_it(int descriptor)
{
	struct stat status;
	static __thread struct {
		int descriptor;
		unsigned int changes, skipped;
	} skipped_file = {.descriptor = -1};
	unsigned int changes = __atomic_load_n(&hwio_descriptor_changes, __ATOMIC_RELAXED);
	if (skipped_file.descriptor == descriptor && skipped_file.changes == changes &&
		++skipped_file.skipped % REVALIDATE_EVERY != 0)
		return false;
	bool is_worth = hwio_status_untimed(descriptor, NULL, &status) && S_ISREG(status.st_mode) &&
		hwio_model_scatter_gain((size_t)status.st_size, hwio_ranks) > 0;
	if (is_worth) {
		skipped_file.descriptor = -1;
	} else if (skipped_file.descriptor != descriptor || skipped_file.changes != changes) {
		skipped_file.descriptor = descriptor;
		skipped_file.changes = changes;
		skipped_file.skipped = 0;
	}
	return is_worth;
}

bool hwio_read_instead(int descriptor, void *memory, size_t bytes, off_t offset, const void *caller, ssize_t *result)
{
	struct stat status;
	hwio_read_left = bytes < hwio_bytes_min ? HWIO_LEFT_SMALL : HWIO_NOT_LEFT;
	/* No memory has more than SSIZE_MAX bytes: the kernel refuses the read. */
	if (!hwio_examines(bytes) || bytes > SSIZE_MAX || hwio_mode == HWIO_OBSERVE ||
		hwio_fortran_is_buffer(memory, bytes))
		return false;
	int saved = errno;
	bool is_worth = is_file_worth_it(descriptor);
	struct hwio_context *context = is_worth ? hwio_context_of(HWIO_OP_READ, caller) : NULL;
	hwio_read_left = is_worth ? HWIO_NOT_LEFT : HWIO_LEFT_SMALL_FILE;
	if (hwio_context_is_off(context) || hwio_fortran_is_other(context)) {
		/* A place with a pattern has a line of its own. */
		if (context && context->is_off && !context->has_pattern)
			hwio_read_left = HWIO_LEFT_OFF;
		errno = saved;
		return false;
	}
	bool is_own = offset == HWIO_OWN_POSITION;
	hwio_enter();
	hwio_step_in();
	size_t available = fstat(descriptor, &status) == 0 ? available_bytes(descriptor, bytes, &offset, &status) : 0;
	hwio_step_out();
	hwio_leave();
	bool is_deferred = false;
	hwio_read_left = available > 0 ? HWIO_LEFT_SMALL : HWIO_LEFT_OPENED;
	if (available >= hwio_bytes_min) {
		/* Advances the position as the deferred call would. */
		pthread_testcancel();
		hwio_context_begin(context);
		is_deferred = defer(descriptor, memory, available, offset, &status, context);
	}
	if (is_deferred) {
		hwio_fortran_transferred(descriptor, memory, available, offset);
		*result = (ssize_t)available;
		if (is_own)
			lseek(descriptor, offset + (off_t)available, SEEK_SET);
	}
	errno = saved;
	return is_deferred;
}

/* Records that memory is a copy of a part of the file. */
static void record_copy(int descriptor, const struct stat *status, struct hwio_record *record)
{
	hwio_enter();
	record->file = hwio_file_of(descriptor, status);
	hwio_record_cut(record->low, record->high);
	if (record->file) {
		hwio_record_add(record);
		hwio_file_release(record->file);
	}
	hwio_records_note();
	hwio_leave();
}

void hwio_read_recorded(int descriptor, void *memory, size_t bytes, off_t offset)
{
	struct stat status;
	if (bytes == 0 || fstat(descriptor, &status) != 0 || !hwio_records_have_room(4))
		return;
	struct hwio_record record = {
		.low = (uintptr_t)memory, .high = (uintptr_t)memory + bytes, .state = HWIO_PEEKED, .offset = offset};
	record_copy(descriptor, &status, &record);
}

void hwio_read_observed(int descriptor, void *memory, ssize_t bytes, off_t offset)
{
	struct stat status;
	if (hwio_mode != HWIO_OBSERVE || bytes <= 0 || !hwio_examines((size_t)bytes) ||
		hwio_fortran_is_buffer(memory, (size_t)bytes))
		return;
	int saved = errno;
	struct hwio_context *context = hwio_context_here(HWIO_OP_READ);
	if (hwio_fortran_is_other(context)) {
		errno = saved;
		return;
	}
	bool is_noted = false;
	hwio_step_in();
	if (context && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
		if (offset == HWIO_OWN_POSITION)
			offset = lseek(descriptor, 0, SEEK_CUR) - bytes;
		hwio_context_begin(context);
		struct hwio_record record = {.low = (uintptr_t)memory,
			.high = (uintptr_t)memory + (size_t)bytes,
			.state = HWIO_OBSERVED,
			.offset = offset,
			.context = context};
		record_copy(descriptor, &status, &record);
		is_noted = true;
	}
	hwio_step_out();
	if (is_noted)
		hwio_fortran_transferred(descriptor, memory, (size_t)bytes, offset);
	errno = saved;
}

/* Discards what the read will overwrite; fills the rest. */
static void before_read(int descriptor, void *memory, size_t bytes, off_t offset)
{
	struct stat status;
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_offer_move();
	hwio_enter();
	hwio_step_in();
	bool is_known = hwio_status_untimed(descriptor, NULL, &status);
	size_t available = is_known ? available_bytes(descriptor, bytes, &offset, &status) : 0;
	hwio_step_out();
	hwio_leave();
	if (is_known)
		hwio_before_access(&status, offset, offset + (off_t)bytes);
	hwio_use_in((char *)memory + available, bytes - available);
	hwio_use_out(memory, available);
	errno = saved;
}

/* Calls the original. */
static inline ssize_t read_now(int descriptor, void *memory, size_t bytes, off_t offset)
{
	return offset == HWIO_OWN_POSITION ? hwio_libc.read(descriptor, memory, bytes)
					   : hwio_libc.pread(descriptor, memory, bytes, offset);
}

/* Returns whether a read is the original's alone. Apart from the rest, so that it is a jump to the C library. */
static inline bool is_short(size_t bytes)
{
	return bytes < HWIO_LEFT_BYTES_MIN && bytes < hwio_bytes_min && !hwio_is_busy;
}

static ssize_t read_or_defer(int descriptor, void *memory, size_t bytes, off_t offset, const void *caller)
{
	ssize_t result;
	if (bytes < hwio_bytes_min && !hwio_is_busy) {
		result = read_now(descriptor, memory, bytes, offset);
		if (result >= HWIO_LEFT_BYTES_MIN)
			hwio_left_read(descriptor, memory, result, HWIO_LEFT_SMALL);
		return result;
	}
	if (hwio_read_instead(descriptor, memory, bytes, offset, caller, &result))
		return result;
	before_read(descriptor, memory, bytes, offset);
	result = read_now(descriptor, memory, bytes, offset);
	hwio_left_read(descriptor, memory, result, hwio_read_left);
	hwio_read_observed(descriptor, memory, result, offset);
	return result;
}

ssize_t hwio_read(int descriptor, void *memory, size_t bytes)
{
	return is_short(bytes)
		? hwio_libc.read(descriptor, memory, bytes)
		: read_or_defer(descriptor, memory, bytes, HWIO_OWN_POSITION, __builtin_return_address(0));
}

ssize_t hwio_pread(int descriptor, void *memory, size_t bytes, off_t offset)
{
	/* The kernel refuses a negative offset. */
	return offset < 0 || is_short(bytes)
		? hwio_libc.pread(descriptor, memory, bytes, offset)
		: read_or_defer(descriptor, memory, bytes, offset, __builtin_return_address(0));
}

/* If the buffer is too small, the original ends the process. */
ssize_t hwio___read_chk(int descriptor, void *memory, size_t bytes, size_t buffer_bytes)
{
	return bytes > buffer_bytes ? hwio_libc.__read_chk(descriptor, memory, bytes, buffer_bytes)
				    : hwio_read(descriptor, memory, bytes);
}

ssize_t hwio___pread_chk(int descriptor, void *memory, size_t bytes, off_t offset, size_t buffer_bytes)
{
	return bytes > buffer_bytes ? hwio_libc.__pread_chk(descriptor, memory, bytes, offset, buffer_bytes)
				    : hwio_pread(descriptor, memory, bytes, offset);
}

ssize_t hwio___pread64_chk(int descriptor, void *memory, size_t bytes, off64_t offset, size_t buffer_bytes)
{
	return bytes > buffer_bytes ? hwio_libc.__pread64_chk(descriptor, memory, bytes, offset, buffer_bytes)
				    : hwio_pread(descriptor, memory, bytes, offset);
}

static size_t total(const struct iovec *pieces, int count)
{
	size_t bytes = 0;
	for (int i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	return bytes;
}

/* Streams read short pieces and then a long one: the short ones are read, the long one is deferred. */
static ssize_t read_pieces(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	ssize_t all = 0;
	for (int i = 0; i < count; i++) {
		off_t at = offset == HWIO_OWN_POSITION ? offset : offset + all;
		ssize_t got;
		if (!hwio_read_instead(descriptor, pieces[i].iov_base, pieces[i].iov_len, at, NULL, &got)) {
			if (pieces[i].iov_len == 0)
				continue;
			before_read(descriptor, pieces[i].iov_base, pieces[i].iov_len, at);
			got = read_now(descriptor, pieces[i].iov_base, pieces[i].iov_len, at);
			hwio_left_read(descriptor, pieces[i].iov_base, got, hwio_read_left);
		}
		if (got < 0)
			return all > 0 ? all : -1;
		all += got;
		if ((size_t)got < pieces[i].iov_len)
			break;
	}
	return all;
}

static bool is_regular(int descriptor)
{
	struct stat status;
	return hwio_status_untimed(descriptor, NULL, &status) && S_ISREG(status.st_mode);
}

void hwio_before_read_vector(const struct iovec *pieces, int count)
{
	for (int i = 0; hwio_is_busy && hwio_depth == 0 && i < count; i++)
		hwio_use_in(pieces[i].iov_base, pieces[i].iov_len);
}

static ssize_t read_vector(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	if (count > 0 && count <= IOV_MAX && hwio_examines(total(pieces, count)) && is_regular(descriptor))
		return read_pieces(descriptor, pieces, count, offset);
	hwio_before_read_vector(pieces, count);
	return offset == HWIO_OWN_POSITION ? hwio_libc.readv(descriptor, pieces, count)
					   : hwio_libc.preadv(descriptor, pieces, count, offset);
}

ssize_t hwio_readv(int descriptor, const struct iovec *pieces, int count)
{
	return read_vector(descriptor, pieces, count, HWIO_OWN_POSITION);
}

ssize_t hwio_preadv(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
	return offset < 0 ? hwio_libc.preadv(descriptor, pieces, count, offset)
			  : read_vector(descriptor, pieces, count, offset);
}

ssize_t hwio_preadv2(int descriptor, const struct iovec *pieces, int count, off_t offset, int flags)
{
	if (flags == 0)
		return offset == -1 ? hwio_readv(descriptor, pieces, count)
				    : hwio_preadv(descriptor, pieces, count, offset);
	hwio_before_read_vector(pieces, count);
	return hwio_libc.preadv2(descriptor, pieces, count, offset, flags);
}
