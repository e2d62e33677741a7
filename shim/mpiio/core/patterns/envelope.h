/*
 * What travels in place of the program's data, in the program's own message: so that it arrives where, and in the order
 * in which, the data would have. Its receiver knows it by the job's cookie.
 *
 * A *hint* says where in which file the data is. An *offer* says that the sender keeps the data until it is told what to
 * do with it; it has the first and the last bytes, for pages that can't be protected.
 */
#ifndef HW_ENVELOPE_H
#define HW_ENVELOPE_H

#include <string.h>

#include "../mpi/control.h"
#include "../mpi/runs.h"

enum hw_envelope_kind { HW_HINT = 1, HW_OFFER = 2 };

struct hw_envelope {
	unsigned char cookie[HW_COOKIE_BYTES];
	uint32_t kind;
	int32_t sender;
	uint64_t id;
	/* Of the data. */
	uint64_t bytes;
};

/*
 * A receive's buffer holds whole elements of its type, and MPICH takes no message that doesn't: the length of ours is a
 * multiple of all sizes of MPI's basic types.
 */
#define HW_ELEMENTS_BYTES 480

struct hw_hint {
	struct hw_envelope envelope;
	struct hw_identity identity;
	/* Besides it the data follows, and both are compared. */
	uint32_t is_verified;
	uint32_t path_bytes;
	struct hw_runs runs;
	char path[HW_PATH_BYTES_MAX + HW_ELEMENTS_BYTES];
};

struct hw_offer {
	struct hw_envelope envelope;
	char first[HW_PAGE_BYTES], last[HW_PAGE_BYTES];
	char padding[HW_ELEMENTS_BYTES - (sizeof(struct hw_envelope) + 2 * HW_PAGE_BYTES) % HW_ELEMENTS_BYTES];
};

_Static_assert(sizeof(struct hw_offer) % HW_ELEMENTS_BYTES == 0, "an offer holds whole elements");

/*
 * Whether a message is too short to be one of ours or to be replaced by one, and nothing else is to be seen to: then MPI
 * does all.
 */
static inline bool hw_is_short(int count, MPI_Datatype type)
{
	return !hw_is_busy && hw_is_basic_below(count, type, offsetof(struct hw_hint, path));
}

/* The same where MPI may be called as if this library weren't there: by a function of hw_quick. */
static inline bool hw_passes(int count, MPI_Datatype type)
{
	const struct hw_quick *quick = &hw_quick;
	return !quick->is_watchful &&
	       (((uintptr_t)type == quick->types[0] && (uint32_t)count <= quick->counts_max[0]) ||
		((uintptr_t)type == quick->types[1] && (uint32_t)count <= quick->counts_max[1]));
}

/* A message of this type was short, and didn't pass. */
void hw_pass_from_now_on(MPI_Datatype type);

/* Whether a message of so many bytes is to be looked at. */
static inline bool hw_may_be_ours(int bytes)
{
	return bytes >= (int)offsetof(struct hw_hint, path) && bytes <= (int)sizeof(struct hw_offer) &&
	       bytes % HW_ELEMENTS_BYTES == 0;
}

/* Only messages that are longer are replaced. */
#define HW_REPLACED_BYTES_MIN (2 * sizeof(struct hw_offer))

/* Another one each time, on this rank. */
uint64_t hw_envelope_id(void);
void hw_envelope_fill(struct hw_envelope *envelope, enum hw_envelope_kind kind, uint64_t bytes);
static inline size_t hw_hint_bytes(const struct hw_hint *hint)
{
	size_t bytes = offsetof(struct hw_hint, path) + hint->path_bytes + HW_ELEMENTS_BYTES - 1;
	return bytes - bytes % HW_ELEMENTS_BYTES;
}

/* How long a message is that begins like one of ours; 0: none of ours is. */
static inline size_t hw_message_bytes(const void *message)
{
	const struct hw_hint *hint = message;
	if (hint->envelope.kind == HW_OFFER)
		return sizeof(struct hw_offer);
	return hint->envelope.kind == HW_HINT && hint->path_bytes <= HW_PATH_BYTES_MAX ? hw_hint_bytes(hint) : 0;
}

/* Whether a message is one of ours as it was sent; otherwise it is the program's own data, whatever it begins with. */
static inline bool hw_is_ours(const void *message, size_t bytes)
{
	const struct hw_envelope *envelope = message;
	return bytes >= offsetof(struct hw_hint, path) && memcmp(envelope->cookie, hw_cookie, HW_COOKIE_BYTES) == 0 &&
	       envelope->sender >= 0 && envelope->sender < hw_ranks && envelope->bytes <= INT64_MAX &&
	       bytes == hw_message_bytes(message);
}

/* Whether a hint leads to its data; who got another one asks for the data. */
static inline bool hw_hint_is_sound(const struct hw_hint *hint)
{
	return hw_path_is_sound(hint->path, hint->path_bytes) && hw_runs_are_sound(&hint->runs, hint->envelope.bytes);
}

#endif
