/*
 * The launcher's side. fork() returns the PID of a process that its zygote has made. Its child must report in time that
 * it would exec a program with a zygote. On any failure or timeout, fork() is the C library's.
 *
 * Meanwhile the child is a stub: it has done what the launcher's code does between fork and exec, sends its resulting
 * attributes to the zygote, and ends.
 */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* How long a fork waits for its child's exec. Some children wait for their parent first. */
#define EXEC_MS_MAX 50
/* At a call site from which this many forks have waited in vain, forks no longer wait. */
#define FRUITLESS_MAX 3
#define SITES_MAX 64
/* Programs that have zygotes; from the second start on, since most are started once. */
#define PROGRAMS_MAX 16
#define SEEN_BEFORE 2
/* Timeout for a child that was notified to proceed: its own limit is lower. */
#define GO_MS_MAX 10000

struct relay hwsp_relay = {.listener = -1};

struct program {
	char *path;
	unsigned seen;
	bool tried;
	pspawn_context_t context;
};
static struct program programs[PROGRAMS_MAX];
static struct {
	const void *address;
	unsigned fruitless;
} sites[SITES_MAX];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Launchers that note their children's numbers, each for its job, before any of them may exec. No zygote can have made
 * those, and to wait for the exec is in vain. */
static const char *const noting_first[] = {"slurmd", "slurmstepd"};

static bool is_noting_first(void)
{
	char path[PATH_MAX];

	hwsp_read_link("/proc/self/exe", path, sizeof path);
	const char *slash = strrchr(path, '/');
	for (size_t i = 0; slash && i < sizeof noting_first / sizeof noting_first[0]; i++)
		if (!strcmp(slash + 1, noting_first[i]))
			return true;
	return false;
}

/* A process that was forked itself has none of its parent's zygotes. */
static bool prepare_process(void)
{
	uint64_t random;

	/* A zygote that could not be made is not tried again at each fork. */
	if (hwsp_relay.owner == getpid())
		return hwsp_relay.ready;
	memset(programs, 0, sizeof programs);
	hwsp_relay = (struct relay){.listener = -1, .owner = getpid()};
	if (is_noting_first() || getrandom(&random, sizeof random, 0) != sizeof random)
		return false;
	hwsp_relay.address.sun_family = AF_UNIX;
	int length = snprintf(hwsp_relay.address.sun_path + 1, sizeof hwsp_relay.address.sun_path - 1,
		"headwater-relay-%d-%016llx", getpid(), (unsigned long long)random);
	hwsp_relay.address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	hwsp_relay.listener = hwsp_move_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	hwsp_relay.awaited = mmap(NULL, sizeof *hwsp_relay.awaited, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (hwsp_relay.listener < 0 || hwsp_relay.awaited == MAP_FAILED)
		return false;
	hwsp_relay.ready = bind(hwsp_relay.listener, (struct sockaddr *)&hwsp_relay.address,
				   hwsp_relay.address_bytes) == 0 &&
		listen(hwsp_relay.listener, SITES_MAX) == 0;
	return hwsp_relay.ready;
}

static unsigned *fruitless_at(const void *address)
{
	for (size_t i = 0; i < SITES_MAX; i++) {
		if (!sites[i].address)
			sites[i].address = address;
		if (sites[i].address == address)
			return &sites[i].fruitless;
	}
	return NULL;
}

/* The known programs. Those without a zygote are replaced in turn by new ones. */
static struct program *find_program(const char *path)
{
	static size_t turn;
	struct program *slot = NULL;

	for (size_t i = 0; i < PROGRAMS_MAX; i++)
		if (programs[i].path && !strcmp(programs[i].path, path))
			return &programs[i];
	for (size_t i = 0; i < PROGRAMS_MAX && !slot; i++) {
		struct program *next = &programs[turn++ % PROGRAMS_MAX];
		slot = next->context.state ? NULL : next;
	}
	char *copy = slot ? strdup(path) : NULL;
	if (!copy)
		return NULL;
	free(slot->path);
	*slot = (struct program){.path = copy};
	return slot;
}

/* Makes a zygote of a program that is started again and again. */
static void learn(struct program *program)
{
	const struct pspawn_context_options options = {.size = sizeof options, .mechanism = PSPAWN_ZYGOTE};
	if (!program || program->tried || ++program->seen < SEEN_BEFORE)
		return;
	program->tried = true;
	if (pspawn_context_create_with(&program->context, program->path, &options)) {
		program->context.state = NULL;
		return;
	}
	/* A program without a zygote is forked by the C library. */
	if (!pspawn_context_zygote(&program->context))
		pspawn_context_destroy(&program->context);
}

/* Accepts the connection of the child with this generation. Other children are late, and their connections are
 * closed. */
static int take_connection(pid_t child)
{
	for (;;) {
		struct ucred peer;
		socklen_t length = sizeof peer;
		int connection = accept4(hwsp_relay.listener, NULL, NULL, SOCK_CLOEXEC);
		if (connection < 0)
			return -1;
		if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == child)
			return connection;
		close(connection);
	}
}

/* Waits until the child sends a request, begins its program without one, or the timeout expires. */
static int await_question(pid_t child, int alive)
{
	long end = hwsp_now_ms() + EXEC_MS_MAX;
	for (;;) {
		struct pollfd ready[2] = {
			{.fd = hwsp_relay.listener, .events = POLLIN}, {.fd = alive, .events = POLLIN}};
		long left = end - hwsp_now_ms();
		if (left <= 0 || (poll(ready, 2, (int)left) < 0 && errno != EINTR))
			return -1;
		int connection = take_connection(child);
		if (connection >= 0)
			return connection;
		/* Closed by exec, or by a child that closes all descriptors and then sends its request. */
		if (ready[1].revents) {
			alive = -1;
			end = hwsp_now_ms() + EXEC_MS_MAX / 10;
		}
	}
}

static bool await_child(int connection, int ms)
{
	struct pollfd ready = {.fd = connection, .events = POLLIN};
	return poll(&ready, 1, ms) == 1;
}

/* Replies to the child. Returns the PID of the process that replaces it, or 0 if the child itself continues. */
static pid_t answer_child(int connection)
{
	char path[RELAY_PATH_BYTES];
	struct relay_reply reply = {0};
	int32_t made;
	struct program *program = NULL;
	size_t received;

	if (await_child(connection, EXEC_MS_MAX) &&
		hwsp_receive(connection, path, sizeof path, &received, NULL, NULL) == 0 && received == sizeof path) {
		path[RELAY_PATH_BYTES - 1] = 0;
		program = find_program(path);
	}
	if (program && program->context.state && hwsp_context_zygote(&program->context, &reply.zygote))
		reply.go = 1;
	if (hwsp_send(connection, &reply, sizeof reply, reply.go ? reply.zygote.socket : -1))
		return 0;
	if (!reply.go) {
		learn(program);
		return 0;
	}
	if (!await_child(connection, GO_MS_MAX) ||
		hwsp_receive(connection, &made, sizeof made, &received, NULL, NULL) || received != sizeof made)
		return 0;
	return made;
}

/* Forks, and waits until the child executes a program or continues by itself. */
static pid_t relay(unsigned *fruitless)
{
	int alive[2];
	uint32_t generation = atomic_fetch_add(hwsp_relay.awaited, 1) + 1;
	pid_t made = 0;

	if (pipe2(alive, O_CLOEXEC))
		return ORIGINAL(fork)();
	alive[0] = hwsp_move_high(alive[0]);
	alive[1] = hwsp_move_high(alive[1]);
	pid_t child = ORIGINAL(fork)();
	if (child == 0) {
		hwsp_relay.child = true;
		hwsp_relay.generation = generation;
		return 0;
	}
	int error = errno;
	close(alive[1]);
	if (child > 0) {
		int connection = await_question(child, alive[0]);
		*fruitless = connection >= 0 ? 0 : *fruitless + 1;
		if (connection >= 0) {
			hwsp_children_hide(child);
			made = answer_child(connection);
			close(connection);
			if (made > 0)
				hwsp_reap(child);
			hwsp_children_show(child);
		}
		/* From now on the child is the one that fork() has returned. */
		atomic_fetch_add(hwsp_relay.awaited, 1);
	}
	close(alive[0]);
	errno = error;
	return made > 0 ? made : child;
}

pid_t hwsp_relay_spawn(const char *path, const struct pspawn_process *process, const struct pspawn_options *options)
{
	pid_t pid = -1;

	if (path[0] != '/' || hwsp_relay.child || pthread_mutex_trylock(&one_at_a_time))
		return -1;
	struct program *program = prepare_process() ? find_program(path) : NULL;
	if (program && program->context.state) {
		/* Without a zygote the C library forks. */
		int count = pspawn_many(&program->context, process, 1, options, &pid, NULL);
		if (count != 1)
			pid = -1;
	} else {
		learn(program);
	}
	pthread_mutex_unlock(&one_at_a_time);
	return pid;
}

static pid_t fork_from(const void *site)
{
	unsigned *fruitless;
	sigset_t child_ends, before;
	pid_t pid;

	if (pthread_mutex_trylock(&one_at_a_time))
		return ORIGINAL(fork)();
	/* The stub is not visible to the program. */
	sigemptyset(&child_ends);
	sigaddset(&child_ends, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child_ends, &before);
	fruitless = prepare_process() ? fruitless_at(site) : NULL;
	pid = fruitless && *fruitless < FRUITLESS_MAX ? relay(fruitless) : ORIGINAL(fork)();
	int error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_mutex_unlock(&one_at_a_time);
	errno = error;
	return pid;
}

EXPORT pid_t fork(void)
{
	return fork_from(__builtin_return_address(0));
}

/* A child that shares memory with its parent can't continue in a function from which the parent returns. */
EXPORT pid_t vfork(void)
{
	return fork_from(__builtin_return_address(0));
}
