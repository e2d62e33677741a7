/*
 * What travels in place of the program's data, in the program's own message: so that it arrives where, and in the order
 * in which, the data would have. Its receiver knows it by the job's cookie.
 *
 * A *hint* says where in which file the data is. An *offer* says that the sender keeps the data until it is told what to
 * do with it; it has the first and the last bytes, for pages that can't be protected.
 */
#ifndef HW_ENVELOPE_H
#define HW_ENVELOPE_H

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

/* Only messages that are longer are replaced. */
#define HW_REPLACED_BYTES_MIN (2 * sizeof(struct hw_offer))

void hw_envelope_fill(struct hw_envelope *envelope, enum hw_envelope_kind kind, uint64_t bytes);
static inline size_t hw_hint_bytes(const struct hw_hint *hint)
{
	size_t bytes = offsetof(struct hw_hint, path) + hint->path_bytes + HW_ELEMENTS_BYTES - 1;
	return bytes - bytes % HW_ELEMENTS_BYTES;
}

#endif
