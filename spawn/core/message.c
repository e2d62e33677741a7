/* Packets with descriptors. */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

union hwsp_control {
	char bytes[CMSG_SPACE(sizeof(int) * (HWSP_FDS_MAX + 8))];
	struct cmsghdr align;
};

int hwsp_send_parts(int flags, int socket, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
	const int *fds, uint32_t fd_count)
{
	union hwsp_control control;
	struct iovec parts[2] = {{(void *)head, head_bytes}, {(void *)body, body_bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = body_bytes ? 2 : 1};

	if (fd_count > HWSP_FDS_MAX + 8)
		return EINVAL;
	if (fd_count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		memset(control.bytes, 0, message.msg_controllen);
		struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(rights), fds, sizeof(int) * fd_count);
	}
	ssize_t sent;
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno;
	return (size_t)sent == head_bytes + body_bytes ? 0 : EMSGSIZE;
}

int hwsp_send(int socket, const void *data, size_t bytes, int fd)
{
	return hwsp_send_parts(0, socket, data, bytes, NULL, 0, &fd, fd >= 0);
}

int hwsp_receive(int socket, void *data, size_t bytes, size_t *received, int *fds, uint32_t *fd_count)
{
	union hwsp_control control;
	struct iovec part = {data, bytes};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	uint32_t most = fd_count ? *fd_count : 0, fd_received = 0;
	ssize_t got;

	do
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno;
	for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&message); part_of; part_of = CMSG_NXTHDR(&message, part_of)) {
		if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS)
			continue;
		const unsigned char *at = CMSG_DATA(part_of);
		for (size_t left = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int); left; left--, at += sizeof(int)) {
			int fd;
			memcpy(&fd, at, sizeof fd);
			if (fd_received < most)
				fds[fd_received++] = fd;
			else
				close(fd);
		}
	}
	if (fd_count)
		*fd_count = fd_received;
	*received = (size_t)got;
	return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? EMSGSIZE : 0;
}
