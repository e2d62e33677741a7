/* Calls by which the kernel accesses the program's memory without a file: the memory is filled before. */
#include <aio.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"

void hwio_before_output(const void *memory, size_t bytes)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_offer_move();
	/* The receiver may read files that were written before. */
	hwio_incoming_wait();
	hwio_use_in(memory, bytes);
	errno = saved;
}

void hwio_before_input(const void *memory, size_t bytes)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_offer_move();
	/* The message may be shorter than the buffer. */
	hwio_use_in(memory, bytes);
	errno = saved;
}

void hwio_before_output_pieces(const struct iovec *pieces, size_t count)
{
	for (size_t i = 0; hwio_is_busy && i < count; i++)
		hwio_before_output(pieces[i].iov_base, pieces[i].iov_len);
}

void hwio_before_input_pieces(const struct iovec *pieces, size_t count)
{
	for (size_t i = 0; hwio_is_busy && i < count; i++)
		hwio_before_input(pieces[i].iov_base, pieces[i].iov_len);
}

ssize_t hwio_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
	if (message)
		hwio_before_output_pieces(message->msg_iov, message->msg_iovlen);
	return hwio_libc.sendmsg(descriptor, message, flags);
}

int hwio_sendmmsg(int descriptor, struct mmsghdr *messages, unsigned int count, int flags)
{
	for (unsigned int i = 0; hwio_is_busy && i < count; i++)
		hwio_before_output_pieces(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen);
	return hwio_libc.sendmmsg(descriptor, messages, count, flags);
}

ssize_t hwio_recvmsg(int descriptor, struct msghdr *message, int flags)
{
	if (message)
		hwio_before_input_pieces(message->msg_iov, message->msg_iovlen);
	return hwio_libc.recvmsg(descriptor, message, flags);
}

int hwio_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	for (unsigned int i = 0; hwio_is_busy && i < count; i++)
		hwio_before_input_pieces(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen);
	return hwio_libc.recvmmsg(descriptor, messages, count, flags, timeout);
}

void hwio_before_asynchronous(const void *of, bool is_write)
{
	const struct aiocb *request = of;
	if (!request || hwio_mode == HWIO_OFF || hwio_depth > 0)
		return;
	hwio_before_output((void *)(uintptr_t)request->aio_buf, request->aio_nbytes);
	hwio_memory_map_exclude((void *)(uintptr_t)request->aio_buf, request->aio_nbytes);
	hwio_before_notification(&request->aio_sigevent);
	if (is_write)
		hwio_before_change(request->aio_fildes, 0, INT64_MAX);
}

void hwio_before_list(const void *of, int count)
{
	struct aiocb *const *requests = of;
	for (int i = 0; i < count; i++)
		hwio_before_asynchronous(requests[i], true);
}
