/* sources: wire.c */
/* Messages of unauthenticated peers, and orders: valid, invalid and random, in memory of exactly their size. */
#define _GNU_SOURCE
#include "check.h"
#include "wire.h"

static bool parses(const unsigned char *bytes, size_t size, struct hwfab_header *header)
{
	unsigned char *exact = malloc(size ? size : 1);

	memcpy(exact, bytes, size);
	bool done = hwfab_parse_header(exact, size, header);
	free(exact);
	return done;
}

static void headers(void)
{
	struct hwfab_header put = {HWFAB_KIND_DATA, 0x0123456789abcdef, 7, 0xfffffffe}, got;
	unsigned char bytes[HWFAB_HEADER_BYTES + 2] = {0};

	hwfab_put_header(bytes, &put);
	CHECK(parses(bytes, HWFAB_HEADER_BYTES + 1, &got), "data");
	CHECK(got.kind == put.kind && got.link == put.link && got.sequence == 7 && got.taken == put.taken, "%u",
		got.taken);
	for (size_t cut = 0; cut <= HWFAB_HEADER_BYTES; cut++)
		CHECK(!parses(bytes, cut, &got), "%zu bytes, which hold no data", cut);
	for (int kind = HWFAB_KIND_CREDIT; kind <= HWFAB_KIND_END; kind++) {
		put.kind = (enum hwfab_kind)kind;
		hwfab_put_header(bytes, &put);
		CHECK(parses(bytes, HWFAB_HEADER_BYTES, &got) && (int)got.kind == kind, "%d", kind);
		CHECK(!parses(bytes, HWFAB_HEADER_BYTES + 1, &got), "bytes beyond");
	}
	for (size_t at = 0; at < 8; at++) {
		bytes[at] ^= 0x40;
		CHECK(!parses(bytes, HWFAB_HEADER_BYTES, &got), "byte %zu is another", at);
		bytes[at] ^= 0x40;
	}
}

static void orders(void)
{
	unsigned char bytes[HWFAB_ORDER_BYTES_MAX + 1] = {'L', 1, 0, 0, 0, 0, 0, 0, 0, 2, [17] = 'n'};
	struct hwfab_order order;

	CHECK(hwfab_parse_order(bytes, 18, &order) && order.own == 1 && order.peer == 2, "%zu", order.name_bytes);
	CHECK(order.name_bytes == 1 && order.name[0] == 'n', "%zu", order.name_bytes);
	for (size_t cut = 0; cut < 18; cut++)
		CHECK(!hwfab_parse_order(bytes, cut, &order), "%zu bytes", cut);
	CHECK(hwfab_parse_order(bytes, HWFAB_ORDER_BYTES_MAX, &order), "the longest name");
	CHECK(!hwfab_parse_order(bytes, HWFAB_ORDER_BYTES_MAX + 1, &order), "a longer one");
	bytes[0] = 'M';
	CHECK(!hwfab_parse_order(bytes, 18, &order), "another order");
}

/* A link rejects impossible headers. Its messages arrive in any order, and its counters wrap. */
static void flows(void)
{
	uint32_t start = UINT32_MAX - 3;
	struct hwfab_flow flow = {.sent = start, .acknowledged = start, .taken = start, .reported = start};
	struct hwfab_header header = {.kind = HWFAB_KIND_DATA, .taken = start};

	for (uint32_t number = HWFAB_WINDOW_MAX; number >= 1; number--) {
		header.sequence = start + number;
		CHECK(!hwfab_has_next(&flow) && hwfab_note_header(&flow, &header), "message %u", number);
		CHECK(!hwfab_note_header(&flow, &header), "message %u comes once", number);
	}
	header.sequence = start + HWFAB_WINDOW_MAX + 1;
	CHECK(!hwfab_note_header(&flow, &header), "more than there is room for");
	CHECK(hwfab_has_next(&flow), "the first has come");
	hwfab_take_next(&flow);
	CHECK(hwfab_note_header(&flow, &header), "one was taken");
	for (uint32_t number = 0; number < HWFAB_WINDOW_MAX; number++, flow.sent++)
		CHECK(hwfab_has_room(&flow), "%u", number);
	CHECK(!hwfab_has_room(&flow), "the peer has taken none");
	header = (struct hwfab_header){.kind = HWFAB_KIND_CREDIT, .taken = start + 5};
	CHECK(hwfab_note_header(&flow, &header) && hwfab_has_room(&flow), "it has taken five");
	header.taken = start + 4;
	CHECK(hwfab_note_header(&flow, &header) && flow.acknowledged == start + 5, "an earlier word comes later");
	header.taken = start + HWFAB_WINDOW_MAX + 1;
	CHECK(!hwfab_note_header(&flow, &header), "more than were sent");
	header.taken = start - 100;
	CHECK(!hwfab_note_header(&flow, &header), "far fewer than before");
}

static void ends(void)
{
	struct hwfab_flow flow = {0};
	struct hwfab_header data = {.kind = HWFAB_KIND_DATA, .sequence = 1},
			    end = {.kind = HWFAB_KIND_END, .sequence = 2};

	CHECK(hwfab_note_header(&flow, &end) && !hwfab_is_at_end(&flow), "what comes before it is not here");
	CHECK(!hwfab_note_header(&flow, &end), "a second end");
	data.sequence = 2;
	CHECK(!hwfab_note_header(&flow, &data), "data behind the end");
	data.sequence = 1;
	CHECK(hwfab_note_header(&flow, &data) && !hwfab_is_at_end(&flow) && hwfab_has_next(&flow),
		"what comes before it");
	hwfab_take_next(&flow);
	CHECK(hwfab_is_at_end(&flow) && !hwfab_has_next(&flow), "%u", flow.taken);
	CHECK(!hwfab_note_header(&flow, &data), "what was taken comes again");
}

static void random_bytes(void)
{
	struct hwfab_flow flow = {0};
	size_t parsed = 0;

	srandom(7);
	for (int turn = 0; turn < 200000; turn++) {
		unsigned char bytes[HWFAB_HEADER_BYTES + 8], name[HWFAB_ORDER_BYTES_MAX + 4];
		size_t size = (size_t)random() % sizeof(bytes);
		struct hwfab_header header;
		struct hwfab_order order;

		hwfab_put_header(bytes,
			&(struct hwfab_header){HWFAB_KIND_DATA, 1, flow.taken + 1 + (uint32_t)random() % 2, 0});
		for (long change = random() % 3; change > 0; change--)
			bytes[random() % HWFAB_HEADER_BYTES] = (unsigned char)random();
		if (parses(bytes, size, &header)) {
			parsed++;
			hwfab_note_header(&flow, &header);
			CHECK(flow.here < 1U << HWFAB_WINDOW_MAX && flow.acknowledged == 0, "%x", flow.here);
			if (hwfab_has_next(&flow))
				hwfab_take_next(&flow);
			flow.has_end = false;
		}
		for (size_t at = 0; at < sizeof(name); at++)
			name[at] = at ? (unsigned char)random() : 'L';
		size = (size_t)random() % sizeof(name);
		if (hwfab_parse_order(name, size, &order))
			CHECK(order.name + order.name_bytes == name + size && order.name_bytes <= HWFAB_NAME_BYTES_MAX,
				"%zu", size);
	}
	CHECK(parsed > 1000 && flow.taken > 1000, "%zu were headers", parsed);
}

int main(void)
{
	headers();
	orders();
	flows();
	ends();
	random_bytes();
	return 0;
}
