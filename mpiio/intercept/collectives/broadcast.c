/* MPI_Bcast of what was read from a file. Where each node has the file in its memory, each rank reads it. Otherwise the
 * nodes share the reading: each piece is read by one of them, and travels round a ring of all ranks while the next
 * pieces are read. So the file system sends each byte once, and no rank waits for all of them first. Source: Natvig,
 * Elster and Meyer, §III.G, for collective reads, and §III.A for what the root announces. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "intercept/collectives/rooted.h"
#include "intercept/generated-calls.h"
#include "intercept/job/report.h"
#include "memory/deferred.h"
#include "memory/mapped.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "mpi/runs.h"
#include "real.h"
#include "transfer/envelope.h"
#include "transfer/sharing.h"

enum action { AS_ALWAYS, BY_EACH, TOGETHER };

/* The root's announcement to all ranks. */
struct order {
	uint32_t action, skip;
	uint32_t is_verified;
	uint32_t path_bytes;
	uint64_t bytes;
	/* Distinguishes this broadcast from those of other threads. */
	uint64_t id;
	struct hwio_identity identity;
	struct hwio_runs runs;
	char path[HWIO_PATH_BYTES_MAX];
};

/* What one rank does. At the root, the file is the one that it has read. */
struct part {
	struct hwio_layout layout;
	struct hwio_file *file;
	bool is_known;
};

static int broadcast_unchanged(const struct hwio_rooted *b)
{
#if MPI_VERSION >= 4
	if (b->is_large)
		return HWIO_INSIDE(hwio_real.MPI_Bcast_c(b->receive, b->receive_count, b->receive_type, b->root,
			b->comm));
#endif
	return HWIO_INSIDE(hwio_real.MPI_Bcast(b->receive, (int)b->receive_count, b->receive_type, b->root, b->comm));
}

/* Returns true if the reading of the found runs may be shared, and is faster. */
static bool can_share(struct hwio_rooted *b, const struct hwio_file *file, const struct order *order)
{
	if (hwio_is_threaded()) {
		/* Another thread may read the root's memory meanwhile. */
		b->why = HWIO_LEFT_THREADS;
		return false;
	}
	/* What the root has in memory is sent at once, and other nodes would have to read it. */
	if (hwio_model_broadcast_gain(order->bytes, false) > 0 &&
		(hwio_model_is_forced() || !hwio_file_is_cached(file, (off_t)order->runs.run[0].offset, order->bytes)))
		return true;
	b->why = HWIO_LEFT_NO_GAIN;
	return false;
}

/* Decides at the root; `part` has its layout and file. */
static enum action decide(struct hwio_rooted *b, struct order *order, struct part *part)
{
	struct hwio_file *file = NULL;
	bool is_mapped = hwio_mapped_is_near(b->receive);
	if (hwio_mode == HWIO_OBSERVE || !(hwio_records_any(HWIO_DEFERRED) || is_mapped))
		return AS_ALWAYS;
	part->is_known = hwio_layout_make(&part->layout, b->receive, b->receive_count, b->receive_type);
	if (!part->is_known)
		return AS_ALWAYS;
	hwio_enter();
	is_mapped = is_mapped && hwio_mapped_begin(part->layout.low, part->layout.high);
	if (hwio_may_be_recorded(part->layout.low, part->layout.high) &&
		hwio_runs_of(&part->layout, &order->runs, &file, &b->context, false)) {
		part->file = file;
		hwio_file_retain(file);
	}
	if (is_mapped)
		hwio_mapped_end();
	hwio_leave();
	if (!part->file)
		return AS_ALWAYS;
	b->why = !hwio_mounts_share(&file->identity) ? HWIO_LEFT_NOT_SHARED : HWIO_LEFT_CHANGING;
	if (b->why == HWIO_LEFT_NOT_SHARED || !file->path[0] || !hwio_file_is_unchanged(file))
		return AS_ALWAYS;
	b->why = HWIO_NOT_LEFT;
	order->bytes = part->layout.bytes;
	order->id = hwio_envelope_id();
	order->identity = file->identity;
	order->path_bytes = (uint32_t)strlen(file->path) + 1;
	memcpy(order->path, file->path, order->path_bytes);
	bool is_near = hwio_mounts_is_near(&file->identity);
	/* Nothing may be received into a mapping of the file. */
	if (!is_near && is_mapped)
		b->why = HWIO_LEFT_OPENED;
	if (!is_near && (is_mapped || !can_share(b, file, order)))
		return AS_ALWAYS;
	order->is_verified = hwio_mode == HWIO_VERIFY && b->context && b->context->verified++ < HWIO_VERIFIED_MAX;
	return is_near ? BY_EACH : TOGETHER;
}

static void release_part(struct part *part)
{
	if (part->file)
		hwio_file_release(part->file);
	if (part->is_known)
		hwio_layout_free(&part->layout);
}

/* Prepares a rank that isn't the root. Returns true if it can read. */
static bool open_part(const struct hwio_rooted *b, const struct order *order, struct part *part)
{
	part->is_known = hwio_layout_make(&part->layout, b->receive, b->receive_count, b->receive_type);
	if (!part->is_known || part->layout.bytes != order->bytes ||
		!hwio_path_is_sound(order->path, order->path_bytes) || !hwio_runs_are_sound(&order->runs, order->bytes))
		return false;
	part->file = hwio_file_open(order->path, O_RDONLY, &order->identity);
	return part->file != NULL;
}

/* Returns true if it is so on all ranks. */
static bool agree(const struct hwio_rooted *b, bool is_so)
{
	int mine = is_so, all = 0;
	int result = hwio_real.MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, b->comm);
	return result == MPI_SUCCESS && all;
}

/* Each rank reads all; the root's memory is filled as if it was accessed. */
static bool read_by_each(const struct hwio_rooted *b, const struct order *order, const struct part *part)
{
	if (!hwio_rooted_is_root(b))
		return hwio_runs_transfer(part->file->descriptor, &order->runs, &part->layout, false) &&
			hwio_file_is_unchanged(part->file);
	hwio_uses(b->receive, b->receive_count, b->receive_type);
	return true;
}

/* Returns true if all ranks have all of it; false on all ranks alike. */
static bool read_together(const struct hwio_rooted *b, const struct order *order, const struct part *part,
	bool can_read)
{
	bool is_root = hwio_rooted_is_root(b);
	struct hwio_sharing sharing = {
		.comm = b->known, .id = order->id, .file = part->file, .runs = &order->runs, .layout = &part->layout};
	bool is_good = agree(b, can_read && hwio_sharing_prepare(&sharing));
	if (is_good) {
		if (is_root)
			hwio_out(b->receive, b->receive_count, b->receive_type);
		is_good = agree(b, hwio_sharing_read(&sharing));
		if (!is_good && is_root)
			hwio_deferred_check(part->file,
				hwio_runs_transfer(part->file->descriptor, &order->runs, &part->layout, false));
	}
	hwio_sharing_free(&sharing);
	return is_good;
}

static void leave(const struct hwio_rooted *b, size_t bytes, const char *why)
{
	hwio_context_observed(b->context, HWIO_READ_BROADCAST, bytes, why);
	hwio_context_switch_off(b->context, why);
}

static int transform(struct hwio_rooted *b, const struct order *order, struct part *part)
{
	bool is_root = hwio_rooted_is_root(b);
	double begin = hwio_seconds();
	if (is_root)
		hwio_context_used(b->context);
	bool can_read = is_root || open_part(b, order, part), is_done;
	if (order->action == TOGETHER)
		is_done = read_together(b, order, part, can_read);
	else
		is_done = agree(b, can_read && read_by_each(b, order, part));
	double took = hwio_seconds() - begin, saved = hwio_model_saved(order->bytes, 2, took);
	if (is_root && is_done) {
		hwio_context_timed(b->context, took, took + saved);
		hwio_context_transformed(b->context, HWIO_READ_BROADCAST, order->bytes, saved);
	}
	if (is_root && !is_done)
		leave(b, order->bytes, "another rank can't read the file, or its datatype is not understood");
	if (!is_done && is_root)
		hwio_uses(b->receive, b->receive_count, b->receive_type);
	return is_done ? MPI_SUCCESS : broadcast_unchanged(b);
}

/* Broadcasts by messages, too, and compares; the program gets the result of the messages. */
static int verify(struct hwio_rooted *b)
{
	struct hwio_layout layout;
	char *read = NULL;
	int is_same = 1, all_same = 1;
	hwio_step_in();
	bool is_known = hwio_layout_make(&layout, b->receive, b->receive_count, b->receive_type);
	if (is_known && (read = malloc(layout.bytes * 2 + 1)))
		hwio_layout_copy(&layout, 0, read, layout.bytes, false);
	hwio_step_out();
	int result = broadcast_unchanged(b);
	hwio_step_in();
	if (read) {
		hwio_layout_copy(&layout, 0, read + layout.bytes, layout.bytes, false);
		is_same = memcmp(read, read + layout.bytes, layout.bytes) == 0;
	}
	free(read);
	if (is_known)
		hwio_layout_free(&layout);
	hwio_real.MPI_Reduce(&is_same, &all_same, 1, MPI_INT, MPI_MIN, b->root, b->comm);
	hwio_step_out();
	if (hwio_rooted_is_root(b) && !all_same)
		hwio_context_forbid(b->context, "what another rank read was not what was sent");
	return result;
}

/* Records that the root's broadcast is not transformed. */
static void note_left(const struct hwio_rooted *b)
{
	size_t bytes = hwio_rooted_part_bytes(b);
	if (b->why != HWIO_NOT_LEFT)
		hwio_left_count(HWIO_READ_BROADCAST, bytes, b->why);
	else if (hwio_left_any_unsent() || hwio_left_reads.high != 0)
		hwio_left_forwarded(HWIO_READ_BROADCAST, b->receive, bytes);
}

static int broadcast_always(const struct hwio_rooted *b)
{
	if (hwio_is_busy)
		hwio_uses(b->receive, b->receive_count, b->receive_type);
	if (hwio_rooted_is_root(b))
		note_left(b);
	return broadcast_unchanged(b);
}

static int broadcast(struct hwio_rooted *b)
{
	struct order order;
	struct part part = {.file = NULL};
	bool is_root = hwio_rooted_is_root(b);
	struct hwio_turn *turn = hwio_comm_turn(b->known, b->root, HWIO_TURN_BROADCAST);
	if (!hwio_turn_is_due(turn))
		return broadcast_always(b);
	memset(&order, 0, sizeof(order));
	if (!is_root && hwio_is_busy)
		hwio_uses(b->receive, b->receive_count, b->receive_type);
	hwio_step_in();
	if (is_root) {
		order.action = decide(b, &order, &part);
		order.skip = hwio_turn_skip(turn, order.action != AS_ALWAYS);
	}
	hwio_real.MPI_Bcast(&order, sizeof(order), MPI_BYTE, b->root, b->comm);
	turn->skip = order.skip;
	int result = MPI_SUCCESS;
	if (order.action != AS_ALWAYS)
		result = transform(b, &order, &part);
	release_part(&part);
	hwio_step_out();
	if (order.action == AS_ALWAYS) {
		if (is_root && hwio_mode == HWIO_OBSERVE)
			hwio_observe_broadcast(b->receive, b->receive_count, b->receive_type);
		return broadcast_always(b);
	}
	return order.is_verified ? verify(b) : result;
}

/* Returns true if the broadcast may gain, the same on all ranks. */
static bool may_gain(const struct hwio_rooted *b)
{
	size_t bytes = hwio_rooted_part_bytes(b);
	return bytes >= hwio_bytes_min && hwio_model_broadcast_gain(bytes, hwio_mounts_is_one_node()) > 0;
}

static int enter_broadcast(struct hwio_rooted *b)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return broadcast_unchanged(b);
	b->known = hwio_comm_of(b->comm);
	if (hwio_is_busy)
		hwio_communicates();
	if (!b->known || b->root < 0 || b->root >= b->known->size) {
		if (hwio_is_busy)
			hwio_uses(b->receive, b->receive_count, b->receive_type);
		return broadcast_unchanged(b);
	}
	return may_gain(b) && hwio_rooted_is_even(b) ? broadcast(b) : broadcast_always(b);
}

/* A function of its own, so that a small broadcast is a jump to MPI. */
__attribute__((noinline)) static int enter_alike(void *buffer, MPI_Count count, MPI_Datatype type, int root,
	MPI_Comm comm, bool is_large)
{
	struct hwio_rooted b = {.kind = HWIO_TURN_BROADCAST,
		.send = buffer,
		.send_count = count,
		.send_type = type,
		.receive = buffer,
		.receive_count = count,
		.receive_type = type,
		.is_large = is_large,
		.root = root,
		.comm = comm};
	return enter_broadcast(&b);
}

/* Small broadcasts aren't compared with the other ranks': a rank may send one and go on before the others are there, and
 * programs rely on it. */
int hwio_MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	if (!hwio_quick.is_watchful && hwio_depth == 0 && !hwio_left_is_near(&hwio_left_reads, buffer) &&
		hwio_is_basic_below(count, type, hwio_bytes_min))
		return hwio_real.MPI_Bcast(buffer, count, type, root, comm);
	return enter_alike(buffer, count, type, root, comm, false);
}

#if MPI_VERSION >= 4
int hwio_MPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm)
{
	return enter_alike(buffer, count, type, root, comm, true);
}
#endif
