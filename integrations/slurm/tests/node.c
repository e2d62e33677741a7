/* sources: node.c parse.c */
/* Node agents and supervisors with valid and invalid answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "check.h"
#include "node.h"

#define TIMEOUT_MS 200

static char socket_path[128];
static int listener;

/* What the other side sends: some bytes in pieces of this size, with descriptors of a file before the first. */
static struct {
	const char *bytes;
	size_t size, piece;
	const char *file;
	int count;
	bool hangs;
	/* Number of earlier connections that are closed without an answer. */
	int turned_away;
} script;

static void send_piece(int fd, const char *bytes, size_t size, int count)
{
	char control[CMSG_SPACE(16 * sizeof(int))] = {0};
	struct iovec data = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
	int sent[16];

	if (count > 0) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		struct cmsghdr *part = CMSG_FIRSTHDR(&message);
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		for (int n = 0; n < count; n++)
			sent[n] = open(script.file, O_RDONLY | O_CLOEXEC);
		memcpy(CMSG_DATA(part), sent, (size_t)count * sizeof(int));
	}
	CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)size || errno == EPIPE, "%m");
	for (int n = 0; n < count; n++)
		close(sent[n]);
}

static void *serve_once(void *unused)
{
	for (int n = 0; n < script.turned_away; n++)
		close(accept(listener, NULL, NULL));

	int fd = accept(listener, NULL, NULL);
	char byte;

	for (size_t at = 0; at < script.size; at += script.piece) {
		size_t left = script.size - at;

		send_piece(fd, script.bytes + at, left < script.piece ? left : script.piece,
			at == 0 ? script.count : 0);
	}
	if (!script.hangs)
		shutdown(fd, SHUT_WR);
	/* Waits until the other side closes the connection. */
	while (recv(fd, &byte, 1, 0) > 0)
		;
	close(fd);
	return unused;
}

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

static pthread_t start(const char *bytes, size_t size, size_t piece)
{
	pthread_t thread;

	script.bytes = bytes;
	script.size = size;
	script.piece = piece;
	CHECK(pthread_create(&thread, NULL, serve_once, NULL) == 0, "thread");
	return thread;
}

static void check_answer(const char *bytes, size_t size, size_t piece, size_t room, long expected)
{
	char *answer = malloc(room);
	int before = lowest_free();
	pthread_t thread = start(bytes, size, piece);
	long came = hwsl_ask_node(socket_path, answer, room, TIMEOUT_MS);

	CHECK(came == expected, "%ld bytes, not %ld", came, expected);
	CHECK(came < 0 || memcmp(answer, bytes, size) == 0, "the same bytes");
	pthread_join(thread, NULL);
	CHECK(lowest_free() == before, "a descriptor is left");
	free(answer);
}

static void check_enter(const char *line, const char *file, int count, const char *expected)
{
	char before[PATH_MAX], after[PATH_MAX];
	const char *what = "";
	int free_before = lowest_free();
	pthread_t thread;

	script.file = file;
	script.count = count;
	thread = start(line, strlen(line), strlen(line) ? strlen(line) : 1);
	CHECK(getcwd(before, sizeof(before)), "%m");
	bool is_inside = hwsl_enter_namespaces(socket_path, TIMEOUT_MS, &what);
	CHECK(is_inside == !expected, "%d descriptors of %s: %s: %m", count, file, what);
	CHECK(!expected || strstr(what, expected), "%s is not about the %s", what, expected);
	pthread_join(thread, NULL);
	CHECK(lowest_free() == free_before, "a descriptor is left");
	CHECK(getcwd(after, sizeof(after)) && strcmp(before, after) == 0, "%s", after);
	script.count = 0;
}

/* Returns false in an emulator, which has threads of its own. */
static bool can_enter_own(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setns(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), CLONE_NEWNS) != 0);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* Root may enter its own mount namespace again, from a process with one thread. */
static void check_inside(void)
{
	const char *what = "";
	pthread_t thread;

	if (!can_enter_own())
		return;
	script.file = "/proc/self/ns/mnt";
	script.count = 1;
	script.turned_away = HWSL_ENTER_ATTEMPTS_MAX - 1;
	thread = start("{}\n", 3, 3);
	pid_t pid = fork();
	if (pid == 0)
		_exit(hwsl_enter_namespaces(socket_path, TIMEOUT_MS, &what) ? 0 : 1);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status %d", status);
	pthread_join(thread, NULL);
	script.count = 0;
}

int main(void)
{
	static const char answer[] = "alone\0why";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char far[200];
	const char *what;

	make_work_directory();
	snprintf(socket_path, sizeof(socket_path), "%s/join", work_directory);
	CHECK(hwsl_ask_node(socket_path, far, sizeof(far), TIMEOUT_MS) == -1 && errno == ENOENT, "no socket");
	memset(far, 'x', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	CHECK(hwsl_ask_node(far, socket_path, 0, TIMEOUT_MS) == -1 && errno == ENAMETOOLONG, "a long path");
	strcpy(address.sun_path, socket_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 8) == 0, "%m");

	check_answer(answer, sizeof(answer), sizeof(answer), 64, sizeof(answer));
	check_answer(answer, sizeof(answer), 1, 64, sizeof(answer));
	check_answer(answer, 0, 1, 64, 0);
	check_answer(answer, sizeof(answer), 3, sizeof(answer) - 1, -1);
	script.hangs = true;
	check_answer(answer, 0, 1, 64, -1);
	check_answer(answer, 4, 4, 64, -1);
	CHECK(!hwsl_enter_namespaces(far, TIMEOUT_MS, &what) && strstr(what, "supervisor"), "%s", what);
	check_enter("", "/dev/null", 0, "supervisor");
	script.hangs = false;
	script.turned_away = HWSL_ENTER_ATTEMPTS_MAX - 1;
	check_enter("", "/dev/null", 0, "supervisor");
	check_enter("{}\n", "/dev/null", 1, "mount namespace");
	script.turned_away = 0;
	check_enter("{}\n", "/dev/null", 0, "supervisor");
	check_enter("{", "/dev/null", 2, "supervisor");
	check_enter("{\"refused\":\"nonamespace\"}\n", "/dev/null", 2, "supervisor");
	check_enter("{}\n", "/dev/null", 1, "mount namespace");
	check_enter("{}\n", "/dev/null", 2, "user namespace");
	check_enter("{}\n", "/dev/null", 16, "user namespace");
	if (geteuid() == 0)
		check_inside();
	return 0;
}
