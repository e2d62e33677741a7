/* A small collective operation costs all ranks more than the file costs one of them: rank 0 reads or writes for all,
 * and messages do the rest. Source: Natvig, Elster and Meyer, §VI.
 *
 * All ranks must choose the same route. Whether an operation is examined follows from state that is the same on all
 * ranks: their agreement when they opened the file, and their operations since. Each rank sends the others what may
 * differ. */
#include "collective.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../files/change.h"
#include "../generated-calls.h"
#include "../model.h"
#include "control.h"
#include "trial.h"
#include "mounts.h"
#include "real.h"

/* Maximum of all parts together, with the gaps between them. */
#define RANGE_BYTES_MAX (256L << 10)
#define RANKS_MAX 1024
/* Before the data of a read: whether it succeeded. */
#define HEAD_BYTES 8

enum direction { READ, WRITE, DIRECTIONS };
#define COURSE_NUMBERS (sizeof(struct hwio_trial) / sizeof(int64_t))

/* A rank's part of an operation, and its measurements of earlier ones. */
struct part {
	/* `bytes` below 0: the operation can't go through one rank. */
	int64_t offset, bytes;
	int64_t all_ns, all_bytes, one_ns;
};

struct hwio_collective {
	/* A communicator of the file's ranks, without the program's attributes. */
	MPI_Comm comm;
	int rank, size;
	/* True if offsets aren't bytes, or order matters. */
	bool is_left;
	/* The same on all ranks. */
	struct hwio_trial trials[DIRECTIONS];
	/* The trials' steps when the file was opened. */
	int64_t steps[DIRECTIONS];
	struct hwio_pair pairs[DIRECTIONS];
	/* Measurements that this rank has not sent yet. */
	struct part told[DIRECTIONS];
	/* On rank 0 only. */
	struct hwio_context *contexts[DIRECTIONS];
	/* The parts of all ranks; then their counts and displacements for MPI. */
	struct part *parts;
	int *counts, *places;
};

struct call {
	enum direction direction;
	MPI_File file;
	bool has_offset;
	MPI_Offset offset;
	void *buffer;
	int count;
	MPI_Datatype type;
	MPI_Status *status;
	/* The buffer's one block of memory. */
	void *memory;
};

/* The union of all parts. */
struct whole {
	int64_t low, range, bytes;
};

/* A process runs one operation at a time. */
static char *room;

static int64_t nanoseconds_since(double begin)
{
	int64_t took = (int64_t)((hwio_seconds() - begin) * 1e9);
	return took > 0 ? took : 1;
}

/* Returns true if a rank sees at once what another has written. On NFS it does not until it opens the file again, which
 * does not matter for a file that is only read. */
static bool is_coherent(const struct hwio_opened *opened)
{
	struct hwio_identity identity;
	struct stat status;
	int low = opened->descriptor;
	if (hwio_mounts_is_one_node())
		return true;
	if (low < 0 || fstat(low, &status) != 0 || !hwio_identity_of(low, &status, &identity))
		return false;
	bool is_read_only = identity.file_system == NFS_SUPER_MAGIC && (opened->mode & MPI_MODE_RDONLY);
	return is_read_only ? hwio_mounts_share(&identity) : hwio_mounts_are_seen_at_once(&identity);
}

/* Returns true with several threads: a rank's operations aren't in one order. */
static bool has_threads(void)
{
	int level = MPI_THREAD_MULTIPLE;
	hwio_real.MPI_Query_thread(&level);
	return level == MPI_THREAD_MULTIPLE;
}

static struct hwio_trial known_course(struct hwio_context *context)
{
	if (hwio_context_is_off(context))
		return (struct hwio_trial){.step = HWIO_COURSE_OVER};
	return hwio_model_is_forced() ? (struct hwio_trial){.step = HWIO_COURSE_FORCED} : context->trial;
}

static bool is_trial_over(const struct hwio_collective *c, enum direction way)
{
	return c->trials[way].step == HWIO_COURSE_OVER;
}

static void free_collective(struct hwio_collective *c)
{
	if (c) {
		free(c->parts);
		free(c->counts);
	}
	free(c);
}

static struct hwio_collective *make_collective(const struct hwio_comm *known)
{
	struct hwio_collective *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	*c = (struct hwio_collective){.comm = MPI_COMM_NULL, .rank = known->rank, .size = known->size};
	c->parts = calloc((size_t)c->size, sizeof(*c->parts));
	c->counts = calloc((size_t)c->size * 2, sizeof(*c->counts));
	c->places = c->counts ? c->counts + c->size : NULL;
	if (!room)
		room = malloc(HEAD_BYTES + RANGE_BYTES_MAX);
	if (c->parts && c->counts && room)
		return c;
	free_collective(c);
	return NULL;
}

struct hwio_collective *hwio_collective_open(MPI_Comm comm, const struct hwio_opened *opened)
{
	const struct hwio_comm *known = hwio_comm_of(comm);
	const int strange = MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_SEQUENTIAL;
	int64_t mine[1 + DIRECTIONS * COURSE_NUMBERS], all[1 + DIRECTIONS * COURSE_NUMBERS];
	bool can = opened && known->size <= RANKS_MAX && hwio_mode != HWIO_VERIFY && !(opened->mode & strange) &&
		!has_threads() && is_coherent(opened);
	struct hwio_collective *c = can ? make_collective(known) : NULL;
	for (size_t i = 0; i < sizeof(mine) / sizeof(*mine); i++)
		mine[i] = INT64_MAX;
	mine[0] = c != NULL;
	/* Rank 0's trial counts; other ranks may never have reached this call site. */
	for (int way = 0; c && c->rank == 0 && way < DIRECTIONS; way++) {
		bool is_possible = !(opened->mode & (way == READ ? MPI_MODE_WRONLY : MPI_MODE_RDONLY));
		c->contexts[way] = is_possible ? hwio_context_here(way == READ ? HWIO_OP_READ_ALL : HWIO_OP_WRITE_ALL)
					       : NULL;
		struct hwio_trial trial = known_course(c->contexts[way]);
		memcpy(&mine[1 + (size_t)way * COURSE_NUMBERS], &trial, sizeof(trial));
	}
	hwio_real.MPI_Allreduce(mine, all, (int)(sizeof(mine) / sizeof(*mine)), MPI_INT64_T, MPI_MIN, comm);
	bool is_agreed = c && all[0];
	if (is_agreed)
		memcpy(c->trials, &all[1], sizeof(c->trials));
	for (int way = 0; is_agreed && way < DIRECTIONS; way++)
		c->steps[way] = c->trials[way].step;
	if (is_agreed && (!is_trial_over(c, READ) || !is_trial_over(c, WRITE)) &&
		hwio_real.MPI_Comm_split(comm, 0, c->rank, &c->comm) == MPI_SUCCESS) {
		hwio_real.MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
		return c;
	}
	free_collective(c);
	return NULL;
}

/* Sends each rank's part to all. False, on all ranks: MPI failed. */
static bool share_parts(struct hwio_collective *c, enum direction way, const struct part *mine)
{
	int numbers = sizeof(*mine) / sizeof(int64_t);
	if (hwio_real.MPI_Allgather(mine, numbers, MPI_INT64_T, c->parts, numbers, MPI_INT64_T, c->comm) != MPI_SUCCESS)
		return false;
	/* The last rank to arrive has not waited: its time is the operation's. */
	int64_t all_ns = INT64_MAX, one_ns = INT64_MAX, all_bytes = 0;
	for (int i = 0; i < c->size; i++) {
		const struct part *part = &c->parts[i];
		all_ns = part->all_ns < all_ns ? part->all_ns : all_ns;
		one_ns = part->one_ns < one_ns ? part->one_ns : one_ns;
		all_bytes += part->all_bytes;
	}
	hwio_trial_learns(&c->trials[way], &c->pairs[way], all_ns, all_bytes, one_ns);
	c->told[way] = (struct part){0};
	return true;
}

void hwio_collective_leave(struct hwio_collective *c)
{
	c->is_left = true;
}

void hwio_collective_close(struct hwio_collective *c)
{
	hwio_step_in();
	for (int way = 0; way < DIRECTIONS; way++) {
		struct part mine = c->told[way];
		mine.bytes = -1;
		if (c->pairs[way].is_comparable)
			share_parts(c, way, &mine);
		hwio_trial_pauses(&c->trials[way], c->steps[way]);
		if (c->contexts[way] && c->trials[way].step != HWIO_COURSE_FORCED)
			c->contexts[way]->trial = c->trials[way];
	}
	hwio_real.MPI_Comm_free(&c->comm);
	free_collective(c);
	hwio_step_out();
}

static int call_original(const struct call *call)
{
	if (call->direction == READ)
		return call->has_offset
			? hwio_real.MPI_File_read_at_all(call->file, call->offset, call->buffer, call->count,
				  call->type, call->status)
			: hwio_real.MPI_File_read_all(call->file, call->buffer, call->count, call->type, call->status);
	return call->has_offset
		? hwio_real.MPI_File_write_at_all(call->file, call->offset, call->buffer, call->count, call->type,
			  call->status)
		: hwio_real.MPI_File_write_all(call->file, call->buffer, call->count, call->type, call->status);
}

static struct part part_of(struct call *call, const struct part *told)
{
	struct part part = *told;
	size_t bytes = 0;
	part.bytes = -1;
	part.offset = call->offset;
	if (!call->has_offset) {
		MPI_Offset position;
		if (hwio_real.MPI_File_get_position(call->file, &position) != MPI_SUCCESS)
			return part;
		part.offset = position;
	}
	bool is_valid = call->count >= 0 && call->type != MPI_DATATYPE_NULL && part.offset >= 0;
	if (is_valid && call->count > 0)
		call->memory = hwio_contiguous(call->buffer, call->count, call->type, &bytes);
	if (is_valid && (call->count == 0 || (uintptr_t)call->memory >= HWIO_PAGE_BYTES) && bytes <= RANGE_BYTES_MAX &&
		part.offset <= INT64_MAX - RANGE_BYTES_MAX)
		part.bytes = (int64_t)bytes;
	return part;
}

/* Computes the union. Writes must be contiguous in the order of the ranks; reads may have gaps and overlaps. */
static bool survey(const struct hwio_collective *c, enum direction way, struct whole *whole)
{
	int64_t low = INT64_MAX, high = 0, bytes = 0;
	for (int i = 0; i < c->size; i++) {
		const struct part *part = &c->parts[i];
		if (part->bytes < 0 || (way == WRITE && part->bytes > 0 && bytes > 0 && part->offset != high))
			return false;
		if (part->bytes == 0)
			continue;
		low = part->offset < low ? part->offset : low;
		high = part->offset + part->bytes > high ? part->offset + part->bytes : high;
		bytes += part->bytes;
	}
	*whole = (struct whole){low, high - low, bytes};
	return bytes > 0 && high - low <= RANGE_BYTES_MAX && high - low <= 2 * bytes;
}

/* Reads or writes at rank 0. After a failure, the original is called, which reports it to the program's handler. */
static bool transfer_own(const struct call *call, const struct whole *whole)
{
	MPI_Errhandler handler;
	MPI_Status status;
	int result, moved = 0;
	if (hwio_real.MPI_File_get_errhandler(call->file, &handler) != MPI_SUCCESS)
		return false;
	hwio_real.MPI_File_set_errhandler(call->file, MPI_ERRORS_RETURN);
	char *data = room + HEAD_BYTES;
	if (call->direction == READ)
		result = hwio_real.MPI_File_read_at(call->file, whole->low, data, (int)whole->range, MPI_BYTE, &status);
	else
		result = hwio_real.MPI_File_write_at(call->file, whole->low, data, (int)whole->range, MPI_BYTE,
			&status);
	hwio_real.MPI_File_set_errhandler(call->file, handler);
	hwio_real.MPI_Errhandler_free(&handler);
	return result == MPI_SUCCESS && hwio_real.MPI_Get_count(&status, MPI_BYTE, &moved) == MPI_SUCCESS &&
		moved == whole->range;
}

static bool read_by_one(const struct hwio_collective *c, const struct call *call, const struct whole *whole)
{
	const struct part *mine = &c->parts[c->rank];
	int64_t is_good = c->rank == 0 && transfer_own(call, whole);
	memcpy(room, &is_good, sizeof(is_good));
	hwio_real.MPI_Bcast(room, (int)(HEAD_BYTES + whole->range), MPI_BYTE, 0, c->comm);
	memcpy(&is_good, room, sizeof(is_good));
	/* By MPI, which can write memory that processors can't access. */
	if (is_good && mine->bytes > 0)
		hwio_real.MPI_Sendrecv(room + HEAD_BYTES + (mine->offset - whole->low), (int)mine->bytes, MPI_BYTE,
			c->rank, 0, call->memory, (int)mine->bytes, MPI_BYTE, c->rank, 0, c->comm, MPI_STATUS_IGNORE);
	return is_good;
}

static bool write_by_one(const struct hwio_collective *c, const struct call *call, const struct whole *whole)
{
	int at = HEAD_BYTES, is_good = 0;
	for (int i = 0; i < c->size; at += c->counts[i++]) {
		c->counts[i] = (int)c->parts[i].bytes;
		c->places[i] = at;
	}
	hwio_real.MPI_Gatherv(call->memory, c->counts[c->rank], MPI_BYTE, room, c->counts, c->places, MPI_BYTE, 0,
		c->comm);
	if (c->rank == 0)
		is_good = transfer_own(call, whole);
	hwio_real.MPI_Bcast(&is_good, 1, MPI_INT, 0, c->comm);
	return is_good;
}

/* Sets the status and position as the original would. */
static void finish(const struct hwio_collective *c, const struct call *call)
{
	const struct part *mine = &c->parts[c->rank];
	hwio_status_set(call->status, (size_t)mine->bytes);
	if (!call->has_offset)
		hwio_real.MPI_File_seek(call->file, mine->offset + mine->bytes, MPI_SEEK_SET);
}

static void tell_of(struct hwio_collective *c, enum direction way, const struct whole *whole, bool was_done,
	const char *why)
{
	struct hwio_context *context = c->contexts[way];
	const struct hwio_trial *trial = &c->trials[way];
	if (context && was_done) {
		int64_t saved_ns = trial->one_ns > 0 && trial->one_ns < trial->all_ns ? trial->all_ns - trial->one_ns
										      : 0;
		hwio_context_transformed(context, HWIO_COLLECTIVE, (uint64_t)whole->bytes, (double)saved_ns / 1e9);
	}
	if (context && why)
		hwio_context_switch_off(context, why);
}

/* Runs an operation on which all ranks agree. */
static int asked(struct hwio_collective *c, struct call *call)
{
	enum direction way = call->direction;
	double begin = hwio_seconds();
	struct part mine = part_of(call, &c->told[way]);
	struct whole whole = {0};
	const char *why = NULL;
	bool was_done = false;
	if (!share_parts(c, way, &mine)) {
		c->is_left = true;
		return call_original(call);
	}
	bool can = survey(c, way, &whole);
	if (hwio_trial_takes(&c->trials[way], &c->pairs[way], can, whole.bytes, &why)) {
		was_done = way == READ ? read_by_one(c, call, &whole) : write_by_one(c, call, &whole);
		hwio_trial_has_taken(&c->trials[way], was_done, &why);
	}
	if (was_done) {
		finish(c, call);
		c->told[way].one_ns = nanoseconds_since(begin);
	}
	tell_of(c, way, &whole, was_done, why);
	return was_done ? MPI_SUCCESS : call_original(call);
}

/* Runs the original, and measures it. */
static int timed(struct hwio_collective *c, const struct call *call)
{
	double begin = hwio_seconds();
	int result = call_original(call);
	c->told[call->direction].all_ns = nanoseconds_since(begin);
	c->told[call->direction].all_bytes = (int64_t)hwio_type_bytes(call->count, call->type);
	hwio_trial_passes(&c->trials[call->direction]);
	return result;
}

static int looked_at(struct hwio_collective *c, struct call *call)
{
	struct hwio_context *context = c->contexts[call->direction];
	size_t bytes = hwio_type_bytes(call->count, call->type);
	if (context)
		hwio_context_begins(context);
	if (hwio_mode != HWIO_OBSERVE)
		return hwio_trial_asks(&c->trials[call->direction]) ? asked(c, call) : timed(c, call);
	if (context && bytes > 0 && bytes <= RANGE_BYTES_MAX / (size_t)c->size)
		hwio_context_seen(context, HWIO_COLLECTIVE, bytes, "one rank may be quicker");
	return call_original(call);
}

static int run_call(struct call call)
{
	struct hwio_opened *one = hwio_depth == 0 && hwio_mode != HWIO_OFF ? hwio_opened_of(call.file) : NULL;
	bool is_settled = hwio_is_busy && hwio_depth == 0, is_changed = is_settled && one && one->descriptor >= 0;
	if (is_settled) {
		hwio_communicates();
		call.direction == READ ? hwio_inout(call.buffer, call.count, call.type)
				       : hwio_in(call.buffer, call.count, call.type);
	}
	if (is_changed && call.direction == WRITE)
		hwio_before_change(one->descriptor, 0, INT64_MAX);
	hwio_step_in();
	struct hwio_collective *c = one ? one->collective : NULL;
	bool is_left = !c || c->is_left || is_trial_over(c, call.direction);
	int result = is_left ? call_original(&call) : looked_at(c, &call);
	hwio_step_out();
	if (is_changed && call.direction == WRITE)
		hwio_after_change(one->descriptor);
	return result;
}

int hwio_MPI_File_read_at_all(MPI_File file, MPI_Offset offset, void *buffer, int count, MPI_Datatype type,
	MPI_Status *status)
{
	return run_call((struct call){READ, file, true, offset, buffer, count, type, status, NULL});
}

int hwio_MPI_File_read_all(MPI_File file, void *buffer, int count, MPI_Datatype type, MPI_Status *status)
{
	return run_call((struct call){READ, file, false, 0, buffer, count, type, status, NULL});
}

int hwio_MPI_File_write_at_all(MPI_File file, MPI_Offset offset, const void *buffer, int count, MPI_Datatype type,
	MPI_Status *status)
{
	return run_call((struct call){WRITE, file, true, offset, (void *)(uintptr_t)buffer, count, type, status, NULL});
}

int hwio_MPI_File_write_all(MPI_File file, const void *buffer, int count, MPI_Datatype type, MPI_Status *status)
{
	return run_call((struct call){WRITE, file, false, 0, (void *)(uintptr_t)buffer, count, type, status, NULL});
}
