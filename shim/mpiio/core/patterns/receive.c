/* Hints are answered by reading the file, offers by taking note of them. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../context.h"
#include "../exchange/held.h"
#include "../generated-calls.h"
#include "../memory/deferred.h"
#include "../memory/pages.h"
#include "../mpi/typed.h"
#include "../requests/match.h"
#include "../requests/requests.h"
#include "envelope.h"
#include "incoming.h"
#include "offer.h"
#include "outstanding.h"
#include "real.h"

/* Attributes that a node has kept may be a little older than the file. */
#define PATIENCE_SECONDS 3.0
#define HELD_FILES 8
#define AHEAD_BYTES (4UL << 20)

/* Files that hints have named lately, and where in them the next hint may lead. */
static struct held {
	struct hw_file *file;
	uint64_t offset, stride, advised;
} held[HELD_FILES];
static size_t held_next;

static struct hw_file *open_file(const struct hw_hint *hint)
{
	hw_enter();
	struct hw_file *file = hw_file_open(hint->path, O_RDONLY, &hint->identity);
	int saved = errno;
	hw_leave();
	errno = saved;
	return file;
}

static struct held *hold(const struct hw_hint *hint)
{
	for (size_t i = 0; i < HELD_FILES; i++)
		if (held[i].file && strcmp(held[i].file->path, hint->path) == 0 &&
		    hw_identity_agrees(&held[i].file->identity, &hint->identity, false))
			return &held[i];
	double end = hw_seconds() + PATIENCE_SECONDS;
	struct hw_file *file;
	while (!(file = open_file(hint)) && errno != ENOLCK && hw_seconds() < end)
		hw_pause();
	if (!file)
		return NULL;
	struct held *place = &held[held_next++ % HELD_FILES];
	hw_enter();
	if (place->file)
		hw_file_release(place->file);
	*place = (struct held){.file = file};
	hw_leave();
	return place;
}

/* Rows that come one by one, at the same distance, are asked of the file system together. */
static void advise(struct held *held, const struct hw_runs *runs)
{
	const struct hw_run *run = &runs->run[0];
	if (runs->count != 1 || run->count != 1 || run->bytes >= AHEAD_BYTES)
		return;
	uint64_t stride = run->offset - held->offset;
	/* Rows that overlap are many, and mostly there already. */
	bool is_apart = run->offset > held->offset && stride >= run->bytes;
	if (is_apart && stride == held->stride && stride < AHEAD_BYTES) {
		uint64_t from = held->advised > run->offset ? held->advised : run->offset + stride;
		if (from < run->offset + AHEAD_BYTES / 2) {
			for (; from < run->offset + AHEAD_BYTES; from += stride)
				posix_fadvise(held->file->descriptor, (off_t)from, (off_t)run->bytes, POSIX_FADV_WILLNEED);
			held->advised = from;
		}
	}
	held->stride = stride;
	held->offset = run->offset;
}

static bool compare(const struct hw_hint *hint, const struct hw_layout *layout)
{
	size_t bytes = hint->envelope.bytes;
	struct hw_layout sent = {.bytes = bytes, .count = 1, .buffer = malloc(bytes)};
	char *read = malloc(bytes);
	sent.single = (struct hw_block){0, bytes};
	sent.blocks = &sent.single;
	if (!sent.buffer || !read)
		abort();
	hw_stream_receive(&sent, bytes, hint->envelope.sender, HW_TAG_OF(HW_TAG_DATA, hint->envelope.id));
	hw_layout_copy(layout, 0, read, bytes, false);
	bool is_same = memcmp(read, sent.buffer, bytes) == 0;
	/* What was sent is what the program would have got. */
	hw_layout_copy(layout, 0, sent.buffer, bytes, true);
	free(read);
	free(sent.buffer);
	return is_same;
}

static void take_hint(const struct hw_hint *hint, const struct hw_layout *layout)
{
	if (hint->envelope.sender == hw_rank) {
		hw_outstanding_fill(hint->envelope.id, layout);
		return;
	}
	struct hw_ack ack = {.id = hint->envelope.id, .is_same = 1};
	struct hw_ack begun = {.id = hint->envelope.id, .is_begun = 1};
	hw_real.MPI_Send(&begun, sizeof(begun), MPI_BYTE, hint->envelope.sender, HW_TAG_ACK, hw_control);
	struct held *held = hw_hint_is_sound(hint) ? hold(hint) : NULL;
	ack.is_read = held != NULL;
	if (held)
		advise(held, &hint->runs);
	ack.is_read = held && hw_runs_transfer(held->file->descriptor, &hint->runs, layout, false) &&
		      hw_file_is_unchanged(held->file);
	if (hint->is_verified) {
		ack.is_same = compare(hint, layout) || !ack.is_read;
		ack.is_read = 1;
	}
	hw_real.MPI_Send(&ack, sizeof(ack), MPI_BYTE, hint->envelope.sender, HW_TAG_ACK, hw_control);
	if (!ack.is_read)
		hw_stream_receive(layout, hint->envelope.bytes, hint->envelope.sender,
				  HW_TAG_OF(HW_TAG_DATA, hint->envelope.id));
}

union arrived {
	struct hw_offer offer;
	struct hw_hint hint;
	struct hw_envelope envelope;
};

/* How many bytes a receive got, if its status says so. */
#define UNKNOWN (-1)

/*
 * Whether the buffer begins with a message of ours, of as many bytes as arrived; if so it is copied. The layout has no
 * bytes if it isn't understood.
 */
static bool recognise(void *buffer, MPI_Count count, MPI_Datatype type, int bytes, struct hw_layout *layout,
		      union arrived *message)
{
	size_t room = hw_type_bytes(count, type), all = room < sizeof(*message) ? room : sizeof(*message);
	if (bytes != UNKNOWN)
		all = (size_t)bytes;
	if (room < all || all < HW_COOKIE_BYTES || (bytes != UNKNOWN && !hw_may_be_ours(bytes)))
		return false;
	/* Only long messages are replaced; a short buffer is looked at where that costs nothing. */
	if (room < hw_bytes_min && (hw_basic_bytes(type) == 0 || memcmp(buffer, hw_cookie, HW_COOKIE_BYTES) != 0))
		return false;
	memset(message, 0, sizeof(*message));
	bool is_understood = hw_layout_make(layout, buffer, count, type);
	if (!is_understood) {
		*layout = (struct hw_layout){0};
		if (hw_typed_read(buffer, count, type, message, all) != MPI_SUCCESS)
			return false;
	} else {
		hw_layout_copy(layout, 0, message, HW_COOKIE_BYTES, false);
		if (memcmp(message, hw_cookie, HW_COOKIE_BYTES) == 0)
			hw_layout_copy(layout, 0, message, all, false);
	}
	if (hw_is_ours(message, bytes == UNKNOWN ? hw_message_bytes(message) : all))
		return true;
	hw_layout_free(layout);
	return false;
}

/* The look that most messages need. Pages of a buffer may be protected only while something is put off. */
static bool is_plainly_not_ours(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	size_t element_bytes = hw_is_busy || count <= 0 || buffer == MPI_BOTTOM ? 0 : hw_basic_bytes(type);
	return element_bytes > 0 && (element_bytes * (size_t)count < offsetof(struct hw_hint, path) ||
				     memcmp(buffer, hw_cookie, HW_COOKIE_BYTES) != 0);
}

static void set_status(MPI_Status *status, uint64_t bytes)
{
	hw_real.MPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
}

/* Makes the buffer what the message of ours says; frees the layout. */
static int take(const union arrived *arrived, struct hw_layout *layout, MPI_Status *status, bool may_defer)
{
	uint64_t bytes = arrived->envelope.bytes;
	if (bytes > layout->bytes) {
		/* What the program gets of it is an error; whoever sent it is released. */
		if (arrived->envelope.kind == HW_HINT && arrived->hint.is_verified)
			hw_stream_receive(NULL, bytes, arrived->envelope.sender,
					  HW_TAG_OF(HW_TAG_DATA, arrived->envelope.id));
		hw_incoming_refuse(&arrived->envelope);
		hw_layout_free(layout);
		return MPI_ERR_TRUNCATE;
	}
	set_status(status, bytes);
	if (arrived->envelope.kind == HW_OFFER) {
		hw_incoming_take(&arrived->offer, layout, may_defer);
		return MPI_SUCCESS;
	}
	take_hint(&arrived->hint, layout);
	hw_layout_free(layout);
	return MPI_SUCCESS;
}

/* The same for a buffer whose layout isn't understood: the data is had elsewhere, and MPI puts it there. */
static int take_typed(const union arrived *arrived, void *buffer, MPI_Count count, MPI_Datatype type, MPI_Status *status)
{
	size_t bytes = arrived->envelope.bytes;
	struct hw_layout elsewhere;
	char *data = bytes <= hw_type_bytes(count, type) ? malloc(bytes) : NULL;
	hw_layout_make(&elsewhere, data, data ? (MPI_Count)bytes : 0, MPI_BYTE);
	int result = take(arrived, &elsewhere, status, false);
	if (result == MPI_SUCCESS)
		result = hw_typed_write(buffer, count, type, data, bytes);
	free(data);
	return result;
}

/* Between which addresses a buffer lies; all of them where elements come before each other. False: it has none. */
static bool find_range(const void *buffer, MPI_Count count, MPI_Datatype type, struct hw_range *range)
{
	MPI_Aint lower, extent, true_lower, true_extent;
	if (count <= 0 || type == MPI_DATATYPE_NULL ||
	    hw_real.MPI_Type_get_extent(type, &lower, &extent) != MPI_SUCCESS ||
	    hw_real.MPI_Type_get_true_extent(type, &true_lower, &true_extent) != MPI_SUCCESS)
		return false;
	range->low = (uintptr_t)buffer + (uintptr_t)true_lower;
	range->high = range->low + (uintptr_t)((count - 1) * extent + true_extent);
	if (extent < 0)
		*range = (struct hw_range){0, UINTPTR_MAX};
	return true;
}

static size_t admit(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	struct hw_range range = {0, 0};
	find_range(buffer, count, type, &range);
	return hw_pages_admit(range.low, range.high);
}

static int see_to(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, int bytes, MPI_Status *status,
		  bool may_defer)
{
	struct hw_layout layout;
	union arrived arrived;
	hw_step_in();
	/* Other buffers' protected pages may have parts of this one between their own. */
	size_t admitted = hw_is_busy ? admit(buffer, count, type) : 0;
	int result = MPI_SUCCESS;
	if (recognise(buffer, count, type, bytes, &layout, &arrived))
		result = layout.bytes ? take(&arrived, &layout, status, may_defer)
				      : take_typed(&arrived, buffer, count, type, status);
	if (hw_is_exposed)
		hw_pages_dismiss(admitted);
	hw_step_out();
	return result == MPI_SUCCESS || comm == MPI_COMM_NULL ? result : hw_error(comm, result);
}

int hw_received(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status, bool may_defer)
{
	int bytes = 0;
	if (hw_mode == HW_OFF || is_plainly_not_ours(buffer, count, type))
		return MPI_SUCCESS;
	hw_step_in();
	bool is_known = hw_real.MPI_Get_count(status, MPI_BYTE, &bytes) == MPI_SUCCESS && hw_may_be_ours(bytes);
	hw_step_out();
	return is_known ? see_to(buffer, count, type, comm, bytes, status, may_defer) : MPI_SUCCESS;
}

int hw_received_unsized(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status)
{
	bool is_plain = hw_mode == HW_OFF || is_plainly_not_ours(buffer, count, type);
	return is_plain ? MPI_SUCCESS : see_to(buffer, count, type, comm, UNKNOWN, status, false);
}

/* Whether the buffer lies where anything is put off. */
static bool is_concerned(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	struct hw_range range;
	if (!hw_is_busy || !find_range(buffer, count, type, &range))
		return false;
	/* What is only known to be a copy is compared before it is relied on. */
	return range.high == UINTPTR_MAX ||
	       (hw_may_be_recorded(range.low, range.high) && hw_deferred_in(range.low, range.high)) ||
	       hw_incoming_overlaps(range.low, range.high);
}

/*
 * Waits for a message; a write that is held isn't for long. Nothing is posted meanwhile that an offer could match: its
 * sender would lose patience while this rank is in an exchange.
 */
static int match(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	int is_there = 0, result = MPI_SUCCESS;
	while ((hw_held_any() || hw_outstanding_any()) && !is_there && result == MPI_SUCCESS) {
		result = hw_real.MPI_Improbe(source, tag, comm, &is_there, message, status);
		if (!is_there && result == MPI_SUCCESS) {
			hw_outstanding_poll();
			hw_held_poll();
			hw_pause();
		}
	}
	return is_there || result != MPI_SUCCESS ? result : hw_real.MPI_Mprobe(source, tag, comm, message, status);
}

/*
 * A receive into memory of which something is put off: only what arrives is given up, so its size is looked at first.
 * What may be ours is received elsewhere.
 */
static int receive_beside(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
			  MPI_Status *status)
{
	MPI_Message message;
	struct hw_layout layout;
	union arrived arrived;
	hw_outstanding_settle();
	int bytes = 0, result = match(source, tag, comm, &message, status);
	if (result != MPI_SUCCESS)
		return result;
	hw_real.MPI_Get_count(status, MPI_BYTE, &bytes);
	bool is_known = bytes >= 0 && (size_t)bytes <= hw_type_bytes(count, type) &&
			hw_layout_make(&layout, buffer, count, type);
	if (!is_known) {
		hw_inout(buffer, count, type);
		hw_incoming_fetch_all();
		result = hw_real.MPI_Mrecv(buffer, count, type, &message, status);
		return result == MPI_SUCCESS ? hw_received(buffer, count, type, comm, status, false) : result;
	}
	struct hw_layout part;
	if (hw_may_be_ours(bytes)) {
		result = hw_real.MPI_Mrecv(&arrived, bytes, MPI_BYTE, &message, status);
		bool is_ours = result == MPI_SUCCESS && hw_is_ours(&arrived, (size_t)bytes);
		uint64_t all = is_ours ? arrived.envelope.bytes : (uint64_t)bytes;
		part = hw_layout_prefix(&layout, all < layout.bytes ? all : 0);
		hw_out_received(all == layout.bytes ? &layout : &part);
		size_t admitted = hw_pages_admit(layout.low, layout.high);
		if (is_ours) {
			result = take(&arrived, &layout, status, !hw_requests_receiving());
			hw_pages_dismiss(admitted);
			return result == MPI_SUCCESS ? result : hw_error(comm, result);
		}
		hw_layout_copy(&layout, 0, &arrived, (size_t)bytes, true);
	} else {
		part = hw_layout_prefix(&layout, (size_t)bytes);
		hw_out_received((size_t)bytes == layout.bytes ? &layout : &part);
		size_t admitted = hw_pages_admit(layout.low, layout.high);
		result = hw_real.MPI_Mrecv(buffer, count, type, &message, status);
		hw_pages_dismiss(admitted);
	}
	hw_layout_free(&layout);
	return result;
}

void hw_before_receive(void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (hw_is_busy && hw_depth == 0) {
		hw_outstanding_poll();
		/* Less may come than there is room for. */
		hw_inout(buffer, count, type);
	}
}

/* Those who wait for an answer of this rank get it meanwhile; other threads' probes don't get what this is for. */
static int receive_posted(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
			  bool is_shared, MPI_Status *status)
{
	MPI_Request request;
	int is_done = 0, result = hw_real.MPI_Irecv(buffer, count, type, source, tag, comm, &request);
	hw_match_unlock(is_shared);
	while (result == MPI_SUCCESS && !is_done && hw_outstanding_any()) {
		result = hw_real.MPI_Test(&request, &is_done, status);
		if (!is_done && result == MPI_SUCCESS) {
			hw_outstanding_poll();
			hw_pause();
		}
	}
	return is_done || result != MPI_SUCCESS ? result : hw_real.MPI_Wait(&request, status);
}

/* By probing, so that nothing is posted while a write is held. */
static int receive_probed(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
			  MPI_Status *status)
{
	MPI_Message message;
	int result = match(source, tag, comm, &message, status);
	return result == MPI_SUCCESS ? hw_real.MPI_Mrecv(buffer, count, type, &message, status) : result;
}

/* What other threads may match: nothing is put off in the memory, and no write is held. */
static void make_plain(void *buffer, int count, MPI_Datatype type)
{
	hw_before_receive(buffer, count, type);
	if (hw_held_any())
		hw_incoming_wait();
}

/* Apart, so that a message that passes is a jump to MPI. */
__attribute__((noinline)) static int receive_or_not(void *buffer, int count, MPI_Datatype type, int source, int tag,
						    MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own;
	MPI_Status *kept = status == MPI_STATUS_IGNORE ? &own : status;
	if (hw_is_short(count, type)) {
		hw_pass_from_now_on(type);
		return HW_INSIDE(hw_real.MPI_Recv(buffer, count, type, source, tag, comm, status));
	}
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Recv(buffer, count, type, source, tag, comm, status);
	if (hw_is_busy)
		hw_outstanding_poll();
	if (hw_offer_any())
		hw_offer_release();
	/* As a request it would have another status with MPICH. */
	if (source == MPI_PROC_NULL)
		return HW_INSIDE(hw_real.MPI_Recv(buffer, count, type, source, tag, comm, status));
	int result;
	bool is_shared = hw_match_is_shared();
	if (is_shared)
		make_plain(buffer, count, type);
	hw_match_lock(is_shared);
	if (hw_match_taken(buffer, count, type, source, tag, comm, status, is_shared, &result))
		return result;
	hw_step_in();
	if (!is_shared && is_concerned(buffer, count, type)) {
		result = receive_beside(buffer, count, type, source, tag, comm, kept);
		hw_step_out();
		return result;
	}
	if (is_shared || (hw_outstanding_any() && !hw_held_any()))
		result = receive_posted(buffer, count, type, source, tag, comm, is_shared, kept);
	else if (hw_held_any())
		result = receive_probed(buffer, count, type, source, tag, comm, kept);
	else
		result = hw_real.MPI_Recv(buffer, count, type, source, tag, comm, kept);
	hw_step_out();
	if (result == MPI_SUCCESS)
		result = hw_received(buffer, count, type, comm, kept, !hw_requests_receiving());
	return result;
}

int hw_MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	if (hw_passes(count, type))
		return ((__typeof__(hw_real.MPI_Recv))hw_quick.receive)(buffer, count, type, source, tag, comm, status);
	return receive_or_not(buffer, count, type, source, tag, comm, status);
}
