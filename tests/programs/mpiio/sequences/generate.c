/*
 * Operations from a seed. Each sequence is legal MPI and has one result: the ranks that use a file take turns with a
 * barrier in between, pending messages own their buffers, and each message has its own tag.
 */
#include "sequences.h"

#include <string.h>

struct generator {
	uint64_t state;
	int ranks, is_apart, count, tags, is_pending;
	struct op *ops;
	/* Who used a file last, and whose stream has seen no change of it. */
	int user[FILES], streamer[FILES];
	/* Buffers of pending messages. */
	int is_locked[BUFFERS];
};

static uint64_t next(struct generator *from)
{
	from->state ^= from->state << 13;
	from->state ^= from->state >> 7;
	from->state ^= from->state << 17;
	return (from->state * 0x2545f4914f6cdd1du) >> 11;
}

static long below(struct generator *from, long bound)
{
	return bound > 0 ? (long)(next(from) % (uint64_t)bound) : 0;
}

static int chance(struct generator *from, int in)
{
	return below(from, in) == 0;
}

/* Sizes around pages and thresholds, and any others up to `bound`. */
static long size_below(struct generator *from, long bound)
{
	static const long sizes[] = {0, 1, 7, 4095, 4096, 4097, 8192, 16384, 65535, 65536, 65537, 131072, 262144};
	long size = sizes[below(from, sizeof sizes / sizeof *sizes)];

	if (chance(from, 2))
		size = below(from, chance(from, 3) ? bound : 100000);
	return size < bound ? size : bound;
}

static long place_below(struct generator *from, long bound)
{
	long place = chance(from, 2) ? below(from, 20) * 4096 : chance(from, 2) ? below(from, 5000) : below(from, 300000);

	return place < bound ? place : below(from, bound);
}

static struct op *add(struct generator *to, enum kind kind)
{
	static struct op nowhere;
	struct op *op = to->count < OPS_MAX ? &to->ops[to->count++] : &nowhere;

	memset(op, 0, sizeof *op);
	op->kind = kind;
	op->site = (int)below(to, SITES);
	op->tag = ++to->tags;
	return op;
}

/* A buffer that no pending message owns, and another than `not`. */
static int free_buffer(struct generator *from, int not)
{
	int buffer = (int)below(from, BUFFERS);

	while (from->is_locked[buffer] || buffer == not)
		buffer = (buffer + 1) % BUFFERS;
	return buffer;
}

static int a_root(struct generator *from)
{
	return chance(from, 4) ? (int)below(from, from->ranks) : 0;
}

/* A file for the operation, and who does it. */
static int a_file(struct generator *from, enum kind kind, int *root)
{
	int file = (int)below(from, from->is_apart && kind == READ ? FILES - 1 : FILES);

	*root = from->is_apart ? file % from->ranks : a_root(from);
	return file;
}

/* An operation on a file: the ranks take turns. */
static struct op *add_file(struct generator *to, enum kind kind, int root, int file)
{
	struct op *op;

	if (to->user[file] != root && to->user[file] >= 0)
		add(to, BARRIER);
	to->user[file] = root;
	op = add(to, kind);
	op->root = root;
	op->file = file;
	if (kind != READ && kind != SEEK)
		to->streamer[file] = -1;
	return op;
}

static void add_transfer(struct generator *to, enum kind kind, int root, int file, int buffer, long at, long bytes)
{
	struct op *op = add_file(to, kind, root, file);

	op->buffer = buffer;
	op->at = at;
	op->bytes = bytes;
	/* MPI's own descriptors can read. */
	op->way = (int)below(to, to->is_apart && file == FILES - 1 ? BY_MPI : FILE_WAYS);
	op->file_at = place_below(to, 500000);
	op->is_stale = to->streamer[file] != root;
	if (kind == READ && op->way == BY_STREAM)
		to->streamer[file] = root;
}

static void add_memory(struct generator *to)
{
	static const enum kind kinds[] = {SET, SET, STORE, STORE, LOOK, LOOK, LOOK, COPY, RENEW, DROP};
	enum kind kind = kinds[below(to, 10)];
	struct op *op = add(to, chance(to, 30) ? CHILD_LOOKS : kind);

	op->root = chance(to, 3) ? (int)below(to, to->ranks) : 0;
	op->buffer = free_buffer(to, -1);
	op->other = free_buffer(to, op->buffer);
	op->bytes = size_below(to, BUFFER_BYTES / 2);
	op->at = place_below(to, BUFFER_BYTES - op->bytes);
	op->other_at = place_below(to, BUFFER_BYTES - op->bytes);
}

/* All ranks use a file, whose parts lie beside each other, or with gaps. */
static void add_common(struct generator *to)
{
	struct op *op;

	add(to, BARRIER);
	op = add(to, COLLECTIVE);
	op->file = (int)below(to, FILES);
	op->way = (int)below(to, 4);
	op->buffer = free_buffer(to, -1);
	op->bytes = size_below(to, 30000);
	op->at = place_below(to, BUFFER_BYTES - op->bytes);
	op->file_at = place_below(to, 300000);
	to->streamer[op->file] = -1;
	/* No rank is the last one. */
	to->user[op->file] = to->ranks;
}

static void add_file_work(struct generator *to)
{
	static const enum kind kinds[] = {READ, READ, READ, WRITE, WRITE, SEEK, SEEK, TRUNCATE, APPEND, REOPEN};
	enum kind kind = chance(to, 30) ? CHILD_WRITES : kinds[below(to, 10)];
	int root, file = a_file(to, kind, &root);
	long bytes = size_below(to, BUFFER_BYTES);

	if (!to->is_apart && chance(to, 4)) {
		add_common(to);
		return;
	}
	if (kind == READ || kind == WRITE) {
		add_transfer(to, kind, root, file, free_buffer(to, -1), place_below(to, BUFFER_BYTES - bytes), bytes);
		return;
	}
	struct op *op = add_file(to, kind, root, file);

	op->bytes = kind == CHILD_WRITES ? bytes % 5000 : bytes;
	op->file_at = place_below(to, 600000);
	op->way = (int)below(to, 3);
}

/* A collective call: root's buffer and place, and the others'. `bytes` is each rank's. */
static struct op *add_collective(struct generator *to, enum kind kind, int root, int buffer, long at, long bytes)
{
	struct op *op = add(to, kind);

	op->root = root;
	op->comm = (int)below(to, COMMS);
	op->buffer = buffer;
	op->other = free_buffer(to, buffer);
	op->at = at;
	op->bytes = bytes;
	op->other_at = place_below(to, BUFFER_BYTES - bytes);
	op->way = (int)below(to, 4);
	return op;
}

static struct op *add_message(struct generator *to, enum kind kind, int root, int peer, int buffer, long at, long bytes)
{
	struct op *op = add(to, kind);

	op->root = root;
	op->peer = peer;
	op->comm = (int)below(to, COMMS - 1);
	op->buffer = buffer;
	op->other = free_buffer(to, buffer);
	op->at = at;
	op->bytes = bytes;
	op->other_at = place_below(to, BUFFER_BYTES - bytes);
	op->way = (int)below(to, RECEIVE_WAYS) + RECEIVE_WAYS * (int)below(to, 4);
	if (kind == POST) {
		to->is_pending = 1;
		/* What a rank sends to itself has left its buffer. */
		to->is_locked[op->buffer] = root != peer;
		to->is_locked[op->other] = 1;
	}
	return op;
}

static int another(struct generator *from, int than)
{
	return (than + 1 + (int)below(from, from->ranks - 1)) % from->ranks;
}

static void add_messages(struct generator *to)
{
	static const enum kind kinds[] = {SCATTER, SCATTERV, GATHER, GATHERV, SEND, SEND, POST, BCAST, REDUCE, RING};
	enum kind kind = kinds[below(to, 10)];
	int root = a_root(to), buffer = free_buffer(to, -1);
	long bytes = size_below(to, BUFFER_BYTES / to->ranks - 70), at = place_below(to, BUFFER_BYTES - bytes * to->ranks);

	/* Buffers stay free. */
	if (kind == POST && to->is_pending)
		kind = SEND;
	if (kind == SEND || kind == POST)
		add_message(to, kind, root, kind == POST && chance(to, 4) ? root : another(to, root), buffer, at, bytes);
	else
		add_collective(to, kind, root, buffer, at, kind == REDUCE ? bytes % 20000 : bytes);
}

static void add_wait(struct generator *to)
{
	if (!to->is_pending)
		return;
	to->is_pending = 0;
	memset(to->is_locked, 0, sizeof to->is_locked);
	add(to, WAIT);
}

static void add_anything(struct generator *to)
{
	switch (below(to, 8)) {
	case 0: case 1: case 2:
		add_memory(to);
		break;
	case 3: case 4:
		add_file_work(to);
		break;
	case 5: case 6:
		add_messages(to);
		break;
	default:
		add_wait(to);
	}
}

/* Something in the middle of a pattern. */
static void disturb(struct generator *to, int in)
{
	while (chance(to, in))
		add_anything(to);
}

/* One part of a pattern with messages: read and sent to a peer, or received from it and written. */
static void add_peer(struct generator *to, int reads, int root, int peer, int file, int buffer, long at, long bytes,
	int in)
{
	if (reads)
		add_transfer(to, READ, root, file, to->is_locked[buffer] ? free_buffer(to, -1) : buffer, at, bytes);
	disturb(to, in);
	if (peer != root && !to->is_locked[buffer] && reads)
		add_message(to, SEND, root, peer, buffer, at, bytes);
	if (peer == root && !to->is_pending && reads && chance(to, 2))
		add_message(to, POST, root, root, buffer, at, bytes);
	if (peer != root && !to->is_locked[buffer] && !reads) {
		struct op *op = add_message(to, SEND, peer, root, buffer, at, bytes);

		op->other = buffer;
		op->other_at = at;
	}
	if (!reads)
		add_transfer(to, WRITE, root, file, to->is_locked[buffer] ? free_buffer(to, -1) : buffer, at, bytes);
}

/* One of the patterns that are transformed, mostly undisturbed, sometimes several times at the same place. */
static void add_pattern(struct generator *to)
{
	int kind = (int)below(to, 4), root, file = a_file(to, kind % 2 ? WRITE : READ, &root), buffer = free_buffer(to, -1);
	int first = to->count, site = (int)below(to, SITES), in = 3 + (int)below(to, 6);
	/* What goes to one peer after the other is in the same place. */
	int parts = kind > 1 ? 2 : to->ranks;
	long bytes = size_below(to, BUFFER_BYTES / parts - 70);
	long at = place_below(to, BUFFER_BYTES - bytes * parts), all = bytes * parts;

	if (chance(to, 2)) {
		struct op *op = add_file(to, SEEK, root, file);

		op->way = 1 + (int)below(to, 2);
		op->file_at = place_below(to, 100000);
	}
	if (kind == 0) {
		add_transfer(to, READ, root, file, buffer, at, all + (chance(to, 3) ? below(to, BUFFER_BYTES - at - all) : 0));
		disturb(to, in);
		if (!to->is_locked[buffer])
			add_collective(to, chance(to, 3) ? SCATTERV : SCATTER, root, buffer, at, bytes);
	} else if (kind == 1) {
		if (!to->is_locked[buffer])
			add_collective(to, chance(to, 3) ? GATHERV : GATHER, root, buffer, at, bytes);
		disturb(to, in);
		add_transfer(to, WRITE, root, file, to->is_locked[buffer] ? free_buffer(to, -1) : buffer, at, all);
	}
	for (int peer = 0; kind > 1 && peer < to->ranks; peer++)
		add_peer(to, kind == 2, root, peer, file, buffer, at, bytes, in);
	for (int op = first; op < to->count; op++)
		to->ops[op].site = chance(to, 8) ? to->ops[op].site : site;
}

int generate(uint64_t seed, int ranks, int is_apart, struct op *ops)
{
	struct generator own = {.state = (seed + 1) * 0x9e3779b97f4a7c15u | 1, .ranks = ranks,
		.is_apart = is_apart, .ops = ops};
	int steps;

	for (int n = 0; n < 10; n++)
		next(&own);
	for (int file = 0; file < FILES; file++)
		own.user[file] = own.streamer[file] = -1;
	steps = 4 + (int)below(&own, 10);
	for (int step = 0; step < steps && own.count < OPS_MAX - 80; step++) {
		if (chance(&own, 3))
			add_anything(&own);
		else
			add_pattern(&own);
	}
	add_wait(&own);
	return own.count;
}

void describe(const struct op *op, char *line, size_t bytes)
{
	static const char *const names[KINDS] = {"read", "write", "seek", "truncate", "append", "reopen", "child_writes",
		"set", "store", "look", "copy", "renew", "drop", "child_looks", "scatter", "scatterv", "gather", "gatherv",
		"send", "post", "wait", "bcast", "reduce", "ring", "barrier", "collective"};

	snprintf(line, bytes,
		"%s root %d peer %d file %d comm %d way %d site %d tag %d "
		"buffer %d at %ld other %d at %ld bytes %ld file_at %ld",
		names[op->kind], op->root, op->peer, op->file, op->comm, op->way, op->site, op->tag, op->buffer, op->at,
		op->other, op->other_at, op->bytes, op->file_at);
}
