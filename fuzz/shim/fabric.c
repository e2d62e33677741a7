/* A carrier's readers: an order, and the headers of one link's messages, one behind the other. */
#include "../../integrations/fabric/wire.h"

#include <string.h>

/* False if a link has more messages than places, or none where it says that one is there. */
static bool is_sound(struct flow *flow)
{
	unsigned places = 0;

	for (unsigned place = 0; place < 32; place++)
		places += flow->here >> place & 1U;
	if (places > WINDOW_MAX || flow->sent - flow->acknowledged > WINDOW_MAX)
		return false;
	for (unsigned taken = 0; has_next(flow); taken++) {
		if (taken == WINDOW_MAX)
			return false;
		take_next(flow);
	}
	if (is_at_end(flow) && has_next(flow))
		return false;
	while (has_room(flow))
		flow->sent++;
	return true;
}

int fuzz_fabric_wire(const void *data, size_t bytes)
{
	const unsigned char *at = data;
	struct flow flow = { 0 };
	struct order order;
	unsigned char again[HEADER_BYTES];

	if (parse_order(at, bytes, &order) && (order.name < at || order.name + order.name_bytes != at + bytes))
		return 0;
	for (; bytes >= HEADER_BYTES + 1; at += HEADER_BYTES + 1, bytes -= HEADER_BYTES + 1) {
		struct header header;

		/* With a byte of data behind it, or without. */
		if (!parse_header(at, HEADER_BYTES + (at[HEADER_BYTES] & 1U), &header))
			continue;
		put_header(again, &header);
		if (memcmp(again, at, HEADER_BYTES) != 0)
			return 0;
		if (!note_header(&flow, &header))
			break;
		if (at[HEADER_BYTES] & 2U && !is_sound(&flow))
			return 0;
	}
	return 1;
}
