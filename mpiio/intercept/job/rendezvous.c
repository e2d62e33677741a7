/* The node's first rank listens at a socket name that all ranks of the job compute. The others connect before they
 * enter MPI_Init, in which MPIs wait for all ranks. So when it returns, all ranks with the library have connected, and
 * the first sends them whether these are all. With an MPI that doesn't wait, the library stays inactive if ranks are
 * late. The name is in Linux's abstract name space: it vanishes with the processes. */
#include "intercept/job/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/engine.h"
#include "base/waits.h"
#include "intercept/job/report.h"
#include "real.h"

/* The first rank's listening socket, and another rank's connection to the first. */
static int listener = -1, to_first = -1;

/* Returns a digest of the launcher's name for this job, which differs for jobs on one node; 0 if there is none. */
static uint64_t job_digest(void)
{
	/* Jobs in containers may share a name; each has its own server address. */
	static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PMIX_SERVER_URI3",
		"PMIX_SERVER_URI4", "PMIX_SERVER_URI41", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PALS_APID",
		"PMI_PORT"};
	uint64_t hash = HWIO_HASH_START;
	bool is_any = false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);
		if (value)
			hash = hwio_hash(hash, value, strlen(value) + 1);
		is_any = is_any || value;
	}
	/* Hydra has no name for a job. Its proxy, which made the rank's socket, serves only this job. */
	const char *descriptor = getenv("PMI_FD");
	struct ucred proxy;
	socklen_t bytes = sizeof(proxy);
	if (descriptor && getsockopt(atoi(descriptor), SOL_SOCKET, SO_PEERCRED, &proxy, &bytes) == 0) {
		hash = hwio_hash(hash, &proxy.pid, sizeof(proxy.pid));
		is_any = true;
	}
	return is_any ? hash : 0;
}

static bool is_of_same_user(int connection)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

static void close_descriptor(int *descriptor)
{
	if (*descriptor >= 0)
		hwio_libc.close(*descriptor);
	*descriptor = -1;
}

void hwio_rendezvous_begin(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t job = job_digest();
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "headwater-io-1/%u/%016llx",
		(unsigned int)geteuid(), (unsigned long long)job);
	socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	const struct sockaddr *name = (const struct sockaddr *)&address;

	for (int tries = 0; job != 0 && listener < 0 && to_first < 0 && tries < HWIO_RENDEZVOUS_TRIES_MAX; tries++) {
		/* Non-blocking: if the queue of connections is full, this job is left alone. */
		int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (descriptor < 0)
			return;
		if (bind(descriptor, name, bytes) == 0) {
			listener = descriptor;
			if (listen(listener, SOMAXCONN) != 0)
				close_descriptor(&listener);
			return;
		}
		if (errno == EADDRINUSE && connect(descriptor, name, bytes) == 0) {
			to_first = descriptor;
			return;
		}
		bool is_between = errno == ECONNREFUSED;
		hwio_libc.close(descriptor);
		if (!is_between)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static bool is_ready(int descriptor, double seconds)
{
	struct pollfd event = {.fd = descriptor, .events = POLLIN};
	double end = hwio_seconds() + seconds;
	int ready;
	do {
		double left = end - hwio_seconds();
		ready = poll(&event, 1, seconds < 0 ? -1 : left > 0 ? (int)(left * 1e3) + 1 : 0);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

/* Accepts the connected ranks, and sends them whether they are all. */
static bool answer_peers(int ranks)
{
	int *others = malloc(sizeof(*others) * (size_t)ranks);
	int count = 0;
	double end = hwio_seconds() + HWIO_WAIT_RENDEZVOUS_S;
	while (others && count < ranks - 1) {
		double left = end - hwio_seconds();
		if (!is_ready(listener, left > 0 ? left : 0))
			break;
		int other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (other < 0)
			break;
		if (is_of_same_user(other))
			others[count++] = other;
		else
			hwio_libc.close(other);
	}
	unsigned char is_all = others && count == ranks - 1;
	for (int i = 0; i < count; i++) {
		hwio_libc.send(others[i], &is_all, 1, MSG_NOSIGNAL);
		hwio_libc.close(others[i]);
	}
	free(others);
	if (!is_all && ranks > 1)
		hwio_report_reason("%s: the job's I/O is left as it is",
			"some ranks don't have this library, or have it switched off");
	return is_all;
}

static bool await_answer(void)
{
	unsigned char is_all = 0;
	/* The first rank answers in its MPI_Init; if it dies, the connection ends. */
	return is_of_same_user(to_first) && is_ready(to_first, -1) && hwio_libc.recv(to_first, &is_all, 1, 0) == 1 &&
		is_all;
}

bool hwio_rendezvous_end(int ranks)
{
	bool is_all = false;
	if (listener >= 0 && ranks > 0)
		is_all = answer_peers(ranks);
	else if (to_first >= 0 && ranks > 0)
		is_all = await_answer();
	close_descriptor(&listener);
	close_descriptor(&to_first);
	return is_all;
}
