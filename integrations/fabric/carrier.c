/* The carrier's one thread; see carrier.h.
 *
 * Memory is bounded. A link has slots for HWFAB_WINDOW_MAX messages each way, and its peer sends no more than that
 * ahead of what the stream's reader has taken. So every message that a peer may send finds a posted slot. So do
 * messages that only return credit, which are consumed at once. */
#define _GNU_SOURCE
#include "carrier.h"
#include "fabric.h"
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Send slots that data leaves free: for a credit and for the end. */
#define SLOTS_RESERVED 2
#define SLOTS_SENDING (HWFAB_WINDOW_MAX + SLOTS_RESERVED)
/* Receive slots beyond those of links, for credits and for unauthenticated peers. */
#define SLOTS_SPARE 32
#define COMPLETIONS_MAX 64
#define EVENTS_MAX 64
/* Timeout until the network accepts a message: of a lost peer some providers report nothing. */
#define UNSENT_MS_MAX 2000
/* Sleep times, for a provider that signals events and for one that must be polled. */
#define IDLE_MS 100
#define POLL_MS 1
/* Polls in a row without a sleep, where the provider must be polled. */
#define POLLS_MAX 200

/* Events of epoll beyond those of links. */
enum { EVENT_CONTROL = HWFAB_LINKS_MAX, EVENT_NETWORK };

struct list {
	struct hwfab_slot *first, *last;
};

struct link {
	bool is_used, is_prepared;
	bool is_readable, is_writable; /* the stream, as far as is known */
	bool is_hung_up;               /* the daemon has closed it */
	bool is_leaving;               /* the stream is closed here */
	int fd;
	unsigned in_flight;
	long unsent_since_ms; /* the first of those that wait */
	uint64_t own, peer;
	fi_addr_t address;
	struct hwfab_flow flow;
	struct list unsent, unused;
	unsigned unused_count;
	struct hwfab_slot *arrived[HWFAB_WINDOW_MAX]; /* by place */
	struct hwfab_slot slots[HWFAB_WINDOW_MAX + SLOTS_SENDING];
};

struct carrier {
	int control, events;
	bool is_over, has_orders;
	struct hwfab_fabric fabric;
	struct list unposted;
	struct hwfab_slot spare[SLOTS_SPARE];
	struct link links[HWFAB_LINKS_MAX];
};

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

static void append(struct list *list, struct hwfab_slot *slot)
{
	slot->next = NULL;
	if (list->first)
		list->last->next = slot;
	else
		list->first = slot;
	list->last = slot;
}

static struct hwfab_slot *take_first(struct list *list)
{
	struct hwfab_slot *slot = list->first;

	if (slot)
		list->first = slot->next;
	return slot;
}

static void post(struct carrier *carrier, struct hwfab_slot *slot)
{
	slot->link = NULL;
	if (carrier->unposted.first || hwfab_receive(&carrier->fabric, slot) != 0)
		append(&carrier->unposted, slot);
}

static void post_again(struct carrier *carrier)
{
	while (carrier->unposted.first && hwfab_receive(&carrier->fabric, carrier->unposted.first) == 0)
		take_first(&carrier->unposted);
}

static void release_slot(struct link *link, struct hwfab_slot *slot)
{
	append(&link->unused, slot);
	link->unused_count++;
}

/* Ends the stream, and drops received data that was not taken. */
static void close_stream(struct carrier *carrier, struct link *link)
{
	if (link->is_leaving)
		return;
	close(link->fd);
	link->is_leaving = true;
	for (unsigned place = 0; place < HWFAB_WINDOW_MAX; place++)
		if (link->flow.here & 1U << place)
			post(carrier, link->arrived[place]);
}

/* The same without a message to the peer, and without pending data. */
static void lose(struct carrier *carrier, struct link *link)
{
	struct hwfab_slot *slot;

	close_stream(carrier, link);
	while ((slot = take_first(&link->unsent)))
		release_slot(link, slot);
}

/* Passes pending messages to the network. Returns whether it took one. */
static bool submit(struct carrier *carrier, struct link *link)
{
	bool did = false;

	while (link->unsent.first) {
		ssize_t result = hwfab_send(&carrier->fabric, link->unsent.first, link->address);

		if (result == -FI_EAGAIN)
			return did;
		if (result != 0) {
			lose(carrier, link);
			return true;
		}
		take_first(&link->unsent);
		link->unsent_since_ms = now_ms();
		link->in_flight++;
		did = true;
	}
	return did;
}

/* Sends a message, whose bytes beyond the header are in the slot. */
static void send_slot(struct carrier *carrier, struct link *link, struct hwfab_slot *slot, enum hwfab_kind kind,
	size_t bytes)
{
	struct hwfab_header header = {
		.kind = kind, .link = link->peer, .sequence = link->flow.sent + 1, .taken = link->flow.taken};

	hwfab_put_header(slot->bytes, &header);
	slot->size = HWFAB_HEADER_BYTES + bytes;
	slot->link = link;
	link->flow.reported = link->flow.taken;
	if (kind == HWFAB_KIND_DATA)
		link->flow.sent++;
	if (!link->unsent.first)
		link->unsent_since_ms = now_ms();
	append(&link->unsent, slot);
	submit(carrier, link);
}

static struct hwfab_slot *unused_slot(struct link *link)
{
	link->unused_count--;
	return take_first(&link->unused);
}

/* Moves data from stream to network. Returns whether any moved. */
static bool take_from_stream(struct carrier *carrier, struct link *link)
{
	bool did = false;

	while (!link->is_leaving && link->is_readable && hwfab_has_room(&link->flow) && !link->unsent.first &&
		link->unused_count > SLOTS_RESERVED) {
		struct hwfab_slot *slot = link->unused.first;
		ssize_t bytes = recv(link->fd, slot->bytes + HWFAB_HEADER_BYTES, HWFAB_SLOT_BYTES - HWFAB_HEADER_BYTES,
			MSG_DONTWAIT);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0 && errno == EAGAIN) {
			link->is_readable = false;
			break;
		}
		if (bytes <= 0) {
			link->is_hung_up = true;
			break;
		}
		send_slot(carrier, link, unused_slot(link), HWFAB_KIND_DATA, (size_t)bytes);
		did = true;
	}
	return did;
}

/* Moves data from network to stream. Returns whether any moved. */
static bool give_to_stream(struct carrier *carrier, struct link *link)
{
	bool did = false;

	while (hwfab_has_next(&link->flow) && link->is_writable) {
		struct hwfab_slot *slot = link->arrived[hwfab_flow_place(link->flow.taken + 1)];
		ssize_t bytes = send(link->fd, slot->bytes + slot->offset, slot->size - slot->offset,
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0 && errno == EAGAIN) {
			link->is_writable = false;
			break;
		}
		if (bytes < 0) {
			link->is_hung_up = true;
			break;
		}
		did = true;
		slot->offset += (size_t)bytes;
		if (slot->offset == slot->size) {
			hwfab_take_next(&link->flow);
			post(carrier, slot);
		}
	}
	return did;
}

static void leave(struct carrier *carrier, struct link *link)
{
	bool is_told = link->flow.has_end || link->unused_count == 0;

	close_stream(carrier, link);
	if (!is_told)
		send_slot(carrier, link, unused_slot(link), HWFAB_KIND_END, 0);
}

/* Moves a link's data. Returns whether any moved. */
static bool serve(struct carrier *carrier, struct link *link)
{
	bool did = submit(carrier, link);

	if (!link->is_leaving) {
		did |= give_to_stream(carrier, link);
		did |= take_from_stream(carrier, link);
		if (link->flow.taken - link->flow.reported >= HWFAB_WINDOW_MAX / 2 && link->unused_count > 1)
			send_slot(carrier, link, unused_slot(link), HWFAB_KIND_CREDIT, 0);
		if (link->is_hung_up || hwfab_is_at_end(&link->flow))
			leave(carrier, link);
	}
	if (link->unsent.first && now_ms() - link->unsent_since_ms >= UNSENT_MS_MAX)
		lose(carrier, link);
	if (link->is_leaving && !link->unsent.first && link->in_flight == 0)
		link->is_used = false;
	return did;
}

static struct link *find_link(struct carrier *carrier, uint64_t own)
{
	for (struct link *link = carrier->links; link < carrier->links + HWFAB_LINKS_MAX; link++)
		if (link->is_used && link->own == own)
			return link;
	return NULL;
}

/* Handles a received message. Posts its slot again at once, unless the slot holds data. */
static void take_message(struct carrier *carrier, struct hwfab_slot *slot, size_t size)
{
	struct hwfab_header header;
	bool is_header = size <= HWFAB_SLOT_BYTES && hwfab_parse_header(slot->bytes, size, &header);
	struct link *link = is_header ? find_link(carrier, header.link) : NULL;

	if (!link || link->is_leaving) {
		post(carrier, slot);
		return;
	}
	if (!hwfab_note_header(&link->flow, &header)) {
		post(carrier, slot);
		leave(carrier, link);
		return;
	}
	if (header.kind == HWFAB_KIND_DATA) {
		slot->size = size;
		slot->offset = HWFAB_HEADER_BYTES;
		link->arrived[hwfab_flow_place(header.sequence)] = slot;
		return;
	}
	post(carrier, slot);
}

static void take_completion(struct carrier *carrier, const struct hwfab_completion *completion)
{
	struct link *link = completion->slot->link;

	if (!link) {
		take_message(carrier, completion->slot, completion->is_failed ? 0 : completion->size);
		return;
	}
	link->in_flight--;
	release_slot(link, completion->slot);
	if (completion->is_failed)
		lose(carrier, link);
}

/* Allocates a link's slots once: later links reuse them. */
static bool prepare(struct carrier *carrier, struct link *link)
{
	size_t count = sizeof(link->slots) / sizeof(link->slots[0]);

	if (link->is_prepared)
		return true;
	if (!hwfab_prepare(&carrier->fabric, link->slots, count))
		return false;
	for (size_t number = 0; number < count; number++) {
		if (number < HWFAB_WINDOW_MAX)
			post(carrier, &link->slots[number]);
		else
			release_slot(link, &link->slots[number]);
	}
	link->is_prepared = true;
	return true;
}

static bool begin(struct carrier *carrier, const struct hwfab_order *order, int fd)
{
	struct link *link = carrier->links;
	fi_addr_t address;

	while (link < carrier->links + HWFAB_LINKS_MAX && link->is_used)
		link++;
	if (link == carrier->links + HWFAB_LINKS_MAX || find_link(carrier, order->own))
		return false;
	if (!hwfab_find(&carrier->fabric, order->name, order->name_bytes, &address) || !prepare(carrier, link))
		return false;
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};

	event.data.u32 = (uint32_t)(link - carrier->links);
	if (epoll_ctl(carrier->events, EPOLL_CTL_ADD, fd, &event) != 0)
		return false;
	link->is_used = link->is_readable = link->is_writable = true;
	link->is_hung_up = link->is_leaving = false;
	link->fd = fd;
	link->own = order->own;
	link->peer = order->peer;
	link->address = address;
	link->flow = (struct hwfab_flow){0};
	return true;
}

static int received_fd(struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(control), sizeof(fd));
	return fd;
}

/* Reads all pending orders. On an invalid order, its stream is closed. */
static void take_orders(struct carrier *carrier)
{
	for (;;) {
		unsigned char bytes[HWFAB_ORDER_BYTES_MAX + 1];
		union {
			struct cmsghdr header;
			char room[CMSG_SPACE(sizeof(int))];
		} control;
		struct iovec into = {bytes, sizeof(bytes)};
		struct msghdr message = {
			.msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
		struct hwfab_order order;
		ssize_t size = recvmsg(carrier->control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (size < 0 && errno == EINTR)
			continue;
		if (size <= 0) {
			carrier->is_over = size == 0 || errno != EAGAIN;
			return;
		}
		int fd = received_fd(&message);

		if (fd >= 0 && !(hwfab_parse_order(bytes, (size_t)size, &order) && begin(carrier, &order, fd)))
			close(fd);
	}
}

/* Returns the sleep time after so many idle rounds. */
static int rest_ms(struct carrier *carrier, unsigned idle)
{
	if (idle == 0)
		return 0;
	if (carrier->fabric.wait_fd < 0)
		return idle < POLLS_MAX ? 0 : POLL_MS;
	for (struct link *link = carrier->links; link < carrier->links + HWFAB_LINKS_MAX; link++)
		if (link->is_used && (link->unsent.first || link->is_leaving))
			return POLL_MS;
	if (carrier->unposted.first)
		return POLL_MS;
	return hwfab_may_wait(&carrier->fabric) ? IDLE_MS : 0;
}

static void wait_events(struct carrier *carrier, int timeout_ms)
{
	struct epoll_event ready[EVENTS_MAX];
	int count = epoll_wait(carrier->events, ready, EVENTS_MAX, timeout_ms);

	for (int number = 0; number < count; number++) {
		uint32_t what = ready[number].data.u32, events = ready[number].events;

		if (what == EVENT_CONTROL)
			carrier->has_orders = true;
		if (what >= HWFAB_LINKS_MAX)
			continue;
		struct link *link = &carrier->links[what];

		link->is_readable |= (events & EPOLLIN) != 0;
		link->is_writable |= (events & EPOLLOUT) != 0;
		/* Unread data is lost with it, as on a broken connection. */
		link->is_hung_up |= (events & (EPOLLHUP | EPOLLERR)) != 0;
	}
}

static bool watch(struct carrier *carrier, int fd, uint32_t what)
{
	struct epoll_event event = {.events = EPOLLIN};

	event.data.u32 = what;
	return fd < 0 || epoll_ctl(carrier->events, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool serve_all(struct carrier *carrier)
{
	unsigned idle = 0;

	while (!carrier->is_over) {
		struct hwfab_completion completions[COMPLETIONS_MAX];
		int count = hwfab_poll(&carrier->fabric, completions, COMPLETIONS_MAX);
		bool did = count > 0;

		if (count < 0)
			return false;
		/* A peer learns of a link after this carrier was ordered to make it, so the order has arrived by
		 * now. */
		if (did || carrier->has_orders) {
			carrier->has_orders = false;
			take_orders(carrier);
		}
		for (int number = 0; number < count; number++)
			take_completion(carrier, &completions[number]);
		post_again(carrier);
		for (struct link *link = carrier->links; link < carrier->links + HWFAB_LINKS_MAX; link++)
			if (link->is_used)
				did |= serve(carrier, link);
		idle = did ? 0 : idle + 1;
		wait_events(carrier, rest_ms(carrier, idle));
	}
	return true;
}

static void say_name(const struct carrier *carrier)
{
	const char *provider = carrier->fabric.info->fabric_attr->prov_name;
	size_t length = strnlen(provider, UINT8_MAX);
	unsigned char report[2 + UINT8_MAX + HWFAB_NAME_BYTES_MAX] = {'N', (unsigned char)length};

	memcpy(report + 2, provider, length);
	memcpy(report + 2 + length, carrier->fabric.name, carrier->fabric.name_bytes);
	/* If the daemon has gone, the control socket shows it. */
	(void)!send(carrier->control, report, 2 + length + carrier->fabric.name_bytes, MSG_NOSIGNAL);
}

bool hwfab_carry(int control, const char *provider)
{
	char report[1 + HWFAB_WHY_BYTES_MAX] = "E";
	struct carrier *carrier = calloc(1, sizeof(*carrier));

	if (!carrier)
		return false;
	carrier->control = control;
	carrier->events = epoll_create1(EPOLL_CLOEXEC);
	bool is_open = hwfab_open(&carrier->fabric, provider, report + 1, HWFAB_WHY_BYTES_MAX);

	if (!is_open || !hwfab_prepare(&carrier->fabric, carrier->spare, SLOTS_SPARE) ||
		!watch(carrier, control, EVENT_CONTROL) || !watch(carrier, carrier->fabric.wait_fd, EVENT_NETWORK)) {
		if (is_open)
			strcpy(report + 1, "there is no memory for an endpoint");
		(void)!send(control, report, strlen(report), MSG_NOSIGNAL);
		free(carrier);
		return false;
	}
	for (size_t number = 0; number < SLOTS_SPARE; number++)
		post(carrier, &carrier->spare[number]);
	say_name(carrier);
	/* The end of the process releases everything. */
	return serve_all(carrier);
}
