/* A child between fork and exec: it requests the zygote from its parent, sends its attributes, and ends. */
#include "relay.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

/* How long an answer may take, of the parent and of the zygote. */
#define ANSWER_S_MAX 2

static int connect_to_parent(void)
{
	struct timeval limit = {.tv_sec = ANSWER_S_MAX};
	int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (connection < 0)
		return -1;
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (connect(connection, (struct sockaddr *)&hwsp_relay.address, hwsp_relay.address_bytes)) {
		close(connection);
		return -1;
	}
	return connection;
}

/* The group and session that the child may have made of itself, as options of the process. */
static bool adopt_groups(struct hwsp_inherited *inherited, struct pspawn_options *options)
{
	pid_t self = getpid(), parent = getppid();
	int signal = 0;

	/* Tied to a parent, which the new process has too, but not by its own doing. */
	if (prctl(PR_GET_PDEATHSIG, &signal) || signal)
		return false;
	if (inherited->session == self) {
		/* A terminal that it has taken since can't be passed on. */
		if (tcgetsid(0) == self)
			return false;
		options->flags |= PSPAWN_SETSID;
		inherited->session = getsid(parent);
		inherited->group = getpgid(parent);
	} else if (inherited->group == self) {
		options->flags |= PSPAWN_SETPGROUP;
		inherited->group = getpgid(parent);
	}
	return true;
}

/* Has the zygote make the process. Its number, or 0. */
static pid_t spawn_by_zygote(struct hwsp_zygote *zygote, char *const argv[], char *const envp[])
{
	struct pspawn_process process = {.argv = argv, .envp = envp};
	struct pspawn_options options = {.size = sizeof options};
	struct hwsp_inherited inherited;
	struct hwsp_pending_request pending;
	int error;

	if (hwsp_inherit(&inherited, zygote->boundary) || !adopt_groups(&inherited, &options) ||
		hwsp_key(envp, NULL, &inherited) != zygote->key ||
		(zygote->cores && (unsigned)CPU_COUNT(&inherited.affinity) != zygote->cores))
		return 0;
	zygote->answer_ms_max = ANSWER_S_MAX * 1000;
	if (hwsp_zygote_send_request(zygote, &inherited, NULL, &process, 1, &options, false, &pending))
		return 0;
	hwsp_zygote_receive_reply(&pending, &error);
	struct hwsp_result result = pending.results[0];
	hwsp_pending_request_free(&pending);
	return result.error || result.pid <= 0 ? 0 : result.pid;
}

static bool absolute(const char *path, char out[RELAY_PATH_BYTES])
{
	char directory[PATH_MAX] = "";
	if (path[0] != '/' && !getcwd(directory, sizeof directory))
		return false;
	int length = snprintf(out, RELAY_PATH_BYTES, "%s%s%s", directory, path[0] == '/' ? "" : "/", path);
	return length > 0 && length < RELAY_PATH_BYTES;
}

void hwsp_relay_exec(const char *path, char *const argv[], char *const envp[])
{
	char whole[RELAY_PATH_BYTES] = "";
	struct relay_reply reply;
	int error = errno, zygote_socket = -1;
	uint32_t fds = 1;
	size_t received;

	/* Once: a program that could not be begun may be followed by another. */
	if (!hwsp_relay.child || !argv || !argv[0] || atomic_load(hwsp_relay.awaited) != hwsp_relay.generation)
		return;
	hwsp_relay.child = false;
	if (access(path, X_OK) || !absolute(path, whole)) {
		errno = error;
		return;
	}
	int connection = connect_to_parent();
	if (connection < 0)
		return;
	if (hwsp_send(connection, whole, sizeof whole, -1) == 0 &&
		hwsp_receive(connection, &reply, sizeof reply, &received, &zygote_socket, &fds) == 0 &&
		received == sizeof reply && reply.go && fds == 1) {
		reply.zygote.socket = zygote_socket;
		int32_t made = spawn_by_zygote(&reply.zygote, argv, envp ? envp : environ);
		close(zygote_socket);
		hwsp_send(connection, &made, sizeof made, -1);
		if (made > 0)
			_exit(0);
	}
	close(connection);
	errno = error;
}
