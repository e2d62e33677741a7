/* Requests to the node's daemon, one connection each (abi/src/client.rs).
 *
 * The program's own handling of descriptors, and fork, would close, reuse and confuse a persistent connection. A
 * Unix socket on the node costs some ten microseconds, and only what the table lacks is requested. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "shim.h"
#include "sys.h"

/* How long no request is sent to a silent daemon, in seconds. */
#define QUIET_S 10

_Static_assert(sizeof(struct hw_request) == 24 && sizeof(struct hw_reply) == 12, "abi/src/client.rs");

/* Second of the monotonic clock until which no request is sent. */
static uint64_t quiet_until;

uint64_t hwa_now_s(void)
{
	struct timespec now = {0};

	hwa_sys(__NR_clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

static void pause_requests(void)
{
	__atomic_store_n(&quiet_until, hwa_now_s() + QUIET_S, __ATOMIC_RELAXED);
}

static bool send_all(long fd, const char *data, size_t bytes)
{
	while (bytes) {
		long sent = hwa_sys(__NR_sendto, fd, data, bytes, MSG_NOSIGNAL, NULL, 0);

		if (sent == -EAGAIN)
			pause_requests();
		if (sent == -EINTR)
			continue;
		if (sent <= 0)
			return false;
		data += sent;
		bytes -= (size_t)sent;
	}
	return true;
}

/* Waits for one reply. False if the daemon was silent, closed the connection, or sent something else. */
static bool receive(long fd, struct hw_reply *reply)
{
	struct timespec left = {.tv_sec = HW_SILENCE_MS_MAX / 1000, .tv_nsec = HW_SILENCE_MS_MAX % 1000 * 1000000L};
	size_t have = 0;

	while (have < sizeof(*reply)) {
		struct pollfd ready = {.fd = (int)fd, .events = POLLIN};
		/* The kernel leaves the remaining time in `left`, so signals don't prolong the wait. */
		long count = hwa_sys(__NR_ppoll, &ready, 1, &left, NULL, 0);

		if (count == -EINTR)
			continue;
		if (count == 0)
			pause_requests();
		if (count <= 0)
			return false;
		long got = hwa_sys(__NR_recvfrom, fd, (char *)reply + have, sizeof(*reply) - have, MSG_DONTWAIT, NULL,
			NULL);
		if (got == -EINTR || got == -EAGAIN)
			continue;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return reply->magic == HW_REPLY_MAGIC;
}

static bool connect_to(long fd, const char *path, size_t bytes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = HW_SILENCE_MS_MAX / 1000};
	long result;

	if (bytes >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path, path, bytes);
	/* With this limit, connect waits for a daemon with a full queue, but not for ever. */
	hwa_sys(__NR_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while ((result = hwa_sys(__NR_connect, fd, &address, sizeof(address))) == -EINTR)
		;
	if (result == -EAGAIN)
		pause_requests();
	return result == 0;
}

static enum hw_status exchange(long fd, const char *path, size_t bytes, unsigned want)
{
	struct hw_request request = {
		.magic = HW_REQUEST_MAGIC,
		.want = want,
		.generation = hwa_generation(),
		.path_bytes = (uint32_t)bytes,
	};
	struct hw_reply reply = {.status = HW_FALLBACK};

	if (!send_all(fd, (const char *)&request, sizeof(request)) || !send_all(fd, path, bytes))
		return HW_FALLBACK;
	do {
		if (!receive(fd, &reply))
			return HW_FALLBACK;
	} while (reply.status == HW_PENDING);
	return reply.status == HW_DONE ? HW_DONE : HW_FALLBACK;
}

enum hw_status hwa_request(const char *path, size_t bytes, unsigned want)
{
	enum hw_status status = HW_FALLBACK;
	size_t socket_bytes;
	const char *socket_path = hwa_socket(&socket_bytes);
	uint64_t quiet = __atomic_load_n(&quiet_until, __ATOMIC_RELAXED);

	if (!hwa_in_use() || bytes > HW_PATH_BYTES_MAX || (quiet && hwa_now_s() < quiet))
		return HW_FALLBACK;
	long fd = hwa_sys(__NR_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return HW_FALLBACK;
	hwa_count(HWA_COUNT_REQUESTS);
	if (connect_to(fd, socket_path, socket_bytes))
		status = exchange(fd, path, bytes, want);
	hwa_sys(__NR_close, fd);
	return status;
}
