/* Messages and orders; see wire.h. */
#define _GNU_SOURCE
#include "wire.h"

#include <endian.h>
#include <string.h>

static const unsigned char magic[4] = { 'h', 'w', 'f', '1' };

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

void put_header(unsigned char bytes[HEADER_BYTES], const struct header *header)
{
	memcpy(bytes, magic, sizeof(magic));
	put32(bytes + 4, (uint32_t)header->kind);
	put64(bytes + 8, header->link);
	put32(bytes + 16, header->sequence);
	put32(bytes + 20, header->taken);
}

bool parse_header(const unsigned char *bytes, size_t size, struct header *header)
{
	if (size < HEADER_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
		return false;
	uint32_t kind = get32(bytes + 4);

	if (kind < KIND_DATA || kind > KIND_END || (kind == KIND_DATA) != (size > HEADER_BYTES))
		return false;
	header->kind = (enum kind)kind;
	header->link = get64(bytes + 8);
	header->sequence = get32(bytes + 16);
	header->taken = get32(bytes + 20);
	return true;
}

bool parse_order(const unsigned char *bytes, size_t size, struct order *order)
{
	size_t before = 1 + 8 + 8;

	if (size <= before || size > ORDER_BYTES_MAX || bytes[0] != 'L')
		return false;
	order->own = get64(bytes + 1);
	order->peer = get64(bytes + 9);
	order->name = bytes + before;
	order->name_bytes = size - before;
	return true;
}

bool has_room(const struct flow *flow)
{
	return flow->sent - flow->acknowledged < WINDOW_MAX;
}

unsigned flow_place(uint32_t sequence)
{
	return sequence % WINDOW_MAX;
}

bool note_header(struct flow *flow, const struct header *header)
{
	uint32_t ahead = header->sequence - flow->taken - 1, news = header->taken - flow->acknowledged;

	if (header->kind == KIND_DATA) {
		uint32_t bit = 1U << flow_place(header->sequence);

		if (ahead >= WINDOW_MAX || (flow->here & bit) || (flow->has_end && flow->end - flow->taken - 1 <= ahead))
			return false;
		flow->here |= bit;
	}
	if (header->kind == KIND_END) {
		if (ahead > WINDOW_MAX || flow->has_end)
			return false;
		flow->has_end = true;
		flow->end = header->sequence;
	}
	if (news > flow->sent - flow->acknowledged)
		/* An earlier message that comes later tells nothing new; no other one has less. */
		return flow->acknowledged - header->taken <= 2 * WINDOW_MAX;
	flow->acknowledged = header->taken;
	return true;
}

bool has_next(const struct flow *flow)
{
	return flow->here & 1U << flow_place(flow->taken + 1);
}

void take_next(struct flow *flow)
{
	flow->taken++;
	flow->here &= ~(1U << flow_place(flow->taken));
}

bool is_at_end(const struct flow *flow)
{
	return flow->has_end && flow->end == flow->taken + 1;
}
