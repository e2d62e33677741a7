/* MPI_Scatter and MPI_Scatterv of what was read from a file: each rank reads its own part. Source: Natvig, Elster
 * and Meyer, §III.A, with the hint as a broadcast, as they propose in §VI.
 *
 * Ranks can't know whether the root has an announcement. So before each scatter that is large enough, the root
 * broadcasts an order, or the number of scatters to skip. All ranks of a communicator count alike. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/generated-calls.h"
#include "memory/deferred.h"
#include "memory/mapped.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "mpi/runs.h"
#include "intercept/job/report.h"
#include "transfer/envelope.h"
#include "transfer/incoming.h"
#include "transfer/outstanding.h"
#include "real.h"
#include "intercept/messages/receive.h"
#include "intercept/collectives/rooted.h"

enum action { AS_ALWAYS, BY_FILE };

/* The root's announcement to all ranks. */
struct order {
	uint32_t action, skip;
	uint32_t is_verified;
	uint32_t path_bytes;
	/* Distinguishes this scatter from those of other threads. */
	uint64_t id;
	struct hwio_identity identity;
	char path[HWIO_PATH_BYTES_MAX];
};

/* The root's message to each rank. Without runs, the data is sent. */
struct part {
	uint64_t bytes;
	struct hwio_runs runs;
};

static int call_scatter(const struct hwio_rooted *s)
{
#if MPI_VERSION >= 4
	if (s->is_large)
		return hwio_real.MPI_Scatterv_c(s->send, s->large_counts, s->large_displacements, s->send_type,
			s->receive, s->receive_count, s->receive_type, s->root, s->comm);
#endif
	if (s->has_counts)
		return hwio_real.MPI_Scatterv(s->send, s->counts, s->displacements, s->send_type, s->receive,
			(int)s->receive_count, s->receive_type, s->root, s->comm);
	return hwio_real.MPI_Scatter(s->send, (int)s->send_count, s->send_type, s->receive, (int)s->receive_count,
		s->receive_type, s->root, s->comm);
}

static int scatter_unchanged(const struct hwio_rooted *s)
{
	return HWIO_INSIDE(call_scatter(s));
}

/* MPI is called before the lock is acquired: another thread may hold a lock of MPI and wait for the engine's. */
static bool find_part(struct hwio_rooted *s, int rank, size_t *by_file)
{
	struct hwio_layout layout;
	struct hwio_file *file = NULL;
	MPI_Count count;
	const void *block = hwio_rooted_block(s, rank, &count);
	struct part *part = &s->parts[rank];
	/* The data must fit one message, for ranks that can't read the file. */
	if (count > INT_MAX || !hwio_layout_make(&layout, block, count, s->send_type))
		return false;
	part->bytes = layout.bytes;
	hwio_enter();
	bool is_copy = layout.bytes >= hwio_bytes_min && hwio_may_be_recorded(layout.low, layout.high) &&
		hwio_runs_of(&layout, &part->runs, &file, &s->context, false) && (!s->file || s->file == file);
	if (is_copy && !s->file) {
		s->file = file;
		hwio_file_retain(file);
	}
	hwio_leave();
	hwio_layout_free(&layout);
	if (is_copy) {
		*by_file += rank == s->root ? 0 : part->bytes;
	} else {
		hwio_runs_clear(&part->runs);
	}
	return true;
}

/* Finds out which of the memory that is scattered is a mapping of a file. */
static bool begin_mapped(const struct hwio_rooted *s)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	MPI_Aint lower, extent;
	hwio_real.MPI_Type_get_extent(s->send_type, &lower, &extent);
	for (int rank = 0; rank < s->known->size; rank++) {
		MPI_Count count;
		uintptr_t block = (uintptr_t)hwio_rooted_block(s, rank, &count) + (uintptr_t)lower;
		low = hwio_least(low, block);
		high = hwio_most(high, block + (uintptr_t)count * (uintptr_t)extent);
	}
	return hwio_mapped_begin(low, high);
}

static void release_scatter(struct hwio_rooted *s)
{
	if (s->file)
		hwio_file_release(s->file);
	s->file = NULL;
}

static bool is_scatter_worth_it(struct hwio_rooted *s, size_t by_file)
{
	if (by_file == 0)
		return false;
	s->why = !hwio_mounts_share(&s->file->identity) ? HWIO_LEFT_NOT_SHARED : HWIO_LEFT_CHANGING;
	if (s->why == HWIO_LEFT_NOT_SHARED || !s->file->path[0] || !hwio_file_is_unchanged(s->file))
		return false;
	s->why = HWIO_NOT_LEFT;
	if (hwio_model_scatter_gain(by_file, s->known->size) > 0)
		return true;
	hwio_context_observed(s->context, HWIO_READ_SCATTER, by_file, "messages are not slower");
	hwio_context_switch_off(s->context, "messages are not slower");
	return false;
}

/* Decides whether the scatter is read from a file, and which. */
static bool decide_scatter(struct hwio_rooted *s, struct order *order)
{
	size_t by_file = 0;
	bool is_known = true;
	if (hwio_mode == HWIO_OBSERVE || !(hwio_records_any(HWIO_DEFERRED) || hwio_mapped_is_near(s->send)) ||
		s->receive_count > INT_MAX)
		return false;
	s->parts = calloc((size_t)s->known->size, sizeof(*s->parts));
	if (!s->parts)
		return false;
	bool is_mapped = hwio_mapped_is_near(s->send) && begin_mapped(s);
	for (int rank = 0; rank < s->known->size && is_known; rank++)
		is_known = find_part(s, rank, &by_file);
	if (is_mapped)
		hwio_mapped_end();
	if (!is_known && by_file > 0)
		s->why = HWIO_LEFT_LAYOUT;
	if (!is_known || !is_scatter_worth_it(s, by_file)) {
		release_scatter(s);
		return false;
	}
	order->id = hwio_envelope_id();
	order->identity = s->file->identity;
	order->path_bytes = (uint32_t)strlen(s->file->path) + 1;
	memcpy(order->path, s->file->path, order->path_bytes);
	order->is_verified = hwio_mode == HWIO_VERIFY && s->context && s->context->verified++ < HWIO_VERIFIED_MAX;
	return true;
}

static bool read_scatter_part(const struct part *part, const struct order *order, const struct hwio_layout *layout)
{
	if (part->bytes > layout->bytes || !hwio_path_is_sound(order->path, order->path_bytes) ||
		!hwio_runs_are_sound(&part->runs, part->bytes))
		return false;
	struct hwio_file *file = hwio_file_open(order->path, O_RDONLY, &order->identity);
	if (!file)
		return false;
	bool is_good = hwio_runs_transfer(file->descriptor, &part->runs, layout, false) && hwio_file_is_unchanged(file);
	hwio_file_release(file);
	return is_good;
}

/* Copies the root's own part into its receive buffer. */
static int copy_root_part(const struct hwio_rooted *s)
{
	MPI_Count count;
	const void *block = hwio_rooted_block(s, s->root, &count);
	const struct part *part = &s->parts[s->root];
	struct hwio_layout layout;
	if (s->receive == MPI_IN_PLACE)
		return MPI_SUCCESS;
	if (part->runs.count > 0 && hwio_layout_make(&layout, s->receive, s->receive_count, s->receive_type)) {
		bool is_read = part->bytes <= layout.bytes &&
			hwio_runs_transfer(s->file->descriptor, &part->runs, &layout, false) &&
			hwio_file_is_unchanged(s->file);
		hwio_layout_free(&layout);
		if (is_read)
			return MPI_SUCCESS;
	}
	hwio_uses(block, count, s->send_type);
	/* By MPI's own scatter. */
	return hwio_real.MPI_Scatter(block, (int)count, s->send_type, s->receive, (int)s->receive_count,
		s->receive_type, 0, MPI_COMM_SELF);
}

/* The root sends the data to the ranks that couldn't read, in turn. */
static int serve_ranks(const struct hwio_rooted *s, const int *has_read, uint64_t id)
{
	int result = MPI_SUCCESS;
	for (int rank = 0; rank < s->known->size && result == MPI_SUCCESS; rank++) {
		MPI_Count count;
		const void *block = hwio_rooted_block(s, rank, &count);
		if (rank == s->root || has_read[rank])
			continue;
		hwio_uses(block, count, s->send_type);
		result = hwio_real.MPI_Send(block, (int)count, s->send_type, s->known->world_ranks[rank],
			HWIO_TAG_OF(HWIO_TAG_DATA, id), hwio_control);
	}
	return result;
}

static int scatter_at_root(struct hwio_rooted *s, const struct order *order)
{
	int is_done = 1, result;
	int *has_read = calloc((size_t)s->known->size, sizeof(*has_read));
	if (!has_read)
		abort();
	double begin = hwio_seconds();
	hwio_real.MPI_Scatter(s->parts, sizeof(*s->parts), MPI_BYTE, MPI_IN_PLACE, 0, MPI_BYTE, s->root, s->comm);
	result = copy_root_part(s);
	hwio_real.MPI_Gather(&is_done, 1, MPI_INT, has_read, 1, MPI_INT, s->root, s->comm);
	int refused = 0;
	size_t bytes = 0;
	for (int rank = 0; rank < s->known->size; rank++) {
		refused += !has_read[rank] && s->parts[rank].runs.count > 0;
		bytes += s->parts[rank].bytes;
	}
	int served = serve_ranks(s, has_read, order->id);
	if (refused > 0)
		hwio_context_switch_off(s->context, "another rank can't read the file");
	double took = hwio_seconds() - begin, saved = hwio_model_saved(bytes, s->known->size, took);
	hwio_context_timed(s->context, took, took + saved);
	hwio_context_transformed(s->context, HWIO_READ_SCATTER, bytes, saved);
	free(has_read);
	release_scatter(s);
	return result == MPI_SUCCESS ? served : result;
}

static int receive_part(const struct hwio_rooted *s, const struct order *order)
{
	MPI_Datatype type = s->receive_type;
	int peer = s->known->world_ranks[s->root], count = (int)s->receive_count;
#if MPI_VERSION >= 4
	struct hwio_large large = hwio_large(s->receive_count, &type);
	count = large.count;
#endif
	int result = hwio_real.MPI_Recv(s->receive, count, type, peer, HWIO_TAG_OF(HWIO_TAG_DATA, order->id),
		hwio_control, MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
	hwio_large_free(&large, &type);
#endif
	return result;
}

static int scatter_at_rank(struct hwio_rooted *s, const struct order *order)
{
	struct part part;
	struct hwio_layout layout;
	hwio_real.MPI_Scatter(NULL, 0, MPI_BYTE, &part, sizeof(part), MPI_BYTE, s->root, s->comm);
	int has_read = 0;
	if (part.runs.count > 0 && hwio_layout_make(&layout, s->receive, s->receive_count, s->receive_type)) {
		has_read = read_scatter_part(&part, order, &layout);
		hwio_layout_free(&layout);
	}
	hwio_real.MPI_Gather(&has_read, 1, MPI_INT, NULL, 0, MPI_INT, s->root, s->comm);
	return has_read ? MPI_SUCCESS : receive_part(s, order);
}

/* Scatters by messages, too, and compares; the program gets the result of the messages. */
static int verify(struct hwio_rooted *s, int result)
{
	struct hwio_layout layout;
	int is_same = 1;
	bool is_root = hwio_rooted_is_root(s);
	char *read = NULL;
	hwio_step_in();
	bool is_known = !is_root && hwio_layout_make(&layout, s->receive, s->receive_count, s->receive_type);
	if (is_known && (read = malloc(layout.bytes + 1)))
		hwio_layout_copy(&layout, 0, read, layout.bytes, false);
	hwio_step_out();
	if (is_root)
		hwio_rooted_fill_source(s);
	int second = scatter_unchanged(s);
	hwio_step_in();
	if (read) {
		char *sent = malloc(layout.bytes + 1);
		if (sent) {
			hwio_layout_copy(&layout, 0, sent, layout.bytes, false);
			is_same = memcmp(sent, read, layout.bytes) == 0;
		}
		free(sent);
		free(read);
	}
	if (is_known)
		hwio_layout_free(&layout);
	int all_same = is_same;
	hwio_real.MPI_Reduce(&is_same, &all_same, 1, MPI_INT, MPI_MIN, s->root, s->comm);
	hwio_step_out();
	if (is_root && !all_same)
		hwio_context_forbid(s->context, "what another rank read was not what was sent");
	return result == MPI_SUCCESS ? second : result;
}

static int scatter(struct hwio_rooted *s)
{
	struct order order;
	bool is_root = hwio_rooted_is_root(s);
	struct hwio_turn *turn = hwio_comm_turn(s->known, s->root, HWIO_TURN_SCATTER);
	memset(&order, 0, sizeof(order));
	if (hwio_is_busy) {
		hwio_communicates();
		hwio_uses(s->receive, s->receive_count, s->receive_type);
	}
	if (!hwio_turn_is_due(turn)) {
		if (is_root) {
			hwio_rooted_fill_source(s);
			hwio_rooted_scatter_left(s);
		}
		return scatter_unchanged(s);
	}
	hwio_step_in();
	if (is_root) {
		order.action = decide_scatter(s, &order) ? BY_FILE : AS_ALWAYS;
		order.skip = hwio_turn_skip(turn, order.action == BY_FILE);
	}
	hwio_real.MPI_Bcast(&order, sizeof(order), MPI_BYTE, s->root, s->comm);
	turn->skip = order.skip;
	int result = MPI_SUCCESS;
	if (order.action == BY_FILE)
		result = is_root ? scatter_at_root(s, &order) : scatter_at_rank(s, &order);
	hwio_step_out();
	if (order.action != BY_FILE) {
		if (is_root) {
			hwio_rooted_fill_source(s);
			hwio_rooted_scatter_left(s);
		}
		if (is_root && hwio_mode == HWIO_OBSERVE)
			hwio_observe_scatter(s->send, s->known->size, s->send_count, s->send_type);
		result = scatter_unchanged(s);
	} else if (order.is_verified) {
		result = verify(s, result);
	}
	free(s->parts);
	return result == MPI_SUCCESS ? result : hwio_error(s->comm, result);
}

/* Returns true if the scatter may gain, the same on all ranks; only the root knows the parts of MPI_Scatterv. */
static bool may_scatter_gain(const struct hwio_rooted *s)
{
	if (s->has_counts)
		return true;
	size_t part = hwio_rooted_part_bytes(s);
	return part >= hwio_bytes_min && hwio_model_scatter_gain(part * (size_t)s->known->size, s->known->size) > 0;
}

static int enter_scatter(struct hwio_rooted *s)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return scatter_unchanged(s);
	s->known = hwio_comm_of(s->comm);
	bool is_plain = !s->known || s->root < 0 || s->root >= s->known->size;
	bool is_even = !is_plain && (s->has_counts || hwio_rooted_is_even(s));
	if (is_even && may_scatter_gain(s))
		return scatter(s);
	if (hwio_rooted_is_root(s))
		hwio_rooted_scatter_left(s);
	if (hwio_is_busy) {
		hwio_communicates();
		if (is_plain)
			hwio_in_all(s->send);
		else if (hwio_rooted_is_root(s))
			hwio_rooted_fill_source(s);
		hwio_uses(s->receive, s->receive_count, s->receive_type);
	}
	return scatter_unchanged(s);
}

/* A function of its own, so that a small scatter is a jump to MPI. */
__attribute__((noinline)) static int enter_alike(const void *send, int send_count, MPI_Datatype send_type,
	void *receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .send_count = send_count, .receive_count = receive_count);
	return enter_scatter(&s);
}

__attribute__((noinline)) static void pass_noted(const void *send, int send_count, MPI_Datatype send_type, int root,
	MPI_Comm comm)
{
	struct hwio_rooted s = {.kind = HWIO_TURN_SCATTER,
		.send = send,
		.send_count = send_count,
		.send_type = send_type,
		.root = root,
		.comm = comm,
		.known = hwio_last_comm.known};
	if (hwio_rooted_is_root(&s))
		hwio_rooted_scatter_left(&s);
}

int hwio_MPI_Scatter(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
	MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	if (hwio_collective_passes(HWIO_TURN_SCATTER, send_count, send_type, receive_count, receive_type, root, comm)) {
		if (hwio_left_is_near(&hwio_left_reads, send))
			pass_noted(send, send_count, send_type, root, comm);
		return hwio_real.MPI_Scatter(send, send_count, send_type, receive, receive_count, receive_type, root,
			comm);
	}
	return enter_alike(send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}

int hwio_MPI_Scatterv(const void *send, const int counts[], const int displacements[], MPI_Datatype send_type,
	void *receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .has_counts = true, .counts = counts,
		.displacements = displacements, .receive_count = receive_count);
	return enter_scatter(&s);
}

#if MPI_VERSION >= 4
int hwio_MPI_Scatterv_c(const void *send, const MPI_Count counts[], const MPI_Aint displacements[],
	MPI_Datatype send_type, void *receive, MPI_Count receive_count, MPI_Datatype receive_type, int root,
	MPI_Comm comm)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .has_counts = true, .is_large = true,
		.large_counts = counts, .large_displacements = displacements, .receive_count = receive_count);
	return enter_scatter(&s);
}
#endif
