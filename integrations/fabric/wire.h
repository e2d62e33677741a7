/* Messages between carriers, and orders of a daemon to its carrier. All numbers are little-endian. Any process that
 * reaches the endpoint can send to it, so each message is checked before use. */
#ifndef HEADWATER_FABRIC_WIRE_H
#define HEADWATER_FABRIC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest name of an endpoint; see struct hwfab_order. */
#define HWFAB_NAME_BYTES_MAX 256
/* Bytes before a message's data: magic, kind, link, sequence, taken. */
#define HWFAB_HEADER_BYTES 24
/* The longest order: a letter, two numbers and a name. */
#define HWFAB_ORDER_BYTES_MAX (1 + 8 + 8 + HWFAB_NAME_BYTES_MAX)
/* Messages with data of one link that its receiver has not taken. */
#define HWFAB_WINDOW_MAX 8

enum hwfab_kind {
	HWFAB_KIND_DATA = 1, /* bytes of the link's stream; at least one */
	HWFAB_KIND_CREDIT,   /* only reports what was taken */
	HWFAB_KIND_END,      /* nothing more will come */
};

struct hwfab_header {
	enum hwfab_kind kind;
	uint64_t link;     /* the receiver's number for the link, which strangers can't guess */
	uint32_t sequence; /* of HWFAB_KIND_DATA and HWFAB_KIND_END, counted from one */
	uint32_t taken;    /* so many messages with data has the sender of this one taken so far */
};

/* Carry a stream: the descriptor that comes with the order is its end here. */
struct hwfab_order {
	uint64_t own, peer;        /* the link's numbers here and there */
	const unsigned char *name; /* of the peer's endpoint: protocol, format of addresses, address */
	size_t name_bytes;
};

/* Progress of a link's two directions, in messages; counters wrap. A provider does not delay short messages, so
 * they may overtake longer ones. */
struct hwfab_flow {
	uint32_t sent, acknowledged; /* the peer has taken the latter */
	uint32_t taken, reported;    /* the peer knows the latter */
	uint32_t here;               /* a bit for each message that has come and is not taken; see hwfab_flow_place */
	bool has_end;
	uint32_t end; /* the sequence of the peer's HWFAB_KIND_END */
};

void hwfab_put_header(unsigned char bytes[HWFAB_HEADER_BYTES], const struct hwfab_header *header);

/* False if these bytes begin with no header, or what follows does not fit its kind. */
bool hwfab_parse_header(const unsigned char *bytes, size_t size, struct hwfab_header *header);

/* False if these bytes are no order. Otherwise the name stands in them. */
bool hwfab_parse_order(const unsigned char *bytes, size_t size, struct hwfab_order *order);

/* True while the peer has room for one more message with data. */
bool hwfab_has_room(const struct hwfab_flow *flow);

/* Applies the header of a message of the link. False if it can't be true. */
bool hwfab_note_header(struct hwfab_flow *flow, const struct hwfab_header *header);

/* Which of HWFAB_WINDOW_MAX places a message with this sequence has until it is taken. */
unsigned hwfab_flow_place(uint32_t sequence);

/* Whether the next message to be taken is here, and taking it. */
bool hwfab_has_next(const struct hwfab_flow *flow);
void hwfab_take_next(struct hwfab_flow *flow);

/* True once the peer has ended the link and all that came before was taken. */
bool hwfab_is_at_end(const struct hwfab_flow *flow);

#endif
