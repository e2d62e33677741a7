/* Numbers of envelopes, and the types of messages that are none. */
#include "transfer/envelope.h"

#include "real.h"

uint64_t hwio_envelope_id(void)
{
	static uint64_t last;
	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

void hwio_envelope_fill(struct hwio_envelope *envelope, enum hwio_envelope_kind kind, uint64_t bytes)
{
	memset(envelope, 0, sizeof(*envelope));
	memcpy(envelope->cookie, hwio_cookie, HWIO_COOKIE_BYTES);
	envelope->kind = kind;
	envelope->sender = hwio_rank;
	envelope->bytes = bytes;
	envelope->id = hwio_envelope_id();
}

void hwio_cache_short_type(MPI_Datatype type)
{
	static int turn;
	size_t bytes = hwio_basic_bytes(type);
	/* With several threads, no message passes. */
	if (bytes == 0 || hwio_quick.is_watchful)
		return;
	turn = !turn;
	hwio_quick.types[turn] = (uintptr_t)type;
	hwio_quick.counts_max[turn] = (uint32_t)((offsetof(struct hwio_hint, path) - 1) / bytes);
}
