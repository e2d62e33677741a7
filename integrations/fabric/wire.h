/* What carriers say to each other, and what a daemon orders of its carrier. All numbers are little-endian. Whoever
 * reaches the endpoint can send to it, so nothing of a message is believed before it was checked. */
#ifndef HEADWATER_FABRIC_WIRE_H
#define HEADWATER_FABRIC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest name of an endpoint; see struct order. */
#define NAME_BYTES_MAX 256
/* What stands before a message's bytes: magic, kind, link, sequence, taken. */
#define HEADER_BYTES 24
/* The longest order: a letter, two numbers and a name. */
#define ORDER_BYTES_MAX (1 + 8 + 8 + NAME_BYTES_MAX)
/* Messages with data of one link that its receiver has not taken. */
#define WINDOW_MAX 8

enum kind {
	KIND_DATA = 1,          /* bytes of the link's stream; at least one */
	KIND_CREDIT,            /* only says what was taken */
	KIND_END,               /* nothing more will come */
};

struct header {
	enum kind kind;
	uint64_t link;          /* the receiver's number for the link, which strangers can't guess */
	uint32_t sequence;      /* of KIND_DATA and KIND_END, counted from one */
	uint32_t taken;         /* so many messages with data has the sender of this one taken so far */
};

/* Carry a stream: the descriptor that comes with the order is its end here. */
struct order {
	uint64_t own, peer;     /* the link's numbers here and there */
	const unsigned char *name;      /* of the peer's endpoint: protocol, format of addresses, address */
	size_t name_bytes;
};

/* How far a link's two directions have come, in messages; counters wrap. A provider keeps short messages waiting for
 * nothing, so they come before longer ones that were sent earlier. */
struct flow {
	uint32_t sent, acknowledged;    /* the peer has taken the latter */
	uint32_t taken, told;           /* the peer knows the latter */
	uint32_t here;                  /* a bit for each message that has come and is not taken; see flow_place */
	bool has_end;
	uint32_t end;                   /* the sequence of the peer's KIND_END */
};

void put_header(unsigned char bytes[HEADER_BYTES], const struct header *header);

/* False if these bytes begin with no header, or what follows does not fit its kind. */
bool parse_header(const unsigned char *bytes, size_t size, struct header *header);

/* False if these bytes are no order. Otherwise the name stands in them. */
bool parse_order(const unsigned char *bytes, size_t size, struct order *order);

/* True while the peer has room for one more message with data. */
bool has_room(const struct flow *flow);

/* Notes what the header of a message of the link says. False if it can't be true. */
bool note_header(struct flow *flow, const struct header *header);

/* Which of WINDOW_MAX places a message with this sequence has until it is taken. */
unsigned flow_place(uint32_t sequence);

/* Whether the next message to be taken is here, and taking it. */
bool has_next(const struct flow *flow);
void take_next(struct flow *flow);

/* True once the peer has ended the link and all that came before was taken. */
bool is_at_end(const struct flow *flow);

#endif
