/* Calls by which the kernel accesses the program's memory without a file: the memory is filled before. */
#include <aio.h>
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../generated-calls.h"
#include "../memory/memory_map.h"
#include "../patterns/incoming.h"
#include "change.h"
#include "real.h"

static void before_output(const void *memory, size_t bytes)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	/* The receiver may read files that were written before. */
	hwio_incoming_wait();
	hwio_use_in(memory, bytes);
	errno = saved;
}

static void before_input(const void *memory, size_t bytes)
{
	if (!hwio_is_busy || hwio_depth > 0)
		return;
	int saved = errno;
	/* The message may be shorter than the buffer. */
	hwio_use_in(memory, bytes);
	errno = saved;
}

static void before_output_pieces(const struct iovec *pieces, size_t count)
{
	for (size_t i = 0; hwio_is_busy && i < count; i++)
		before_output(pieces[i].iov_base, pieces[i].iov_len);
}

static void before_input_pieces(const struct iovec *pieces, size_t count)
{
	for (size_t i = 0; hwio_is_busy && i < count; i++)
		before_input(pieces[i].iov_base, pieces[i].iov_len);
}

ssize_t hwio_send(int descriptor, const void *memory, size_t bytes, int flags)
{
	before_output(memory, bytes);
	return hwio_libc.send(descriptor, memory, bytes, flags);
}

ssize_t hwio_sendto(int descriptor, const void *memory, size_t bytes, int flags, const struct sockaddr *address,
	socklen_t address_bytes)
{
	before_output(memory, bytes);
	return hwio_libc.sendto(descriptor, memory, bytes, flags, address, address_bytes);
}

ssize_t hwio_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
	if (message)
		before_output_pieces(message->msg_iov, message->msg_iovlen);
	return hwio_libc.sendmsg(descriptor, message, flags);
}

int hwio_sendmmsg(int descriptor, struct mmsghdr *messages, unsigned int count, int flags)
{
	for (unsigned int i = 0; hwio_is_busy && i < count; i++)
		before_output_pieces(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen);
	return hwio_libc.sendmmsg(descriptor, messages, count, flags);
}

ssize_t hwio_recv(int descriptor, void *memory, size_t bytes, int flags)
{
	before_input(memory, bytes);
	return hwio_libc.recv(descriptor, memory, bytes, flags);
}

ssize_t hwio_recvfrom(int descriptor, void *memory, size_t bytes, int flags, struct sockaddr *address,
	socklen_t *address_bytes)
{
	before_input(memory, bytes);
	return hwio_libc.recvfrom(descriptor, memory, bytes, flags, address, address_bytes);
}

ssize_t hwio_recvmsg(int descriptor, struct msghdr *message, int flags)
{
	if (message)
		before_input_pieces(message->msg_iov, message->msg_iovlen);
	return hwio_libc.recvmsg(descriptor, message, flags);
}

int hwio_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	for (unsigned int i = 0; hwio_is_busy && i < count; i++)
		before_input_pieces(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen);
	return hwio_libc.recvmmsg(descriptor, messages, count, flags, timeout);
}

ssize_t hwio___recv_chk(int descriptor, void *memory, size_t bytes, size_t buffer_bytes, int flags)
{
	before_input(memory, bytes);
	return hwio_libc.__recv_chk(descriptor, memory, bytes, buffer_bytes, flags);
}

ssize_t hwio___recvfrom_chk(int descriptor, void *memory, size_t bytes, size_t buffer_bytes, int flags,
	struct sockaddr *address, socklen_t *address_bytes)
{
	before_input(memory, bytes);
	return hwio_libc.__recvfrom_chk(descriptor, memory, bytes, buffer_bytes, flags, address, address_bytes);
}

ssize_t hwio_process_vm_readv(pid_t process, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	before_input_pieces(local, local_count);
	before_output_pieces(remote, remote_count);
	return hwio_libc.process_vm_readv(process, local, local_count, remote, remote_count, flags);
}

ssize_t hwio_process_vm_writev(pid_t process, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	before_output_pieces(local, local_count);
	before_input_pieces(remote, remote_count);
	return hwio_libc.process_vm_writev(process, local, local_count, remote, remote_count, flags);
}

/* The kernel or a thread uses the memory after the call: it is excluded from deferring. */
static void before_asynchronous(const struct aiocb *request, bool is_write)
{
	if (!request || hwio_mode == HWIO_OFF || hwio_depth > 0)
		return;
	before_output((void *)(uintptr_t)request->aio_buf, request->aio_nbytes);
	hwio_memory_map_exclude((void *)(uintptr_t)request->aio_buf, request->aio_nbytes);
	if (is_write)
		hwio_before_change(request->aio_fildes, 0, INT64_MAX);
}

int hwio_aio_read(struct aiocb *request)
{
	before_asynchronous(request, false);
	return hwio_libc.aio_read(request);
}

int hwio_aio_write(struct aiocb *request)
{
	before_asynchronous(request, true);
	return hwio_libc.aio_write(request);
}

int hwio_aio_read64(struct aiocb64 *request)
{
	before_asynchronous((struct aiocb *)request, false);
	return hwio_libc.aio_read64(request);
}

int hwio_aio_write64(struct aiocb64 *request)
{
	before_asynchronous((struct aiocb *)request, true);
	return hwio_libc.aio_write64(request);
}

int hwio_lio_listio(int mode, struct aiocb *const requests[], int count, struct sigevent *event)
{
	for (int i = 0; i < count; i++)
		before_asynchronous(requests[i], true);
	return hwio_libc.lio_listio(mode, requests, count, event);
}

int hwio_lio_listio64(int mode, struct aiocb64 *const requests[], int count, struct sigevent *event)
{
	for (int i = 0; i < count; i++)
		before_asynchronous((struct aiocb *)requests[i], true);
	return hwio_libc.lio_listio64(mode, requests, count, event);
}
