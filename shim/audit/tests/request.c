/* sources: request.c table.c path.c resolve.c sys.c view.c */
/* Requests against daemons that behave, and that do not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "check.h"
#include "shim.h"

static const char path[] = "/sw/lib/libx.so";

/* What the daemon does with a request: each character is an action.
 * p, d, f: replies; m: wrong magic; s: status 7; 1: the first half of "done", 2: the second; w: waits
 * 100 ms; r: receives the request; .: hangs until the client leaves; then the connection is closed. */
static const char *script;
static int listener;
static struct hw_request seen;
static char seen_path[HWA_PATH_MAX];

static void reply(int fd, uint32_t magic, uint32_t status, size_t from, size_t to)
{
	struct hw_reply message = {.magic = magic, .status = status};

	CHECK(send(fd, (char *)&message + from, to - from, MSG_NOSIGNAL) >= 0 || *script == '.', "%m");
}

static void receive_request(int fd)
{
	CHECK(recv(fd, &seen, sizeof(seen), MSG_WAITALL) == sizeof(seen), "%m");
	CHECK(seen.path_bytes < sizeof(seen_path), "%u", seen.path_bytes);
	CHECK(recv(fd, seen_path, seen.path_bytes, MSG_WAITALL) == seen.path_bytes, "%m");
	seen_path[seen.path_bytes] = '\0';
}

static void *daemon_once(void *unused)
{
	sigset_t alarm;
	char byte;

	/* They are for the client. */
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	int fd = accept(listener, NULL, NULL);

	for (const char *action = script; *action; action++) {
		switch (*action) {
		case 'r':
			receive_request(fd);
			break;
		case 'p':
			reply(fd, HW_REPLY_MAGIC, HW_PENDING, 0, 12);
			break;
		case 'd':
			reply(fd, HW_REPLY_MAGIC, HW_DONE, 0, 12);
			break;
		case 'f':
			reply(fd, HW_REPLY_MAGIC, HW_FALLBACK, 0, 12);
			break;
		case 's':
			reply(fd, HW_REPLY_MAGIC, 7, 0, 12);
			break;
		case 'm':
			reply(fd, HW_REQUEST_MAGIC, HW_DONE, 0, 12);
			break;
		case '1':
			reply(fd, HW_REPLY_MAGIC, HW_DONE, 0, 5);
			break;
		case '2':
			reply(fd, HW_REPLY_MAGIC, HW_DONE, 5, 12);
			break;
		case 'w':
			usleep(100000);
			break;
		case '.':
			CHECK(recv(fd, &byte, 1, 0) == 0, "the client closes the connection");
			break;
		}
	}
	close(fd);
	return unused;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

static void check(const char *actions, enum hw_status expected)
{
	pthread_t thread;
	int before = lowest_free();

	script = actions;
	CHECK(pthread_create(&thread, NULL, daemon_once, NULL) == 0, "thread");
	enum hw_status status = hwa_request(path, strlen(path), HW_WANT_LOADABLE);
	pthread_join(thread, NULL);
	CHECK(status == expected, "\"%s\" gives %d", actions, status);
	CHECK(lowest_free() == before, "\"%s\" leaves a descriptor", actions);
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void start_listener(const char *socket_path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, socket_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 8) == 0, "%m");
}

int main(void)
{
	char table[128], variable[160], socket_path[128], description[512];
	char *environment[] = {variable, NULL};
	struct itimerval often = {{0, 3000}, {0, 3000}}, never = {0};

	make_work_directory();
	snprintf(table, sizeof(table), "%s/table", work_directory);
	snprintf(socket_path, sizeof(socket_path), "%s/sock", work_directory);
	snprintf(variable, sizeof(variable), "HEADWATER_TABLE=%s", table);
	snprintf(description, sizeof(description), "store /store\nsocket %s\ngeneration 77\nscope + /sw\n",
		socket_path);
	make_table(table, description);
	hwa_attach(environment);
	CHECK(hwa_attached(), "%s", table);

	CHECK(hwa_request(path, strlen(path), HW_WANT_ATTR) == HW_FALLBACK, "no socket at all");
	start_listener(socket_path);
	check("rd", HW_DONE);
	CHECK(seen.magic == HW_REQUEST_MAGIC && seen.want == HW_WANT_LOADABLE && seen.generation == 77, "the header");
	CHECK(strcmp(seen_path, path) == 0, "%s", seen_path);
	check("rf", HW_FALLBACK);
	check("rppwpd", HW_DONE);
	check("r1w2", HW_DONE);
	check("r1w", HW_FALLBACK);
	check("r", HW_FALLBACK);
	check("", HW_FALLBACK);
	check("rs", HW_FALLBACK);
	check("rm", HW_FALLBACK);

	struct sigaction counted = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &counted, NULL);
	/* qemu begins an interrupted poll again, with all of its time. */
	if (!getenv("HEADWATER_TEST_EMULATED"))
		setitimer(ITIMER_REAL, &often, NULL);
	check("rwpwpw1w2", HW_DONE);
	double start = seconds();
	check("rp.", HW_FALLBACK);
	double waited = seconds() - start;
	CHECK(waited > HW_SILENCE_MS_MAX / 1000.0 - 0.5, "%f s are too few in spite of signals", waited);
	CHECK(waited < HW_SILENCE_MS_MAX / 1000.0 + 20, "%f s are too many", waited);
	setitimer(ITIMER_REAL, &never, NULL);

	/* A silent daemon gets no further requests: this one would not be accepted. */
	start = seconds();
	CHECK(hwa_request(path, strlen(path), HW_WANT_ATTR) == HW_FALLBACK, "left alone");
	CHECK(seconds() - start < HW_SILENCE_MS_MAX / 1000.0 - 1, "without waiting");
	return 0;
}
