/* Messages and orders; see wire.h. */
#define _GNU_SOURCE
#include "wire.h"

#include <endian.h>
#include <string.h>

static const unsigned char magic[4] = {'h', 'w', 'f', '1'};

static void put64(unsigned char *bytes, uint64_t number)
{
	number = htole64(number);
	memcpy(bytes, &number, sizeof(number));
}

static void put32(unsigned char *bytes, uint32_t number)
{
	number = htole32(number);
	memcpy(bytes, &number, sizeof(number));
}

static uint64_t get64(const unsigned char *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));
	return le64toh(number);
}

static uint32_t get32(const unsigned char *bytes)
{
	uint32_t number;

	memcpy(&number, bytes, sizeof(number));
	return le32toh(number);
}

void hwfab_put_header(unsigned char bytes[HWFAB_HEADER_BYTES], const struct hwfab_header *header)
{
	memcpy(bytes, magic, sizeof(magic));
	put32(bytes + 4, (uint32_t)header->kind);
	put64(bytes + 8, header->link);
	put32(bytes + 16, header->sequence);
	put32(bytes + 20, header->taken);
}

bool hwfab_parse_header(const unsigned char *bytes, size_t size, struct hwfab_header *header)
{
	if (size < HWFAB_HEADER_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
		return false;
	uint32_t kind = get32(bytes + 4);

	if (kind < HWFAB_KIND_DATA || kind > HWFAB_KIND_END || (kind == HWFAB_KIND_DATA) != (size > HWFAB_HEADER_BYTES))
		return false;
	header->kind = (enum hwfab_kind)kind;
	header->link = get64(bytes + 8);
	header->sequence = get32(bytes + 16);
	header->taken = get32(bytes + 20);
	return true;
}

bool hwfab_parse_order(const unsigned char *bytes, size_t size, struct hwfab_order *order)
{
	size_t before = 1 + 8 + 8;

	if (size <= before || size > HWFAB_ORDER_BYTES_MAX || bytes[0] != 'L')
		return false;
	order->own = get64(bytes + 1);
	order->peer = get64(bytes + 9);
	order->name = bytes + before;
	order->name_bytes = size - before;
	return true;
}

bool hwfab_has_room(const struct hwfab_flow *flow)
{
	return flow->sent - flow->acknowledged < HWFAB_WINDOW_MAX;
}

unsigned hwfab_flow_place(uint32_t sequence)
{
	return sequence % HWFAB_WINDOW_MAX;
}

bool hwfab_note_header(struct hwfab_flow *flow, const struct hwfab_header *header)
{
	uint32_t ahead = header->sequence - flow->taken - 1, newly_taken = header->taken - flow->acknowledged;

	if (header->kind == HWFAB_KIND_DATA) {
		uint32_t bit = 1U << hwfab_flow_place(header->sequence);

		if (ahead >= HWFAB_WINDOW_MAX || (flow->here & bit) ||
			(flow->has_end && flow->end - flow->taken - 1 <= ahead))
			return false;
		flow->here |= bit;
	}
	if (header->kind == HWFAB_KIND_END) {
		if (ahead > HWFAB_WINDOW_MAX || flow->has_end)
			return false;
		flow->has_end = true;
		flow->end = header->sequence;
	}
	if (newly_taken > flow->sent - flow->acknowledged)
		/* A delayed message has an old count; no other message has a lower one. */
		return flow->acknowledged - header->taken <= 2 * HWFAB_WINDOW_MAX;
	flow->acknowledged = header->taken;
	return true;
}

bool hwfab_has_next(const struct hwfab_flow *flow)
{
	return flow->here & 1U << hwfab_flow_place(flow->taken + 1);
}

void hwfab_take_next(struct hwfab_flow *flow)
{
	flow->taken++;
	flow->here &= ~(1U << hwfab_flow_place(flow->taken));
}

bool hwfab_is_at_end(const struct hwfab_flow *flow)
{
	return flow->has_end && flow->end == flow->taken + 1;
}
