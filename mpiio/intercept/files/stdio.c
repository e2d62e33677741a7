/* Transfers long pieces of fread and fwrite past the stream's buffer. The buffer, the position, and the marks for end
 * and error are as after the original. The buffer's state is read from the stream, whose layout glibc has in its
 * headers and doesn't change. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parsed.h"
#include "intercept/generated-calls.h"
#include "transfer/incoming.h"
#include "intercept/job/report.h"
#include "intercept/files/change.h"
#include "real.h"
#include "intercept/files/instead.h"

/* Flags of struct _IO_FILE: the next characters come from ungetc; the stream is at its end; it has failed. */
#define IN_BACKUP 0x0100
#define AT_END 0x0010
#define HAS_FAILED 0x0020

static bool is_plain_stream(FILE *stream)
{
	return !(stream->_flags & (IN_BACKUP | AT_END | HAS_FAILED)) && stream->_IO_save_base == NULL &&
		stream->_mode <= 0 && fileno(stream) >= 0;
}

/* Defers a read past the buffer, and sets the stream's position behind it. Returns the number of bytes, those of the
 * buffer included; 0: none. */
static size_t read_past(char *memory, size_t bytes, FILE *stream)
{
	size_t buffered = (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
	if (buffered >= bytes || !hwio_examines(bytes - buffered) || stream->_IO_write_ptr != stream->_IO_write_base)
		return 0;
	off_t position = ftello(stream);
	ssize_t got;
	if (position < 0)
		return 0;
	off_t from = position + (off_t)buffered;
	if (!hwio_read_instead(fileno(stream), memory + buffered, bytes - buffered, from, NULL, &got))
		return 0;
	hwio_enter();
	hwio_step_in();
	if (buffered > 0 && hwio_libc.fread(memory, 1, buffered, stream) == buffered)
		hwio_read_recorded(fileno(stream), memory, buffered, position);
	fseeko(stream, from + got, SEEK_SET);
	hwio_step_out();
	hwio_leave();
	return buffered + (size_t)got;
}

size_t hwio_fread(void *memory, size_t size, size_t count, FILE *stream)
{
	size_t bytes;
	hwio_parsed_forget(stream);
	if (__builtin_mul_overflow(size, count, &bytes) || size == 0 || !hwio_examines(bytes) ||
		hwio_mode == HWIO_OBSERVE) {
		if (hwio_is_busy && hwio_depth == 0)
			hwio_use_in(memory, bytes);
		size_t items = hwio_libc.fread(memory, size, count, stream);
		if (size > 0 && items * size >= HWIO_LEFT_BYTES_MIN && bytes < hwio_bytes_min)
			hwio_left_read(fileno(stream), memory, (ssize_t)(items * size), HWIO_LEFT_SMALL);
		if (hwio_mode == HWIO_OBSERVE && size > 0 && hwio_examines(items * size))
			hwio_read_observed(fileno(stream), memory, (ssize_t)(items * size),
				ftello(stream) - (off_t)(items * size));
		return items;
	}
	flockfile(stream);
	size_t done = 0;
	hwio_read_left = HWIO_NOT_LEFT;
	/* A read of Linux has a limit, an fread has none. */
	while (done < bytes && is_plain_stream(stream)) {
		size_t part = read_past((char *)memory + done, bytes - done, stream);
		if (part == 0)
			break;
		done += part;
	}
	if (done < bytes) {
		if (hwio_is_busy)
			hwio_use_in((char *)memory + done, bytes - done);
		size_t got = hwio_libc.fread((char *)memory + done, 1, bytes - done, stream);
		hwio_left_read(fileno(stream), (char *)memory + done, (ssize_t)got, hwio_read_left);
		done += got;
	}
	funlockfile(stream);
	return done / size;
}

size_t hwio___fread_chk(void *memory, size_t buffer_bytes, size_t size, size_t count, FILE *stream)
{
	size_t bytes;
	if (__builtin_mul_overflow(size, count, &bytes) || bytes > buffer_bytes)
		return hwio_libc.__fread_chk(memory, buffer_bytes, size, count, stream);
	return hwio_fread(memory, size, count, stream);
}

size_t hwio___fread_unlocked_chk(void *memory, size_t buffer_bytes, size_t size, size_t count, FILE *stream)
{
	size_t bytes;
	if (__builtin_mul_overflow(size, count, &bytes) || bytes > buffer_bytes)
		return hwio_libc.__fread_unlocked_chk(memory, buffer_bytes, size, count, stream);
	return hwio_fread(memory, size, count, stream);
}

/* Has the owners of the data write it, past the buffer. False: the original has to be called. */
static bool write_past(const void *memory, size_t bytes, FILE *stream)
{
	ssize_t written;
	int descriptor = fileno(stream), flags = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFL);
	if (!is_plain_stream(stream) || flags < 0 || (flags & O_APPEND) || fflush(stream) != 0)
		return false;
	off_t position = ftello(stream);
	if (position < 0 || !hwio_write_instead(descriptor, memory, bytes, position, &written))
		return false;
	fseeko(stream, position + written, SEEK_SET);
	return true;
}

size_t hwio_fwrite(const void *memory, size_t size, size_t count, FILE *stream)
{
	size_t bytes, done = 0;
	bool is_sane = !__builtin_mul_overflow(size, count, &bytes) && bytes > 0;
	if (is_sane && hwio_mode == HWIO_OBSERVE)
		hwio_observe_write(memory, bytes);
	if (is_sane && !hwio_incoming_any())
		hwio_left_written(memory, bytes);
	if (!is_sane || !hwio_is_busy || hwio_depth > 0)
		return hwio_libc.fwrite(memory, size, count, stream);
	flockfile(stream);
	while (hwio_examines(bytes) && done < bytes) {
		size_t part = bytes - done < HWIO_CALL_BYTES_MAX ? bytes - done : HWIO_CALL_BYTES_MAX;
		if (!hwio_incoming_any() || !write_past((const char *)memory + done, part, stream))
			break;
		done += part;
	}
	if (done < bytes) {
		hwio_use_in((const char *)memory + done, bytes - done);
		/* The stream writes by itself, without a call that is intercepted. */
		if (fileno(stream) >= 0)
			hwio_before_change(fileno(stream), 0, INT64_MAX);
		done += hwio_libc.fwrite((const char *)memory + done, 1, bytes - done, stream);
	}
	funlockfile(stream);
	return done / size;
}
