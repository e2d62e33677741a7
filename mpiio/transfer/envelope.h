/* An envelope replaces the data in the program's own message, so that it arrives where and when the data would have.
 * Its receiver recognizes it by the job's cookie.
 *
 * A *hint* names the file and the position of the data. An *offer* states that the sender retains the data until it
 * receives a verdict. It contains the first and the last bytes, for pages that can't be protected: a page of each. */
#ifndef HWIO_ENVELOPE_H
#define HWIO_ENVELOPE_H

#include <string.h>

#include "mpi/control.h"
#include "mpi/runs.h"

enum hwio_envelope_kind { HWIO_HINT = 1, HWIO_OFFER = 2 };

struct hwio_envelope {
	unsigned char cookie[HWIO_COOKIE_BYTES];
	uint32_t kind;
	int32_t sender;
	uint64_t id;
	/* Bytes of the data. */
	uint64_t bytes;
};

/* A receive's buffer has whole elements of its type, and MPICH accepts no message that hasn't. So the length of an
 * envelope is a multiple of the sizes of all basic types. */
#define HWIO_ELEMENTS_BYTES 480

struct hwio_hint {
	struct hwio_envelope envelope;
	struct hwio_identity identity;
	/* The data follows, too, and is compared with the file. */
	uint32_t is_verified;
	uint32_t path_bytes;
	struct hwio_runs runs;
	char path[HWIO_PATH_BYTES_MAX + HWIO_ELEMENTS_BYTES];
};

struct hwio_offer {
	struct hwio_envelope envelope;
	/* The first page of the data, and the last one. */
	char edges[];
};

/* Returns the length of an offer, which holds whole elements. */
static inline size_t hwio_offer_bytes(void)
{
	size_t bytes = sizeof(struct hwio_offer) + 2 * hwio_page_bytes + HWIO_ELEMENTS_BYTES;
	return bytes - bytes % HWIO_ELEMENTS_BYTES;
}

/* Copies the first and the last page of the data. */
static inline void hwio_edges_copy(const struct hwio_layout *layout, char *edges)
{
	hwio_layout_copy(layout, 0, edges, hwio_page_bytes, false);
	hwio_layout_copy(layout, layout->bytes - hwio_page_bytes, edges + hwio_page_bytes, hwio_page_bytes, false);
}

/* Returns true if a message is too short to be an envelope or to be replaced by one, and nothing is deferred: MPI's
 * function is called. */
static inline bool hwio_is_short(int count, MPI_Datatype type)
{
	return !hwio_is_busy && hwio_is_basic_below(count, type, offsetof(struct hwio_hint, path));
}

/* Returns true if MPI may be called directly, by a function of hwio_quick. */
static inline bool hwio_passes(int count, MPI_Datatype type)
{
	const struct hwio_quick *quick = &hwio_quick;
	return !quick->is_watchful &&
		(((uintptr_t)type == quick->types[0] && (uint32_t)count <= quick->counts_max[0]) ||
			((uintptr_t)type == quick->types[1] && (uint32_t)count <= quick->counts_max[1]));
}

/* Adds the type to hwio_quick: a message of this type was short, and didn't pass. */
void hwio_cache_short_type(MPI_Datatype type);

/* Returns true if a message of so many bytes may be an envelope. */
static inline bool hwio_may_be_envelope(int bytes)
{
	return bytes >= (int)offsetof(struct hwio_hint, path) && bytes % HWIO_ELEMENTS_BYTES == 0 &&
		(bytes <= (int)sizeof(struct hwio_hint) || (size_t)bytes == hwio_offer_bytes());
}

/* Shorter messages are not replaced by hints. */
#define HWIO_HINTED_BYTES_MIN 16384
_Static_assert(sizeof(struct hwio_hint) < HWIO_HINTED_BYTES_MIN, "a buffer for the data has room for a hint");

/* Returns a new number, unique on this rank. */
uint64_t hwio_envelope_id(void);
void hwio_envelope_fill(struct hwio_envelope *envelope, enum hwio_envelope_kind kind, uint64_t bytes);
static inline size_t hwio_hint_bytes(const struct hwio_hint *hint)
{
	size_t bytes = offsetof(struct hwio_hint, path) + hint->path_bytes + HWIO_ELEMENTS_BYTES - 1;
	return bytes - bytes % HWIO_ELEMENTS_BYTES;
}

/* Returns the length of an envelope with this beginning; 0: no envelope begins so. */
static inline size_t hwio_message_bytes(const void *message)
{
	const struct hwio_hint *hint = message;
	if (hint->envelope.kind == HWIO_OFFER)
		return hwio_offer_bytes();
	return hint->envelope.kind == HWIO_HINT && hint->path_bytes <= HWIO_PATH_BYTES_MAX ? hwio_hint_bytes(hint) : 0;
}

/* Returns true if a message is a complete envelope; otherwise it is the program's own data, whatever it begins with. */
static inline bool hwio_is_envelope(const void *message, size_t bytes)
{
	const struct hwio_envelope *envelope = message;
	return bytes >= offsetof(struct hwio_hint, path) &&
		memcmp(envelope->cookie, hwio_cookie, HWIO_COOKIE_BYTES) == 0 && envelope->sender >= 0 &&
		envelope->sender < hwio_ranks && envelope->bytes <= HWIO_STREAM_BYTES_MAX &&
		bytes == hwio_message_bytes(message);
}

/* Returns true if a hint is valid; otherwise the receiver requests the data. */
static inline bool hwio_hint_is_sound(const struct hwio_hint *hint)
{
	return hint->envelope.bytes >= HWIO_HINTED_BYTES_MIN && hwio_path_is_sound(hint->path, hint->path_bytes) &&
		hwio_runs_are_sound(&hint->runs, hint->envelope.bytes);
}

#endif
