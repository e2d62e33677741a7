/* sources: carrier.c fabric.c wire.c */
/* Two carriers over the tcp provider; this process acts as their daemons, and as an unauthenticated peer. */
#define _GNU_SOURCE
#include "carrier.h"
#include "check.h"
#include "fabric.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* The exit status of a skipped test. */
#define SKIPPED 77
#define WAIT_MS_MAX 10000
/* Links at once; one beyond them is refused. */
#define STREAMS 4

struct end {
	pid_t pid;
	int control;
	unsigned char name[HWFAB_NAME_BYTES_MAX];
	size_t name_bytes;
};

static ssize_t hear(int fd, void *bytes, size_t size)
{
	struct pollfd ready = {fd, POLLIN, 0};

	CHECK(poll(&ready, 1, WAIT_MS_MAX) == 1, "nothing comes");
	return recv(fd, bytes, size, MSG_DONTWAIT);
}

static struct end start(const char *provider)
{
	struct end end = {0};
	int pair[2];
	unsigned char report[2 + 255 + HWFAB_NAME_BYTES_MAX];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "%m");
	end.pid = fork();
	if (end.pid == 0) {
		close(pair[0]);
		_exit(hwfab_carry(pair[1], provider) ? 0 : 1);
	}
	close(pair[1]);
	end.control = pair[0];
	ssize_t size = hear(end.control, report, sizeof(report));

	CHECK(size > 1, "%zd", size);
	if (report[0] == 'E') {
		printf("skipped: %.*s\n", (int)size - 1, (char *)report + 1);
		exit(SKIPPED);
	}
	end.name_bytes = (size_t)size - 2 - report[1];
	CHECK(report[0] == 'N' && end.name_bytes > 8 && end.name_bytes <= HWFAB_NAME_BYTES_MAX, "%zu", end.name_bytes);
	memcpy(end.name, report + 2 + report[1], end.name_bytes);
	return end;
}

/* Closes the socket, which ends the carrier. */
static void stop(struct end *end)
{
	int status = -1;

	close(end->control);
	CHECK(waitpid(end->pid, &status, 0) == end->pid && status == 0, "status %x", status);
}

static void order_fd(const struct end *end, const void *bytes, size_t size, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec from = {(void *)bytes, size};
	struct msghdr message = {
		.msg_iov = &from, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	CHECK(sendmsg(end->control, &message, 0) == (ssize_t)size, "%m");
}

/* Opens a stream to the other carrier, with one end in this process. */
static int carry_stream(const struct end *end, const struct end *other, uint64_t own, uint64_t peer)
{
	unsigned char order[HWFAB_ORDER_BYTES_MAX] = {'L'};
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0, "%m");
	memcpy(order + 1, &own, 8);
	memcpy(order + 9, &peer, 8);
	memcpy(order + 17, other->name, other->name_bytes);
	order_fd(end, order, 17 + other->name_bytes, pair[1]);
	close(pair[1]);
	return pair[0];
}

static bool ends(int fd)
{
	char byte;

	return hear(fd, &byte, 1) <= 0;
}

static unsigned char byte_at(int stream, size_t position)
{
	return (unsigned char)(position * 2654435761U >> 13) ^ (unsigned char)stream;
}

struct direction {
	int from, to;
	size_t sent, received, total;
};

/* Moves some bytes in one direction, in pieces of random size. */
static void move_some(struct direction *direction, int number, bool reads)
{
	static unsigned char bytes[100000];
	size_t size = 1 + (size_t)random() % sizeof(bytes);

	if (size > direction->total - direction->sent)
		size = direction->total - direction->sent;
	for (size_t at = 0; at < size; at++)
		bytes[at] = byte_at(number, direction->sent + at);
	ssize_t done = size ? send(direction->from, bytes, size, MSG_NOSIGNAL) : 0;

	CHECK(done >= 0 || errno == EAGAIN, "direction %d: %m", number);
	direction->sent += done > 0 ? (size_t)done : 0;
	if (!reads)
		return;
	done = recv(direction->to, bytes, sizeof(bytes), 0);
	CHECK(done > 0 || (done < 0 && errno == EAGAIN), "direction %d has ended", number);
	for (ssize_t at = 0; at < done; at++)
		CHECK(bytes[at] == byte_at(number, direction->received + (size_t)at), "direction %d at %zu", number,
			direction->received);
	direction->received += done > 0 ? (size_t)done : 0;
}

/* The carrier that was ordered last sends first: the other one's first bytes would find no link. */
static void greet(int from, int to)
{
	char byte;

	CHECK(send(from, "!", 1, MSG_NOSIGNAL) == 1 && hear(to, &byte, 1) == 1, "%m");
}

/* Both directions of all streams at once, with readers that pause. */
static void streams_are_whole(const struct end *one, const struct end *other)
{
	struct direction directions[2 * STREAMS];
	bool is_done = false;

	for (uint64_t number = 0; number < STREAMS; number++) {
		int there = carry_stream(other, one, 100 + number, number),
		    here = carry_stream(one, other, number, 100 + number);

		greet(here, there);
		directions[2 * number] = (struct direction){.from = here, .to = there, .total = 3000000};
		directions[2 * number + 1] = (struct direction){
			.from = there, .to = here, .total = 1000 + number * 700000};
	}
	for (long turn = 0; !is_done; turn++) {
		is_done = true;
		for (int number = 0; number < 2 * STREAMS; number++) {
			move_some(&directions[number], number, (turn / 50 + number) % 3 != 0);
			is_done = is_done && directions[number].received == directions[number].total;
		}
	}
	for (int number = 0; number < STREAMS; number++) {
		close(directions[2 * number].from);
		CHECK(ends(directions[2 * number].to), "the other end stays open");
		close(directions[2 * number].to);
	}
}

/* The reader takes nothing: little is taken from the writer, and all of it arrives later. */
static void a_slow_reader_costs_little(const struct end *one, const struct end *other)
{
	int there = carry_stream(other, one, 11, 10), here = carry_stream(one, other, 10, 11);
	static unsigned char bytes[65536];
	size_t sent = 0, received = 0, bound = (2 * HWFAB_WINDOW_MAX + 2) * sizeof(bytes) + 4 * 425984;
	struct pollfd room = {here, POLLOUT, 0};

	while (poll(&room, 1, 300) == 1) {
		ssize_t done = send(here, bytes, sizeof(bytes), MSG_NOSIGNAL);

		CHECK(done > 0 || errno == EAGAIN, "%m");
		sent += done > 0 ? (size_t)done : 0;
		CHECK(sent < bound, "%zu bytes are buffered for a reader that takes none", sent);
	}
	while (received < sent) {
		ssize_t done = hear(there, bytes, sizeof(bytes));

		CHECK(done > 0, "%m");
		received += (size_t)done;
	}
	close(there);
	CHECK(ends(here), "the other end stays open");
	close(here);
}

static void wrong_orders_end_their_streams(const struct end *one, const struct end *other)
{
	struct end wrong = *other;
	int pair[2], first, second;

	wrong.name_bytes--;
	CHECK(ends(carry_stream(one, &wrong, 1, 2)), "a short name");
	wrong.name_bytes++;
	wrong.name[0] ^= 1;
	CHECK(ends(carry_stream(one, &wrong, 1, 2)), "another protocol");
	for (size_t size = 0; size < 40; size++) {
		unsigned char bytes[64] = {size % 2 ? 'L' : 'x'};

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "%m");
		order_fd(one, bytes, size + 1, pair[1]);
		close(pair[1]);
		CHECK(ends(pair[0]), "%zu bytes", size);
		close(pair[0]);
	}
	first = carry_stream(one, other, 5, 6);
	second = carry_stream(one, other, 5, 7);
	CHECK(ends(second), "a number that is in use");
	close(first);
	close(second);
}

static void post_all(struct hwfab_fabric *fabric, struct hwfab_slot *slots, size_t count)
{
	for (size_t number = 0; number < count; number++)
		CHECK(hwfab_receive(fabric, &slots[number]) == 0, "receive");
}

/* A third endpoint, which knows the carrier's name and nothing else, or at last the number of a link. */
static void unauthenticated_peers_do_no_harm(const struct end *one, const struct end *other)
{
	static struct hwfab_fabric fabric;
	static struct hwfab_slot slots[4];
	char why[HWFAB_WHY_BYTES_MAX];
	fi_addr_t address;
	int there = carry_stream(other, one, 0x7700000000000021, 0x7700000000000020);
	int here = carry_stream(one, other, 0x7700000000000020, 0x7700000000000021);

	CHECK(hwfab_open(&fabric, "tcp", why, sizeof(why)), "%s", why);
	CHECK(hwfab_prepare(&fabric, slots, 4), "memory");
	post_all(&fabric, slots + 1, 3);
	CHECK(hwfab_find(&fabric, one->name, one->name_bytes, &address), "the carrier's address");
	for (int turn = 0; turn < 3000; turn++) {
		struct hwfab_completion completion = {0};
		struct hwfab_header header = {HWFAB_KIND_DATA, (uint64_t)random(), 1, 0};
		ssize_t result;
		int count = 0;

		slots[0].size = (size_t)random() % (turn % 10 ? 200 : HWFAB_SLOT_BYTES);
		for (size_t at = 0; at < slots[0].size; at++)
			slots[0].bytes[at] = (unsigned char)random();
		if (slots[0].size >= HWFAB_HEADER_BYTES && turn % 2)
			hwfab_put_header(slots[0].bytes, &header);
		while ((result = hwfab_send(&fabric, &slots[0], address)) == -FI_EAGAIN)
			hwfab_poll(&fabric, &completion, 1);
		CHECK(result == 0, "%zd", result);
		while (count == 0 || completion.slot != &slots[0])
			count = hwfab_poll(&fabric, &completion, 1);
		CHECK(count == 1, "%d", count);
	}
	struct direction direction = {.from = here, .to = there, .total = 1000000};

	while (direction.received < direction.total)
		move_some(&direction, 9, true);
	/* A count of messages that were never sent ends the link at both ends. */
	hwfab_put_header(slots[0].bytes, &(struct hwfab_header){HWFAB_KIND_CREDIT, 0x7700000000000020, 0, 12345});
	slots[0].size = HWFAB_HEADER_BYTES;
	while (hwfab_send(&fabric, &slots[0], address) == -FI_EAGAIN)
		;
	CHECK(ends(here) && ends(there), "a link that was lied about");
	close(here);
	close(there);
}

static void a_dead_peer_ends_streams(struct end *one, struct end *other)
{
	int there = carry_stream(other, one, 31, 30), here = carry_stream(one, other, 30, 31);
	struct direction direction = {.from = here, .to = there, .total = 100000};
	struct timespec pause = {0, 1000000};
	int turns = 0;

	while (direction.received < direction.total)
		move_some(&direction, 1, true);
	CHECK(kill(other->pid, SIGKILL) == 0 && waitpid(other->pid, NULL, 0) == other->pid, "%m");
	CHECK(ends(there), "its own daemon sees it at once");
	/* A sender in between, as daemons are, detects it. */
	do {
		CHECK(turns++ < WAIT_MS_MAX, "a missing peer is not reported");
		nanosleep(&pause, NULL);
	} while (send(here, "alive", 5, MSG_NOSIGNAL) > 0 || errno == EAGAIN);
	close(here);
	close(there);
	close(other->control);
}

int main(void)
{
	struct end none, one = start("tcp"), other = start("tcp");
	unsigned char report[HWFAB_WHY_BYTES_MAX + 1];
	int pair[2];

	streams_are_whole(&one, &other);
	a_slow_reader_costs_little(&one, &other);
	wrong_orders_end_their_streams(&one, &other);
	unauthenticated_peers_do_no_harm(&one, &other);
	streams_are_whole(&one, &other);
	a_dead_peer_ends_streams(&one, &other);
	stop(&one);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "%m");
	none.control = pair[0];
	CHECK(!hwfab_carry(pair[1], "nosuchprovider"), "there is no such provider");
	CHECK(hear(none.control, report, sizeof(report)) > 1 && report[0] == 'E', "the reason is reported");
	return 0;
}
