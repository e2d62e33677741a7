/*
 * fread and fwrite of long pieces, past the stream's buffer. What is in the buffer, the position, and the marks for end
 * and error are what they would be after the original. The buffer's state is read from the stream, whose layout glibc
 * has in its headers and keeps for old programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../generated-calls.h"
#include "../patterns/incoming.h"
#include "../report.h"
#include "change.h"
#include "real.h"
#include "transfer.h"

/* Flags of struct _IO_FILE: the characters come from ungetc; the stream is at its end, or has failed. */
#define IN_BACKUP 0x0100
#define AT_END 0x0010
#define HAS_FAILED 0x0020

static bool is_plain(FILE *stream)
{
	return !(stream->_flags & (IN_BACKUP | AT_END | HAS_FAILED)) && stream->_IO_save_base == NULL &&
	       stream->_mode <= 0 && fileno(stream) >= 0;
}

/* How many bytes were read past the buffer, with the stream's position behind them. */
static size_t read_past(char *memory, size_t bytes, FILE *stream)
{
	size_t buffered = (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
	if (buffered >= bytes || !hw_looks_at(bytes - buffered) || stream->_IO_write_ptr != stream->_IO_write_base)
		return 0;
	off_t position = ftello(stream);
	ssize_t got;
	if (position < 0)
		return 0;
	off_t from = position + (off_t)buffered;
	if (!hw_read_instead(fileno(stream), memory + buffered, bytes - buffered, from, NULL, &got))
		return 0;
	hw_enter();
	hw_step_in();
	if (buffered > 0 && hw_libc.fread(memory, 1, buffered, stream) == buffered)
		hw_read_noted(fileno(stream), memory, buffered, position);
	fseeko(stream, from + got, SEEK_SET);
	hw_step_out();
	hw_leave();
	return buffered + (size_t)got;
}

static size_t read_stream(void *memory, size_t size, size_t count, FILE *stream)
{
	size_t bytes;
	if (__builtin_mul_overflow(size, count, &bytes) || size == 0 || !hw_looks_at(bytes) || hw_mode == HW_OBSERVE) {
		if (hw_is_busy && hw_depth == 0)
			hw_use_in(memory, bytes);
		size_t items = hw_libc.fread(memory, size, count, stream);
		if (size > 0 && items * size >= HW_PAGE_BYTES && bytes < hw_bytes_min)
			hw_left_read(fileno(stream), memory, (ssize_t)(items * size), HW_LEFT_SMALL);
		if (hw_mode == HW_OBSERVE && size > 0 && hw_looks_at(items * size))
			hw_read_observed(fileno(stream), memory, (ssize_t)(items * size),
					 ftello(stream) - (off_t)(items * size));
		return items;
	}
	flockfile(stream);
	size_t done = 0;
	hw_read_left = HW_NOT_LEFT;
	/* One read of Linux has a limit, a fread has none. */
	while (done < bytes && is_plain(stream)) {
		size_t part = read_past((char *)memory + done, bytes - done, stream);
		if (part == 0)
			break;
		done += part;
	}
	if (done < bytes) {
		if (hw_is_busy)
			hw_use_in((char *)memory + done, bytes - done);
		size_t got = hw_libc.fread((char *)memory + done, 1, bytes - done, stream);
		hw_left_read(fileno(stream), (char *)memory + done, (ssize_t)got, hw_read_left);
		done += got;
	}
	funlockfile(stream);
	return done / size;
}

size_t hw_fread(void *memory, size_t size, size_t count, FILE *stream)
{
	return read_stream(memory, size, count, stream);
}

size_t hw_fread_unlocked(void *memory, size_t size, size_t count, FILE *stream)
{
	return read_stream(memory, size, count, stream);
}

size_t hw___fread_chk(void *memory, size_t room, size_t size, size_t count, FILE *stream)
{
	size_t bytes;
	if (__builtin_mul_overflow(size, count, &bytes) || bytes > room)
		return hw_libc.__fread_chk(memory, room, size, count, stream);
	return read_stream(memory, size, count, stream);
}

size_t hw___fread_unlocked_chk(void *memory, size_t room, size_t size, size_t count, FILE *stream)
{
	size_t bytes;
	if (__builtin_mul_overflow(size, count, &bytes) || bytes > room)
		return hw_libc.__fread_unlocked_chk(memory, room, size, count, stream);
	return read_stream(memory, size, count, stream);
}

/* Has data that others own written past the buffer. False: the original is to be called. */
static bool write_past(const void *memory, size_t bytes, FILE *stream)
{
	ssize_t written;
	int descriptor = fileno(stream), flags = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFL);
	if (!is_plain(stream) || flags < 0 || (flags & O_APPEND) || fflush(stream) != 0)
		return false;
	off_t position = ftello(stream);
	if (position < 0 || !hw_write_instead(descriptor, memory, bytes, position, &written))
		return false;
	fseeko(stream, position + written, SEEK_SET);
	return true;
}

static size_t write_stream(const void *memory, size_t size, size_t count, FILE *stream)
{
	size_t bytes, done = 0;
	bool is_sane = !__builtin_mul_overflow(size, count, &bytes) && bytes > 0;
	if (is_sane && hw_mode == HW_OBSERVE)
		hw_observe_write(memory, bytes);
	if (is_sane && !hw_incoming_any())
		hw_left_written(memory, bytes);
	if (!is_sane || !hw_is_busy || hw_depth > 0)
		return hw_libc.fwrite(memory, size, count, stream);
	flockfile(stream);
	while (hw_looks_at(bytes) && done < bytes) {
		size_t part = bytes - done < HW_CALL_BYTES_MAX ? bytes - done : HW_CALL_BYTES_MAX;
		if (!hw_incoming_any() || !write_past((const char *)memory + done, part, stream))
			break;
		done += part;
	}
	if (done < bytes) {
		hw_use_in((const char *)memory + done, bytes - done);
		/* The stream writes by itself, where nobody sees it. */
		if (fileno(stream) >= 0)
			hw_before_change(fileno(stream), 0, INT64_MAX);
		done += hw_libc.fwrite((const char *)memory + done, 1, bytes - done, stream);
	}
	funlockfile(stream);
	return done / size;
}

size_t hw_fwrite(const void *memory, size_t size, size_t count, FILE *stream)
{
	return write_stream(memory, size, count, stream);
}

size_t hw_fwrite_unlocked(const void *memory, size_t size, size_t count, FILE *stream)
{
	return write_stream(memory, size, count, stream);
}
