/* Joining a task to its node; see node.h. `headwater exec` does the same (cli/src/rendezvous/attach.rs,
 * cli/src/namespace/enter.rs). */
#define _GNU_SOURCE
#include "node.h"

#include "parse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Limits of a supervisor's message: descriptors, and bytes of a line. */
#define DESCRIPTORS_MAX 4
#define LINE_BYTES_MAX 16384
#define TURNED_AWAY -1

/* Connects to a socket of this user or of root. Returns -1 on failure. */
static int connect_to(const char *path, int timeout_ms)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int failure;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
		connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
		if (peer.uid == geteuid() || peer.uid == 0 || geteuid() == 0)
			return fd;
		errno = EACCES;
	}
	failure = errno;
	close(fd);
	errno = failure;
	return -1;
}

long hwsl_ask_node(const char *socket, char *answer, size_t size, int timeout_ms)
{
	int fd = connect_to(socket, timeout_ms);
	size_t used = 0;

	if (fd < 0)
		return -1;
	while (used < size) {
		ssize_t bytes = recv(fd, answer + used, size - used, 0);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0) {
			int failure = errno;

			close(fd);
			errno = failure;
			return bytes < 0 ? -1 : (long)used;
		}
		used += (size_t)bytes;
	}
	close(fd);
	errno = EMSGSIZE;
	return -1;
}

static void keep_descriptors(struct msghdr *message, int descriptors[], int *count)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		size_t came = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t n = 0; n < came; n++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + n * sizeof(int), sizeof(int));
			if (*count < DESCRIPTORS_MAX)
				descriptors[(*count)++] = fd;
			else
				close(fd);
		}
	}
}

/* Requests the namespaces: the mount namespace, and the user namespace if there is one. Returns how many were
 * received, 0 if the supervisor refuses or is gone, TURNED_AWAY if it closed the connection without an answer. */
static int ask_supervisor(const char *path, int timeout_ms, int descriptors[])
{
	static const char request[] = "\"enter\"\n";
	char line[LINE_BYTES_MAX], control[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
	size_t used = 0;
	int count = 0, fd = connect_to(path, timeout_ms);

	if (fd < 0)
		return 0;
	errno = ECONNREFUSED;
	bool is_asked = send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == sizeof(request) - 1;
	while (is_asked && used < sizeof(line) && (used == 0 || line[used - 1] != '\n')) {
		struct iovec space = {.iov_base = line + used, .iov_len = sizeof(line) - used};
		struct msghdr message = {
			.msg_iov = &space, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			break;
		keep_descriptors(&message, descriptors, &count);
		used += (size_t)bytes;
	}
	int failure = errno;
	close(fd);
	errno = failure;
	if (used == 0 && errno != EAGAIN)
		return TURNED_AWAY;
	if (!hwsl_is_welcome(line, used)) {
		while (count > 0)
			close(descriptors[--count]);
	}
	return count;
}

static bool enter_both(const int descriptors[], int count, const char **what)
{
	/* The user namespace grants the rights to enter the mount namespace. */
	*what = "the node's user namespace can't be entered";
	if (count > 1 && setns(descriptors[1], CLONE_NEWUSER) != 0)
		return false;
	*what = "the node's mount namespace can't be entered";
	return setns(descriptors[0], CLONE_NEWNS) == 0;
}

bool hwsl_enter_namespaces(const char *supervisor, int timeout_ms, const char **what)
{
	int descriptors[DESCRIPTORS_MAX], count = 0, failure = 0, signal_of_parent = 0;
	char path[PATH_MAX];

	*what = "the node's supervisor does not answer";
	/* The supervisor closes idle connections soon, and this process may not have run for a while. */
	for (int attempt = 0; attempt < HWSL_ENTER_ATTEMPTS_MAX; attempt++) {
		count = ask_supervisor(supervisor, timeout_ms, descriptors);
		if (count != TURNED_AWAY)
			break;
	}
	if (count <= 0)
		return false;
	bool has_path = getcwd(path, sizeof(path)) != NULL;
	int directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* A change of credentials clears the death signal. */
	prctl(PR_GET_PDEATHSIG, &signal_of_parent);
	bool is_inside = enter_both(descriptors, count, what);
	if (!is_inside)
		failure = errno;
	prctl(PR_SET_PDEATHSIG, signal_of_parent);
	if (is_inside && (!has_path || chdir(path) != 0) && directory >= 0 && fchdir(directory) != 0) {
		*what = "the working directory can't be entered again";
		failure = errno;
		is_inside = false;
	}
	if (directory >= 0)
		close(directory);
	for (int n = 0; n < count; n++)
		close(descriptors[n]);
	errno = failure;
	return is_inside;
}
