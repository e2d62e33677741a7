/* Receives messages. For a hint, the file is read; an offer is recorded. */
#include "intercept/messages/receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/waits.h"
#include "transfer/exchange/deferred_write.h"
#include "intercept/generated-calls.h"
#include "memory/deferred.h"
#include "memory/pages.h"
#include "mpi/mounts.h"
#include "mpi/typed.h"
#include "intercept/requests/match.h"
#include "intercept/requests/requests.h"
#include "transfer/envelope.h"
#include "transfer/incoming.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "real.h"

#define CACHED_FILES_MAX 8
#define AHEAD_BYTES (4UL << 20)

/* Files that recent hints have named, and where the next hint may lead. */
static struct cached {
	struct hwio_file *file;
	uint64_t offset, stride, advised;
} cached[CACHED_FILES_MAX];
static size_t cached_next;

static struct cached *cached_file(const struct hwio_hint *hint)
{
	for (size_t i = 0; i < CACHED_FILES_MAX; i++)
		if (cached[i].file && strcmp(cached[i].file->path, hint->path) == 0 &&
			hwio_identity_agrees(&cached[i].file->identity, &hint->identity, false))
			return &cached[i];
	double end = hwio_seconds() + (hwio_mounts_is_one_node() ? 0 : HWIO_WAIT_ATTRIBUTES_S);
	struct hwio_file *file;
	while (!(file = hwio_file_open(hint->path, O_RDONLY, &hint->identity)) && errno != ENOLCK &&
		hwio_seconds() < end)
		hwio_pause();
	if (!file)
		return NULL;
	struct cached *slot = &cached[cached_next++ % CACHED_FILES_MAX];
	if (slot->file)
		hwio_file_release(slot->file);
	*slot = (struct cached){.file = file};
	return slot;
}

/* Requests the next rows from the file system, if rows arrive one by one at the same distance. */
static void advise(struct cached *cached, const struct hwio_runs *runs)
{
	const struct hwio_run *run = &runs->run[0];
	if (hwio_runs_count(runs) != 1 || run->count != 1 || run->bytes >= AHEAD_BYTES)
		return;
	uint64_t stride = run->offset - cached->offset;
	/* Rows that overlap are mostly cached already. */
	bool is_apart = run->offset > cached->offset && stride >= run->bytes;
	if (is_apart && stride == cached->stride && stride < AHEAD_BYTES) {
		uint64_t from = cached->advised > run->offset ? cached->advised : run->offset + stride;
		if (from < run->offset + AHEAD_BYTES / 2) {
			for (; from < run->offset + AHEAD_BYTES; from += stride)
				posix_fadvise(cached->file->descriptor, (off_t)from, (off_t)run->bytes,
					POSIX_FADV_WILLNEED);
			cached->advised = from;
		}
	}
	cached->stride = stride;
	cached->offset = run->offset;
}

static bool compare(const struct hwio_hint *hint, const struct hwio_layout *layout)
{
	size_t bytes = hint->envelope.bytes;
	struct hwio_layout sent = {.bytes = bytes, .count = 1, .buffer = malloc(bytes)};
	char *read = malloc(bytes);
	sent.single = (struct hwio_block){0, bytes};
	sent.blocks = &sent.single;
	if (!sent.buffer || !read)
		abort();
	hwio_stream_receive(&sent, bytes, hint->envelope.sender, HWIO_TAG_OF(HWIO_TAG_DATA, hint->envelope.id));
	hwio_layout_copy(layout, 0, read, bytes, false);
	bool is_same = memcmp(read, sent.buffer, bytes) == 0;
	/* The sent data is what the program would have received. */
	hwio_layout_copy(layout, 0, sent.buffer, bytes, true);
	free(read);
	free(sent.buffer);
	return is_same;
}

static void read_hint(const struct hwio_hint *hint, const struct hwio_layout *layout)
{
	if (hint->envelope.sender == hwio_rank) {
		hwio_outstanding_fill(hint->envelope.id, layout);
		return;
	}
	struct hwio_ack ack = {.id = hint->envelope.id, .is_same = 1};
	struct hwio_ack begun = {.id = hint->envelope.id, .is_begun = 1};
	hwio_real.MPI_Send(&begun, sizeof(begun), MPI_BYTE, hint->envelope.sender, HWIO_TAG_ACK, hwio_control);
	struct cached *cached = hwio_hint_is_sound(hint) ? cached_file(hint) : NULL;
	ack.is_read = cached != NULL;
	if (cached)
		advise(cached, &hint->runs);
	ack.is_read = cached && hwio_runs_transfer(cached->file->descriptor, &hint->runs, layout, false) &&
		hwio_file_is_unchanged(cached->file);
	if (hint->is_verified) {
		ack.is_same = compare(hint, layout) || !ack.is_read;
		ack.is_read = 1;
	}
	hwio_real.MPI_Send(&ack, sizeof(ack), MPI_BYTE, hint->envelope.sender, HWIO_TAG_ACK, hwio_control);
	if (!ack.is_read && hwio_offer_any())
		hwio_offer_release();
	if (!ack.is_read)
		hwio_stream_receive(layout, hint->envelope.bytes, hint->envelope.sender,
			HWIO_TAG_OF(HWIO_TAG_DATA, hint->envelope.id));
}

/* An envelope. What an offer has besides stays in the buffer. */
union arrived {
	struct hwio_hint hint;
	struct hwio_envelope envelope;
};

/* The status doesn't have the number of received bytes. */
#define UNKNOWN (-1)

/* Returns true, and copies the envelope, if the buffer begins with one of as many bytes as arrived. The layout has no
 * bytes if the type isn't understood. */
static bool find_envelope(void *buffer, MPI_Count count, MPI_Datatype type, int bytes, struct hwio_layout *layout,
	union arrived *message)
{
	size_t capacity = hwio_type_bytes(count, type), all = bytes == UNKNOWN ? capacity : (size_t)bytes;
	size_t begin = all < sizeof(*message) ? all : sizeof(*message);
	if (capacity < all || all < HWIO_COOKIE_BYTES || (bytes != UNKNOWN && !hwio_may_be_envelope(bytes)))
		return false;
	/* Only long messages are replaced; a short buffer is examined where that costs nothing. */
	if (capacity < hwio_bytes_min &&
		(hwio_basic_bytes(type) == 0 || memcmp(buffer, hwio_cookie, HWIO_COOKIE_BYTES) != 0))
		return false;
	memset(message, 0, sizeof(*message));
	bool is_understood = hwio_layout_make(layout, buffer, count, type);
	if (!is_understood) {
		*layout = (struct hwio_layout){0};
		if (hwio_typed_read(buffer, count, type, message, begin) != MPI_SUCCESS)
			return false;
	} else {
		hwio_layout_copy(layout, 0, message, HWIO_COOKIE_BYTES, false);
		if (memcmp(message, hwio_cookie, HWIO_COOKIE_BYTES) == 0)
			hwio_layout_copy(layout, 0, message, begin, false);
	}
	if (bytes == UNKNOWN)
		all = hwio_message_bytes(message);
	if (all <= capacity && hwio_is_envelope(message, all))
		return true;
	hwio_layout_free(layout);
	return false;
}

/* The fast check, enough for most messages. Pages of a buffer may be protected only while something is deferred. */
static bool is_surely_data(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	size_t element_bytes = hwio_is_busy || count <= 0 || buffer == MPI_BOTTOM ? 0 : hwio_basic_bytes(type);
	return element_bytes > 0 &&
		(element_bytes * (size_t)count < offsetof(struct hwio_hint, path) ||
			memcmp(buffer, hwio_cookie, HWIO_COOKIE_BYTES) != 0);
}

static void set_status(MPI_Status *status, uint64_t bytes)
{
	hwio_real.MPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
}

/* Whether data may be deferred, and the context of the gather that it is of, or NULL. */
struct deferral {
	bool is_allowed;
	struct hwio_context *context;
};

/* Fills or defers the buffer as the envelope states; frees the layout. */
static int place_data(const union arrived *arrived, struct hwio_layout *layout, MPI_Status *status,
	struct deferral deferral)
{
	uint64_t bytes = arrived->envelope.bytes;
	if (bytes > layout->bytes) {
		/* The program's call returns an error; the sender is released. */
		if (arrived->envelope.kind == HWIO_HINT && arrived->hint.is_verified)
			hwio_stream_receive(NULL, bytes, arrived->envelope.sender,
				HWIO_TAG_OF(HWIO_TAG_DATA, arrived->envelope.id));
		hwio_incoming_reject(&arrived->envelope);
		hwio_layout_free(layout);
		return MPI_ERR_TRUNCATE;
	}
	set_status(status, bytes);
	if (arrived->envelope.kind == HWIO_OFFER) {
		hwio_incoming_accept(&arrived->envelope, layout, deferral.is_allowed, deferral.context);
		return MPI_SUCCESS;
	}
	read_hint(&arrived->hint, layout);
	hwio_layout_free(layout);
	return MPI_SUCCESS;
}

/* The same for a buffer of unknown layout: the data is received elsewhere, and MPI copies it. */
static int place_typed(const union arrived *arrived, void *buffer, MPI_Count count, MPI_Datatype type,
	MPI_Status *status)
{
	size_t bytes = arrived->envelope.bytes;
	struct hwio_layout elsewhere;
	char *data = bytes <= hwio_type_bytes(count, type) ? malloc(bytes) : NULL;
	hwio_layout_make(&elsewhere, data, data ? (MPI_Count)bytes : 0, MPI_BYTE);
	int result = place_data(arrived, &elsewhere, status, (struct deferral){0});
	if (result == MPI_SUCCESS)
		result = hwio_typed_write(buffer, count, type, data, bytes);
	free(data);
	return result;
}

/* Finds the addresses between which a buffer lies; with a negative extent, all. False: the buffer is empty. */
static bool find_range(const void *buffer, MPI_Count count, MPI_Datatype type, struct hwio_range *range)
{
	MPI_Aint lower, extent, true_lower, true_extent;
	if (count <= 0 || type == MPI_DATATYPE_NULL ||
		hwio_real.MPI_Type_get_extent(type, &lower, &extent) != MPI_SUCCESS ||
		hwio_real.MPI_Type_get_true_extent(type, &true_lower, &true_extent) != MPI_SUCCESS)
		return false;
	range->low = (uintptr_t)buffer + (uintptr_t)true_lower;
	range->high = range->low + (uintptr_t)((count - 1) * extent + true_extent);
	if (extent < 0)
		*range = (struct hwio_range){0, UINTPTR_MAX};
	return true;
}

static size_t admit(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	struct hwio_range range = {0, 0};
	find_range(buffer, count, type, &range);
	return hwio_pages_admit(range.low, range.high);
}

static int replace_message(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, int bytes,
	MPI_Status *status, struct deferral deferral)
{
	struct hwio_layout layout;
	union arrived arrived;
	hwio_step_in();
	/* Protected pages of other buffers may have parts of this one. */
	size_t admitted = hwio_is_busy ? admit(buffer, count, type) : 0;
	int result = MPI_SUCCESS;
	if (find_envelope(buffer, count, type, bytes, &layout, &arrived))
		result = layout.bytes ? place_data(&arrived, &layout, status, deferral)
				      : place_typed(&arrived, buffer, count, type, status);
	if (hwio_is_exposed)
		hwio_pages_dismiss(admitted);
	hwio_step_out();
	return result == MPI_SUCCESS || comm == MPI_COMM_NULL ? result : hwio_error(comm, result);
}

int hwio_received(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status, bool may_defer)
{
	int bytes = 0;
	if (hwio_mode == HWIO_OFF || is_surely_data(buffer, count, type))
		return MPI_SUCCESS;
	bool is_known = HWIO_INSIDE(hwio_real.MPI_Get_count(status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
		hwio_may_be_envelope(bytes));
	return is_known ? replace_message(buffer, count, type, comm, bytes, status, (struct deferral){may_defer, NULL})
			: MPI_SUCCESS;
}

int hwio_received_unsized(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status)
{
	bool is_plain = hwio_mode == HWIO_OFF || is_surely_data(buffer, count, type);
	return is_plain ? MPI_SUCCESS
			: replace_message(buffer, count, type, comm, UNKNOWN, status, (struct deferral){0});
}

int hwio_received_part(void *buffer, MPI_Count count, MPI_Datatype type, struct hwio_context *context)
{
	MPI_Status unused = {0};
	if (hwio_mode == HWIO_OFF || is_surely_data(buffer, count, type))
		return MPI_SUCCESS;
	return replace_message(buffer, count, type, MPI_COMM_NULL, UNKNOWN, &unused,
		(struct deferral){context != NULL, context});
}

/* True if anything is deferred in the buffer. */
static bool has_deferred_data(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	struct hwio_range range;
	if (!hwio_is_busy || !find_range(buffer, count, type, &range))
		return false;
	/* PEEKED records don't count: they are compared with the file before use. */
	return range.high == UINTPTR_MAX ||
		(hwio_may_be_recorded(range.low, range.high) && hwio_deferred_in(range.low, range.high)) ||
		hwio_incoming_overlaps(range.low, range.high);
}

/* Waits for a message, and carries out a deferred write if that takes long. Meanwhile no receive is posted that could
 * match an offer: its sender would time out while this rank is in an exchange. */
static int match(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	int is_there = 0, result = MPI_SUCCESS;
	while ((hwio_deferred_write_any() || hwio_outstanding_any()) && !is_there && result == MPI_SUCCESS) {
		result = hwio_real.MPI_Improbe(source, tag, comm, &is_there, message, status);
		if (!is_there && result == MPI_SUCCESS) {
			hwio_outstanding_poll();
			hwio_deferred_write_poll(hwio_requests_any_arrived);
			hwio_pause();
		}
	}
	return is_there || result != MPI_SUCCESS ? result : hwio_real.MPI_Mprobe(source, tag, comm, message, status);
}

/* Receives elsewhere what may be an envelope, and releases the part of the buffer for which there is data. Frees the
 * layout. */
static int receive_possible_envelope(struct hwio_layout *layout, int bytes, MPI_Comm comm, MPI_Message *message,
	MPI_Status *status)
{
	union arrived *arrived = calloc(1, sizeof(*arrived) + (size_t)bytes);
	if (!arrived)
		abort();
	int result = hwio_real.MPI_Mrecv(arrived, bytes, MPI_BYTE, message, status), placed = MPI_SUCCESS;
	bool is_ours = result == MPI_SUCCESS && hwio_is_envelope(arrived, (size_t)bytes);
	uint64_t all = is_ours ? arrived->envelope.bytes : (uint64_t)bytes;
	struct hwio_layout part = hwio_layout_prefix(layout, all < layout->bytes ? all : 0);
	size_t admitted = hwio_pages_admit(layout->low, layout->high);
	hwio_out_received(all == layout->bytes ? layout : &part);
	hwio_layout_copy(layout, 0, arrived, (size_t)bytes, true);
	if (is_ours)
		placed = place_data(arrived, layout, status, (struct deferral){!hwio_requests_receiving(), NULL});
	else
		hwio_layout_free(layout);
	hwio_pages_dismiss(admitted);
	free(arrived);
	return placed == MPI_SUCCESS ? result : hwio_error(comm, placed);
}

/* A receive into memory in which something is deferred. Only the part that arrives is released, so the message's
 * size is found first. */
static int receive_over_deferred(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	MPI_Status *status)
{
	MPI_Message message;
	struct hwio_layout layout;
	hwio_outstanding_settle();
	int bytes = 0, result = match(source, tag, comm, &message, status);
	if (result != MPI_SUCCESS)
		return result;
	hwio_real.MPI_Get_count(status, MPI_BYTE, &bytes);
	bool is_known = bytes >= 0 && (size_t)bytes <= hwio_type_bytes(count, type) &&
		hwio_layout_make(&layout, buffer, count, type);
	if (!is_known) {
		hwio_uses(buffer, count, type);
		hwio_incoming_fetch_all();
		result = hwio_real.MPI_Mrecv(buffer, count, type, &message, status);
		return result == MPI_SUCCESS ? hwio_received(buffer, count, type, comm, status, false) : result;
	}
	if (hwio_may_be_envelope(bytes))
		return receive_possible_envelope(&layout, bytes, comm, &message, status);
	struct hwio_layout part = hwio_layout_prefix(&layout, (size_t)bytes);
	size_t admitted = hwio_pages_admit(layout.low, layout.high);
	hwio_out_received((size_t)bytes == layout.bytes ? &layout : &part);
	result = hwio_real.MPI_Mrecv(buffer, count, type, &message, status);
	hwio_pages_dismiss(admitted);
	hwio_layout_free(&layout);
	return result;
}

void hwio_before_receive(void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (hwio_is_busy && hwio_depth == 0) {
		hwio_outstanding_poll();
		/* The message may be shorter than the buffer. */
		hwio_uses(buffer, count, type);
	}
}

/* Answers meanwhile the ranks that wait for this one; other threads' probes don't match the message. */
static int receive_posted(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	bool is_shared, MPI_Status *status)
{
	MPI_Request request;
	int is_done = 0, result = hwio_real.MPI_Irecv(buffer, count, type, source, tag, comm, &request);
	hwio_match_unlock(is_shared);
	while (result == MPI_SUCCESS && !is_done && hwio_outstanding_any()) {
		result = hwio_real.MPI_Test(&request, &is_done, status);
		if (!is_done && result == MPI_SUCCESS) {
			hwio_outstanding_poll();
			hwio_pause();
		}
	}
	return is_done || result != MPI_SUCCESS ? result : hwio_real.MPI_Wait(&request, status);
}

/* Probes first, so that no receive is posted while a write is deferred. */
static int receive_probed(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	MPI_Status *status)
{
	MPI_Message message;
	int result = match(source, tag, comm, &message, status);
	return result == MPI_SUCCESS ? hwio_real.MPI_Mrecv(buffer, count, type, &message, status) : result;
}

/* Completes what is deferred in the memory, and any deferred write, for a message that other threads may match. */
static void complete_deferred(void *buffer, int count, MPI_Datatype type)
{
	hwio_before_receive(buffer, count, type);
	if (hwio_deferred_write_any())
		hwio_incoming_wait();
}

/* A function of its own, so that a message that passes is a jump to MPI. */
__attribute__((noinline)) static int receive_or_not(void *buffer, int count, MPI_Datatype type, int source, int tag,
	MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own;
	MPI_Status *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (hwio_is_short(count, type)) {
		hwio_cache_short_type(type);
		return HWIO_INSIDE(hwio_real.MPI_Recv(buffer, count, type, source, tag, comm, status));
	}
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Recv(buffer, count, type, source, tag, comm, status);
	if (hwio_is_busy)
		hwio_outstanding_poll();
	if (hwio_offer_any())
		hwio_offer_release();
	/* Not as a request: with MPICH that would have another status. */
	if (source == MPI_PROC_NULL)
		return HWIO_INSIDE(hwio_real.MPI_Recv(buffer, count, type, source, tag, comm, status));
	int result;
	bool is_shared = hwio_match_is_shared();
	if (is_shared)
		complete_deferred(buffer, count, type);
	hwio_match_lock(is_shared);
	if (hwio_match_receive(buffer, count, type, source, tag, comm, status, is_shared, &result))
		return result;
	hwio_step_in();
	if (!is_shared && has_deferred_data(buffer, count, type)) {
		result = receive_over_deferred(buffer, count, type, source, tag, comm, actual);
		hwio_step_out();
		return result;
	}
	if (is_shared || (hwio_outstanding_any() && !hwio_deferred_write_any()))
		result = receive_posted(buffer, count, type, source, tag, comm, is_shared, actual);
	else if (hwio_deferred_write_any())
		result = receive_probed(buffer, count, type, source, tag, comm, actual);
	else
		result = hwio_real.MPI_Recv(buffer, count, type, source, tag, comm, actual);
	hwio_step_out();
	if (result == MPI_SUCCESS)
		result = hwio_received(buffer, count, type, comm, actual, !hwio_requests_receiving());
	return result;
}

int hwio_MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	if (hwio_passes(count, type))
		return ((__typeof__(hwio_real.MPI_Recv))hwio_quick.receive)(buffer, count, type, source, tag, comm,
			status);
	return receive_or_not(buffer, count, type, source, tag, comm, status);
}
