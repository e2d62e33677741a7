/* Pieces in a ring. A reader has a thread that reads its pieces in turn, as far ahead as memory allows: what a file
 * system reads ahead by itself would be for other ranks' pieces, and some drop requests ahead. */
#include "transfer/sharing.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/signals.h"
#include "mpi/nodes.h"
#include "real.h"

/* A piece is large enough for a file system, and small enough for several to be under way. It passes all ranks one after
 * another, so there are so many times as many pieces as ranks. */
#define PIECE_BYTES_MIN (256UL << 10)
#define PIECE_BYTES_MAX (1UL << 20)
#define PIECES_OF_RANK 4
/* So many pieces are under way at once; of these, so many are awaited. */
#define SLOTS 8
#define AWAITED 4
#define STACK_BYTES (128UL << 10)

struct piece {
	size_t at, bytes;
};

struct ring {
	const struct hwio_sharing *sharing;
	const struct hwio_ring *ranks;
	size_t piece_bytes, pieces;
	int tag;
	MPI_Request receiving[SLOTS], sending[SLOTS];
	/* The thread, and its pieces that are there. */
	pthread_t thread;
	bool has_thread, has_failed;
	sem_t read;
};

static size_t piece_bytes_of(size_t bytes, int ranks)
{
	size_t even = bytes / ((size_t)ranks * PIECES_OF_RANK) & ~(PIECE_BYTES_MIN - 1);
	if (even < PIECE_BYTES_MIN)
		return PIECE_BYTES_MIN;
	return even < PIECE_BYTES_MAX ? even : PIECE_BYTES_MAX;
}

static struct ring ring_of(const struct hwio_sharing *sharing)
{
	size_t bytes = sharing->layout->bytes;
	struct ring ring = {.sharing = sharing,
		.ranks = hwio_nodes_ring(sharing->comm),
		.piece_bytes = piece_bytes_of(bytes, sharing->comm->size),
		.tag = HWIO_TAG_OF(HWIO_TAG_PIECE, sharing->id & ~HWIO_ID_OF_GATHER)};
	ring.pieces = (bytes + ring.piece_bytes - 1) / ring.piece_bytes;
	for (int i = 0; i < SLOTS; i++)
		ring.receiving[i] = ring.sending[i] = MPI_REQUEST_NULL;
	return ring;
}

static struct piece piece_of(const struct ring *ring, size_t index)
{
	size_t at = index * ring->piece_bytes, left = ring->sharing->layout->bytes - at;
	return (struct piece){at, left < ring->piece_bytes ? left : ring->piece_bytes};
}

/* Cuts the part of the file that a piece has. False: it has too many runs. */
static bool cut(const struct hwio_runs *all, struct piece piece, struct hwio_runs *part)
{
	uint64_t at = 0, low = piece.at, high = piece.at + piece.bytes;
	hwio_runs_clear(part);
	for (uint64_t i = 0; i < hwio_runs_count(all); i++) {
		struct hwio_run run = hwio_runs_at(all, i);
		for (uint64_t n = 0; n < run.count && at < high; n++, at += run.bytes) {
			uint64_t from = at > low ? at : low, to = at + run.bytes < high ? at + run.bytes : high;
			if (from < to && !hwio_runs_append(part, run.offset + n * run.stride + (from - at), to - from))
				return false;
		}
	}
	return true;
}

bool hwio_sharing_prepare(struct hwio_sharing *sharing)
{
	struct ring ring = ring_of(sharing);
	struct hwio_runs part;
	bool is_possible = ring.ranks != NULL;
	if (sharing->layout->count > 1)
		is_possible &= (sharing->staging = malloc(SLOTS * ring.piece_bytes)) != NULL;
	for (size_t i = 0; i < ring.pieces && is_possible; i++)
		is_possible = cut(sharing->runs, piece_of(&ring, i), &part);
	return is_possible;
}

static int reader_of(const struct ring *ring, size_t index)
{
	return ring->ranks->leaders[index % (size_t)ring->ranks->leader_count];
}

static bool is_own(const struct ring *ring, size_t index)
{
	return reader_of(ring, index) == ring->sharing->comm->rank;
}

static char *memory_of(const struct ring *ring, size_t index)
{
	const struct hwio_layout *layout = ring->sharing->layout;
	if (ring->sharing->staging)
		return ring->sharing->staging + index % SLOTS * ring->piece_bytes;
	return layout->buffer + layout->blocks[0].at + index * ring->piece_bytes;
}

static bool read_piece(const struct ring *ring, size_t index)
{
	struct piece piece = piece_of(ring, index);
	struct hwio_runs part;
	struct hwio_layout layout = {.buffer = memory_of(ring, index), .bytes = piece.bytes, .count = 1};
	layout.single = (struct hwio_block){.at = 0, .bytes = piece.bytes};
	layout.blocks = &layout.single;
	return cut(ring->sharing->runs, piece, &part) &&
		hwio_runs_transfer(ring->sharing->file->descriptor, &part, &layout, false);
}

static void *read_pieces(void *argument)
{
	struct ring *ring = argument;
	/* None of this thread's calls is the program's. */
	hwio_step_in();
	for (size_t i = 0; i < ring->pieces; i++) {
		if (!is_own(ring, i))
			continue;
		if (!read_piece(ring, i))
			__atomic_store_n(&ring->has_failed, true, __ATOMIC_RELAXED);
		sem_post(&ring->read);
	}
	return NULL;
}

/* Starts the thread if this rank reads; without one, it reads each piece when its turn comes. */
static void start_reading(struct ring *ring)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	bool is_reader = false;
	for (size_t i = 0; i < ring->pieces && i < (size_t)ring->ranks->leader_count; i++)
		is_reader |= is_own(ring, i);
	if (!is_reader || ring->sharing->staging || pthread_attr_init(&attributes) != 0)
		return;
	if (sem_init(&ring->read, 0, 0) == 0) {
		/* The C library takes the guard's page from it. */
		pthread_attr_setstacksize(&attributes, STACK_BYTES + hwio_page_bytes);
		hwio_signals_block(&all);
		hwio_libc.pthread_sigmask(SIG_SETMASK, &all, &before);
		ring->has_thread = hwio_libc.pthread_create(&ring->thread, &attributes, read_pieces, ring) == 0;
		hwio_libc.pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_attr_destroy(&attributes);
}

/* Waits for the thread; other ranks' messages are handled meanwhile. */
static void await_piece(struct ring *ring)
{
	int is_any;
	while (sem_trywait(&ring->read) != 0) {
		hwio_real.MPI_Iprobe(MPI_ANY_SOURCE, ring->tag, hwio_control, &is_any, MPI_STATUS_IGNORE);
		hwio_pause();
	}
}

static int world_rank(const struct ring *ring, int rank)
{
	return ring->sharing->comm->world_ranks[rank];
}

/* Posts the receive of a piece, once its slot is free. */
static bool await(struct ring *ring, size_t index)
{
	if (index >= ring->pieces)
		return true;
	bool is_good = hwio_wait_sparingly(&ring->sending[index % SLOTS]) == MPI_SUCCESS;
	if (is_own(ring, index))
		return is_good;
	return is_good &&
		hwio_real.MPI_Irecv(memory_of(ring, index), (int)piece_of(ring, index).bytes, MPI_BYTE,
			world_rank(ring, ring->ranks->previous), ring->tag, hwio_control,
			&ring->receiving[index % SLOTS]) == MPI_SUCCESS;
}

/* Has a piece, and passes it on even if it couldn't be read: the other ranks wait for it. */
static bool pass_on(struct ring *ring, size_t index)
{
	struct piece piece = piece_of(ring, index);
	bool is_good = true;
	if (is_own(ring, index) && ring->has_thread)
		await_piece(ring);
	else if (is_own(ring, index))
		is_good = read_piece(ring, index);
	else
		is_good = hwio_wait_sparingly(&ring->receiving[index % SLOTS]) == MPI_SUCCESS;
	if (ring->ranks->next != reader_of(ring, index))
		is_good &= hwio_real.MPI_Isend(memory_of(ring, index), (int)piece.bytes, MPI_BYTE,
				   world_rank(ring, ring->ranks->next), ring->tag, hwio_control,
				   &ring->sending[index % SLOTS]) == MPI_SUCCESS;
	if (ring->sharing->staging)
		hwio_layout_copy(ring->sharing->layout, piece.at, memory_of(ring, index), piece.bytes, true);
	return is_good;
}

bool hwio_sharing_read(const struct hwio_sharing *sharing)
{
	struct ring ring = ring_of(sharing);
	bool is_good = true;
	/* The kernel's own requests ahead would be for other ranks' pieces. */
	posix_fadvise(sharing->file->descriptor, 0, 0, POSIX_FADV_RANDOM);
	start_reading(&ring);
	for (size_t i = 0; i < AWAITED; i++)
		is_good &= await(&ring, i);
	for (size_t i = 0; i < ring.pieces; i++) {
		is_good &= await(&ring, i + AWAITED);
		is_good &= pass_on(&ring, i);
	}
	for (size_t i = 0; i < SLOTS; i++)
		is_good &= hwio_wait_sparingly(&ring.sending[i]) == MPI_SUCCESS;
	if (ring.has_thread) {
		pthread_join(ring.thread, NULL);
		sem_destroy(&ring.read);
	}
	posix_fadvise(sharing->file->descriptor, 0, 0, POSIX_FADV_NORMAL);
	return is_good && !ring.has_failed && hwio_file_is_unchanged(sharing->file);
}

void hwio_sharing_free(struct hwio_sharing *sharing)
{
	free(sharing->staging);
}
