/* A carrier's readers: an order, and the headers of one link's messages, one behind the other. */
#include "../../integrations/fabric/wire.h"

#include <string.h>

/* False if a link has more messages than its window, or none although its flag is set. */
static bool is_sound(struct hwfab_flow *flow)
{
	unsigned occupied = 0;

	for (unsigned bit = 0; bit < 32; bit++)
		occupied += flow->here >> bit & 1U;
	if (occupied > HWFAB_WINDOW_MAX || flow->sent - flow->acknowledged > HWFAB_WINDOW_MAX)
		return false;
	for (unsigned taken = 0; hwfab_has_next(flow); taken++) {
		if (taken == HWFAB_WINDOW_MAX)
			return false;
		hwfab_take_next(flow);
	}
	if (hwfab_is_at_end(flow) && hwfab_has_next(flow))
		return false;
	while (hwfab_has_room(flow))
		flow->sent++;
	return true;
}

int fuzz_fabric_wire(const void *data, size_t bytes)
{
	const unsigned char *at = data;
	struct hwfab_flow flow = {0};
	struct hwfab_order order;
	unsigned char again[HWFAB_HEADER_BYTES];

	if (hwfab_parse_order(at, bytes, &order) && (order.name < at || order.name + order.name_bytes != at + bytes))
		return 0;
	for (; bytes >= HWFAB_HEADER_BYTES + 1; at += HWFAB_HEADER_BYTES + 1, bytes -= HWFAB_HEADER_BYTES + 1) {
		struct hwfab_header header;

		/* With a byte of data behind it, or without. */
		if (!hwfab_parse_header(at, HWFAB_HEADER_BYTES + (at[HWFAB_HEADER_BYTES] & 1U), &header))
			continue;
		hwfab_put_header(again, &header);
		if (memcmp(again, at, HWFAB_HEADER_BYTES) != 0)
			return 0;
		if (!hwfab_note_header(&flow, &header))
			break;
		if (at[HWFAB_HEADER_BYTES] & 2U && !is_sound(&flow))
			return 0;
	}
	return 1;
}
