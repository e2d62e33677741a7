/* MPI_Iscatter and MPI_Iscatterv. The root scatters hints in place of the parts; a rank that completes the operation
 * finds what has arrived. MPI's functions with counts accept what is shorter than a part. So no rank has to know
 * beforehand which it will be, and none waits in the call. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/generated-calls.h"
#include "intercept/collectives/rooted.h"
#include "intercept/job/report.h"
#include "intercept/messages/receive.h"
#include "intercept/messages/send.h"
#include "intercept/requests/requests.h"
#include "memory/mapped.h"
#include "memory/records.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "mpi/typed.h"
#include "transfer/envelope.h"
#include "transfer/outstanding.h"
#include "real.h"

static int call_iscatter(const struct hwio_rooted *s, MPI_Request *request)
{
#if MPI_VERSION >= 4
	if (s->is_large && s->has_counts)
		return hwio_real.MPI_Iscatterv_c(s->send, s->large_counts, s->large_displacements, s->send_type,
			s->receive, s->receive_count, s->receive_type, s->root, s->comm, request);
	if (s->is_large)
		return hwio_real.MPI_Iscatter_c(s->send, s->send_count, s->send_type, s->receive, s->receive_count,
			s->receive_type, s->root, s->comm, request);
#endif
	if (s->has_counts)
		return hwio_real.MPI_Iscatterv(s->send, s->counts, s->displacements, s->send_type, s->receive,
			(int)s->receive_count, s->receive_type, s->root, s->comm, request);
	return hwio_real.MPI_Iscatter(s->send, (int)s->send_count, s->send_type, s->receive, (int)s->receive_count,
		s->receive_type, s->root, s->comm, request);
}

/* What each rank's part is in a file; a rank without a file has no bytes. */
struct hints {
	struct hwio_hinted *of;
	/* Bytes of the other ranks' parts. */
	size_t bytes;
	struct hwio_context *context;
};

static void free_hints(const struct hwio_rooted *s, struct hints *hints)
{
	for (int rank = 0; hints->of && rank < s->known->size; rank++)
		if (hints->of[rank].file)
			hwio_hint_end(&hints->of[rank]);
	free(hints->of);
	*hints = (struct hints){0};
}

/* Returns true if the other ranks' parts are in a file, and are read faster than received. */
static bool find_hints(struct hwio_rooted *s, struct hints *hints)
{
	bool is_good = hwio_records_any(HWIO_DEFERRED) || hwio_mapped_is_near(s->send), is_shared = true;
	hints->of = is_good ? calloc((size_t)s->known->size, sizeof(*hints->of)) : NULL;
	for (int rank = 0; hints->of && rank < s->known->size && is_good; rank++) {
		struct hwio_hinted *one = &hints->of[rank];
		MPI_Count count;
		const void *block = HWIO_INSIDE(hwio_rooted_block(s, rank, &count));
		bool is_found = hwio_hint_find(block, count, s->send_type, rank, 0, s->comm, one);
		if (!is_found)
			*one = (struct hwio_hinted){0};
		is_good = is_found || count == 0 || rank == s->root;
		if (!is_found || rank == s->root)
			continue;
		is_shared = is_shared && hwio_mounts_share(&one->file->identity);
		hints->bytes += one->layout.bytes;
		hints->context = one->context;
	}
	is_good = is_good && hints->bytes > 0;
	if (is_good)
		s->why = is_shared ? HWIO_NOT_LEFT : HWIO_LEFT_NOT_SHARED;
	if (is_good && is_shared && hwio_model_scatter_gain(hints->bytes, s->known->size) > 0)
		return true;
	if (is_good && is_shared) {
		hwio_context_observed(hints->context, HWIO_READ_SCATTER, hints->bytes, "messages are not slower");
		hwio_context_switch_off(hints->context, "messages are not slower");
	}
	free_hints(s, hints);
	return false;
}

/* The hints, with what MPI's function needs besides. */
struct message {
	int *counts, *displacements;
	struct hwio_hint hints[];
};

/* Makes the hints. Returns NULL if a file is about to change, or there is no memory: then there is no hint. */
static struct message *make_message(const struct hwio_rooted *s, const struct hints *hints)
{
	int size = s->known->size, made = 0;
	size_t hints_bytes = (size_t)size * sizeof(struct hwio_hint);
	struct message *message = calloc(1, sizeof(*message) + hints_bytes + 2 * (size_t)size * sizeof(int));
	if (!message)
		return NULL;
	message->counts = (int *)((char *)message->hints + hints_bytes);
	message->displacements = message->counts + size;
	for (bool is_good = true; made < size && is_good; made += is_good) {
		if (made == s->root || !hints->of[made].file)
			continue;
		is_good = hwio_hint_make(&hints->of[made], s->known->world_ranks[made], &message->hints[made]);
		message->counts[made] = (int)hwio_hint_bytes(&message->hints[made]);
		message->displacements[made] = made * (int)sizeof(struct hwio_hint);
	}
	if (made == size)
		return message;
	for (int rank = 0; rank < made; rank++)
		if (message->counts[rank] > 0)
			hwio_outstanding_cancel(message->hints[rank].envelope.id, s->known->world_ranks[rank]);
	free(message);
	return NULL;
}

static void verify_hints(const struct hwio_rooted *s, const struct hints *hints, struct message *message)
{
	for (int rank = 0; rank < s->known->size; rank++) {
		MPI_Count count;
		const void *block = HWIO_INSIDE(hwio_rooted_block(s, rank, &count));
		struct hwio_hint *hint = &message->hints[rank];
		if (message->counts[rank] > 0)
			hint->is_verified = hwio_hint_verify(&hints->of[rank], hint->envelope.id, block,
				s->known->world_ranks[rank]);
	}
}

/* Copies the root's own part, from the file if it is there. Returns MPI's code. */
static int copy_own(const struct hwio_rooted *s, const struct hwio_hinted *hinted)
{
	struct hwio_layout layout;
	MPI_Count count;
	if (s->receive == MPI_IN_PLACE)
		return MPI_SUCCESS;
	hwio_step_in();
	bool is_read = false;
	if (hinted->file && hwio_layout_make(&layout, s->receive, s->receive_count, s->receive_type)) {
		is_read = hinted->layout.bytes <= layout.bytes &&
			hwio_runs_transfer(hinted->file->descriptor, &hinted->runs, &layout, false) &&
			hwio_file_is_unchanged(hinted->file);
		hwio_layout_free(&layout);
	}
	const void *block = hwio_rooted_block(s, s->root, &count);
	hwio_step_out();
	size_t bytes = hwio_type_bytes(count, s->send_type);
	if (is_read || bytes == 0)
		return MPI_SUCCESS;
	if (bytes > hwio_type_bytes(s->receive_count, s->receive_type))
		return MPI_ERR_TRUNCATE;
	hwio_uses(block, count, s->send_type);
	char *data = malloc(bytes);
	int result = data ? hwio_typed_read(block, count, s->send_type, data, bytes) : MPI_ERR_NO_MEM;
	if (result == MPI_SUCCESS)
		result = hwio_typed_write(s->receive, s->receive_count, s->receive_type, data, bytes);
	free(data);
	return result;
}

/* Scatters hints in place of the parts. False: the parts are to be sent. */
static bool scatter_hints(struct hwio_rooted *s, MPI_Request *request, int *result)
{
	struct hints hints = {0};
	double begin = hwio_seconds();
	if (!find_hints(s, &hints))
		return false;
	struct message *message = make_message(s, &hints);
	if (!message) {
		free_hints(s, &hints);
		return false;
	}
	verify_hints(s, &hints, message);
	int own = copy_own(s, &hints.of[s->root]);
	struct hwio_rooted by_hints = *s;
	by_hints.send = message->hints;
	by_hints.send_type = MPI_BYTE;
	by_hints.receive = MPI_IN_PLACE;
	by_hints.has_counts = true;
	by_hints.is_large = false;
	by_hints.counts = message->counts;
	by_hints.displacements = message->displacements;
	*result = HWIO_INSIDE(call_iscatter(&by_hints, request));
	hwio_requests_own(*result == MPI_SUCCESS ? *request : MPI_REQUEST_NULL, message);
	if (*result == MPI_SUCCESS && own != MPI_SUCCESS)
		*result = hwio_error(s->comm, own);
	hwio_context_transformed(hints.context, HWIO_READ_SCATTER, hints.bytes,
		hwio_model_saved(hints.bytes, s->known->size, hwio_seconds() - begin));
	free_hints(s, &hints);
	return true;
}

/* What a rank receives. */
struct received {
	void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	bool is_own_type;
};

/* Reads what has arrived as a hint. */
static int finish(void *operation, bool may_defer)
{
	struct received *one = operation;
	(void)may_defer;
	int result = hwio_received_part(one->buffer, one->count, one->type, NULL);
	if (one->is_own_type)
		HWIO_INSIDE(hwio_real.MPI_Type_free(&one->type));
	return result;
}

static int scatter(struct hwio_rooted *s, MPI_Request *request)
{
	bool is_root = hwio_rooted_is_root(s), is_counted = hwio_rooted_goes_by_counts(s);
	int *memory = NULL, result;
	if (hwio_is_busy) {
		hwio_outstanding_poll();
		hwio_uses(s->receive, s->receive_count, s->receive_type);
	}
	if (is_root && scatter_hints(s, request, &result))
		return result;
	if (is_root) {
		hwio_rooted_scatter_left(s);
		if (hwio_is_busy)
			hwio_rooted_fill_source(s);
	}
	struct hwio_rooted counted = *s;
	if (is_counted)
		memory = hwio_rooted_count_parts(&counted);
	result = HWIO_INSIDE(call_iscatter(&counted, request));
	if (is_counted)
		hwio_rooted_end_count(&counted);
	if (memory)
		hwio_requests_own(result == MPI_SUCCESS ? *request : MPI_REQUEST_NULL, memory);
	if (!is_root && result == MPI_SUCCESS) {
		struct received *received = malloc(sizeof(*received));
		/* A hint would be taken for data. */
		if (!received)
			abort();
		*received = (struct received){s->receive, s->receive_count, s->receive_type, false};
		/* The program may free the type while the operation is under way. */
		received->is_own_type = hwio_basic_bytes(s->receive_type) == 0 &&
			HWIO_INSIDE(hwio_real.MPI_Type_dup(s->receive_type, &received->type)) == MPI_SUCCESS;
		hwio_requests_collective(*request, s->comm, finish, received);
	}
	return result;
}

/* Returns true if a hint may be in place of a part, as far as this rank knows. */
static bool may_have_hints(const struct hwio_rooted *s)
{
	if ((hwio_mode != HWIO_AUTO && hwio_mode != HWIO_VERIFY) || !hwio_parts_are_messages)
		return false;
	if (!s->has_counts)
		return hwio_rooted_goes_by_counts(s);
	return hwio_rooted_is_root(s) ? hwio_is_busy || hwio_mapped_is_near(s->send)
				      : hwio_rooted_part_bytes(s) >= HWIO_HINTED_BYTES_MIN;
}

static int enter_iscatter(struct hwio_rooted *s, MPI_Request *request)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return HWIO_INSIDE(call_iscatter(s, request));
	s->known = hwio_comm_of(s->comm);
	bool is_sound = s->known && hwio_rooted_is_sound(s);
	if (is_sound && s->known->size > 1 && may_have_hints(s))
		return scatter(s, request);
	if (is_sound && hwio_rooted_is_root(s)) {
		hwio_rooted_scatter_left(s);
		if (hwio_mode == HWIO_OBSERVE)
			hwio_observe_scatter(s->send, s->known->size, s->send_count, s->send_type);
	}
	if (hwio_is_busy) {
		hwio_communicates();
		if (!is_sound)
			hwio_in_all(s->send);
		else if (hwio_rooted_is_root(s))
			hwio_rooted_fill_source(s);
		hwio_uses(s->receive, s->receive_count, s->receive_type);
	}
	return HWIO_INSIDE(call_iscatter(s, request));
}

/* A function of its own, so that a small scatter is a jump to MPI. */
__attribute__((noinline)) static int enter_alike(const void *send, int send_count, MPI_Datatype send_type,
	void *receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .send_count = send_count, .receive_count = receive_count);
	return enter_iscatter(&s, request);
}

int hwio_MPI_Iscatter(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
	MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	if (hwio_collective_is_short(HWIO_TURN_SCATTER, send_count, send_type, receive_count, receive_type, root,
		    comm) &&
		!hwio_left_is_near(&hwio_left_reads, send))
		return hwio_real.MPI_Iscatter(send, send_count, send_type, receive, receive_count, receive_type, root,
			comm, request);
	return enter_alike(send, send_count, send_type, receive, receive_count, receive_type, root, comm, request);
}

int hwio_MPI_Iscatterv(const void *send, const int counts[], const int displacements[], MPI_Datatype send_type,
	void *receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .has_counts = true, .counts = counts,
		.displacements = displacements, .receive_count = receive_count);
	return enter_iscatter(&s, request);
}

#if MPI_VERSION >= 4
int hwio_MPI_Iscatter_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
	MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .is_large = true, .send_count = send_count,
		.receive_count = receive_count);
	return enter_iscatter(&s, request);
}

int hwio_MPI_Iscatterv_c(const void *send, const MPI_Count counts[], const MPI_Aint displacements[],
	MPI_Datatype send_type, void *receive, MPI_Count receive_count, MPI_Datatype receive_type, int root,
	MPI_Comm comm, MPI_Request *request)
{
	struct hwio_rooted s = HWIO_ROOTED(HWIO_TURN_SCATTER, .has_counts = true, .is_large = true,
		.large_counts = counts, .large_displacements = displacements, .receive_count = receive_count);
	return enter_iscatter(&s, request);
}
#endif
