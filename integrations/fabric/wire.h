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
/* Limit of a link's messages with data that its receiver has not taken. */
#define HWFAB_WINDOW_MAX 8

enum hwfab_kind {
	HWFAB_KIND_DATA = 1, /* bytes of the link's stream; at least one */
	HWFAB_KIND_CREDIT,   /* only reports what was taken */
	HWFAB_KIND_END,      /* end of the link */
};

struct hwfab_header {
	enum hwfab_kind kind;
	uint64_t link;     /* the receiver's number for the link, which unauthenticated peers can't guess */
	uint32_t sequence; /* of HWFAB_KIND_DATA and HWFAB_KIND_END, counted from one */
	uint32_t taken;    /* so many messages with data has the sender of this one taken so far */
};

/* Carry a stream: the order's descriptor is its local end. */
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
	uint32_t here;               /* a bit for each received message that is not taken; see hwfab_flow_place */
	bool has_end;
	uint32_t end; /* the sequence of the peer's HWFAB_KIND_END */
};

void hwfab_put_header(unsigned char bytes[HWFAB_HEADER_BYTES], const struct hwfab_header *header);

/* Returns false if these bytes are not a valid message. */
bool hwfab_parse_header(const unsigned char *bytes, size_t size, struct hwfab_header *header);

/* Returns false if these bytes are not an order. The order's name points into them. */
bool hwfab_parse_order(const unsigned char *bytes, size_t size, struct hwfab_order *order);

/* Returns whether the peer has room for one more message with data. */
bool hwfab_has_room(const struct hwfab_flow *flow);

/* Applies the header of a message of the link. Returns false if it is impossible. */
bool hwfab_note_header(struct hwfab_flow *flow, const struct hwfab_header *header);

/* Returns the index, below HWFAB_WINDOW_MAX, of the slot for a message with this sequence. */
unsigned hwfab_flow_place(uint32_t sequence);

/* Check for the next message to be taken, and take it. */
bool hwfab_has_next(const struct hwfab_flow *flow);
void hwfab_take_next(struct hwfab_flow *flow);

/* Returns whether the peer has ended the link and all earlier messages were taken. */
bool hwfab_is_at_end(const struct hwfab_flow *flow);

#endif
