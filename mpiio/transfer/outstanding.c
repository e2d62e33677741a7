/* The list of hints that were sent. Acknowledgements arrive in any order. */
#include "transfer/outstanding.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/context.h"
#include "memory/deferred.h"
#include "memory/lease.h"
#include "base/waits.h"
#include "mpi/mounts.h"
#include "real.h"

static struct hwio_transfer *list;
/* Copies whose receivers have read the file: they are received and discarded at the end. */
static struct hwio_transfer *obsolete;
static size_t count;
/* Held by the thread that answers or sends, so that no other frees its entry. */
static pthread_mutex_t protocol_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

bool hwio_outstanding_any(void)
{
	return count > 0;
}

bool hwio_outstanding_can_add(void)
{
	return count < HWIO_OUTSTANDING_MAX;
}

static bool read_runs(const struct hwio_transfer *one, void *memory, size_t bytes)
{
	struct hwio_layout all = {.bytes = bytes, .count = 1, .buffer = memory};
	all.single = (struct hwio_block){0, bytes};
	all.blocks = &all.single;
	return hwio_runs_transfer(one->file->descriptor, &one->runs, &all, false);
}

/* The same, by system calls alone. */
static bool read_pieces(const struct hwio_transfer *one, char *memory)
{
	for (uint64_t i = 0; i < hwio_runs_count(&one->runs); i++) {
		struct hwio_run run = hwio_runs_at(&one->runs, i);
		for (uint64_t piece = 0; piece < run.count; piece++, memory += run.bytes)
			if (!hwio_read_whole(one->file->descriptor, memory, run.bytes,
				    (off_t)(run.offset + piece * run.stride)))
				return false;
	}
	return true;
}

/* Reads the data into memory. True: it no longer depends on the file. */
static bool detach_from_file(struct hwio_transfer *one)
{
	size_t bytes = hwio_runs_bytes(&one->runs);
	if (one->state == HWIO_TRANSFER_LATE || one->contents)
		return true;
	/* By number: some MPIs intercept mmap and access state that belongs to the program's thread. */
	long mapped = hwio_libc.syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *memory = (void *)mapped;
	if (memory != MAP_FAILED && read_pieces(one, memory))
		one->contents = memory;
	else if (memory != MAP_FAILED)
		hwio_libc.syscall(SYS_munmap, memory, bytes, 0, 0, 0, 0);
	return one->contents != NULL;
}

/* Reads what other ranks may still request, before another process changes the file. By system calls alone. */
static void preserve(const struct hwio_file *file)
{
	for (struct hwio_transfer *one = list; one; one = one->next)
		if (one->file == file)
			detach_from_file(one);
}

bool hwio_outstanding_hint(uint64_t id, int world_rank, struct hwio_file *file, const struct hwio_runs *runs,
	struct hwio_context *context)
{
	struct hwio_transfer *one = hwio_transfer_make(HWIO_TRANSFER_OFFERED, id, world_rank, context, 0);
	if (!one)
		abort();
	hwio_enter();
	hwio_lease_set_preserve(preserve);
	/* From here on the file doesn't change before its data is preserved. */
	bool is_good = hwio_file_lease(file) && hwio_file_is_unchanged(file);
	if (is_good) {
		hwio_file_retain(file);
		one->file = file;
		one->runs = *runs;
		hwio_transfer_link(&list, one);
		count++;
		hwio_note_busy(HWIO_PART_HINTS, hwio_outstanding_any);
	}
	hwio_leave();
	if (!is_good)
		free(one);
	return is_good;
}

static void free_contents(struct hwio_transfer *one)
{
	if (one->contents)
		hwio_libc.munmap(one->contents, hwio_runs_bytes(&one->runs));
	one->contents = NULL;
}

/* A message of this rank to itself needs no acknowledgement. */
static bool is_own(const struct hwio_transfer *one)
{
	return one->world_rank == hwio_rank;
}

static void note_beginning(uint64_t id, int world_rank)
{
	hwio_enter();
	for (struct hwio_transfer *one = list; one; one = one->next)
		if (one->id == id && one->world_rank == world_rank)
			hwio_transfer_note(one, HWIO_TRANSFER_NOTIFIES);
	hwio_leave();
}

static struct hwio_transfer *remove_outstanding(uint64_t id, int world_rank)
{
	hwio_enter();
	struct hwio_transfer **link = &list, *found = NULL;
	while (*link && !((*link)->id == id && (*link)->world_rank == world_rank))
		link = &(*link)->next;
	if ((found = *link)) {
		*link = found->next;
		count--;
	}
	hwio_note_busy(HWIO_PART_HINTS, hwio_outstanding_any);
	hwio_leave();
	return found;
}

/* Returns the data as it was sent, in new memory; NULL if there is no memory, or the file can't be read. */
static char *read_copy(const struct hwio_transfer *one, size_t bytes)
{
	char *copy = malloc(bytes);
	/* Under the lock no lease is released. */
	hwio_enter();
	bool is_good = copy && (one->contents || read_runs(one, copy, bytes));
	if (is_good && one->contents)
		memcpy(copy, one->contents, bytes);
	hwio_leave();
	if (!is_good) {
		free(copy);
		return NULL;
	}
	return copy;
}

/* Sends the data without waiting. */
static bool push(struct hwio_transfer *one)
{
	size_t bytes = hwio_runs_bytes(&one->runs);
	char *data = read_copy(one, bytes);
	if (!data)
		return false;
	hwio_copy_send(&one->copy, data, bytes, one->world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
	hwio_transfer_note(one, HWIO_TRANSFER_EXPIRES);
	return true;
}

static void report_failure(const struct hwio_transfer *one)
{
	hwio_log("%s can't be read any more, and rank %d waits for its data: %m", one->file->path, one->world_rank);
	hwio_real.MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Reads the data that the receiver couldn't read, and sends it. */
static void send_instead(struct hwio_transfer *one)
{
	size_t bytes = hwio_runs_bytes(&one->runs);
	struct hwio_layout all = {.bytes = bytes, .count = 1, .buffer = read_copy(one, bytes)};
	all.single = (struct hwio_block){0, bytes};
	all.blocks = &all.single;
	if (!all.buffer)
		report_failure(one);
	hwio_stream_send(&all, bytes, one->world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
	free(all.buffer);
}

static void release_outstanding(struct hwio_transfer *one)
{
	free_contents(one);
	hwio_file_release(one->file);
	if (one->state == HWIO_TRANSFER_LATE) {
		hwio_transfer_link(&obsolete, one);
	} else {
		hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
		free(one);
	}
}

static void fill_layout(struct hwio_transfer *one, const struct hwio_layout *layout)
{
	/* Under the lock no lease is released. */
	hwio_enter();
	bool is_good = one->contents || hwio_runs_transfer(one->file->descriptor, &one->runs, layout, false);
	if (one->contents)
		hwio_layout_copy(layout, 0, one->contents, hwio_runs_bytes(&one->runs), true);
	hwio_leave();
	if (!is_good)
		report_failure(one);
	release_outstanding(one);
}

void hwio_outstanding_fill(uint64_t id, const struct hwio_layout *layout)
{
	pthread_mutex_lock(&protocol_lock);
	struct hwio_transfer *one = remove_outstanding(id, hwio_rank);
	if (one)
		fill_layout(one, layout);
	pthread_mutex_unlock(&protocol_lock);
}

void hwio_outstanding_cancel(uint64_t id, int world_rank)
{
	pthread_mutex_lock(&protocol_lock);
	struct hwio_transfer *one = remove_outstanding(id, world_rank);
	if (one)
		release_outstanding(one);
	pthread_mutex_unlock(&protocol_lock);
}

static void handle_ack(const struct hwio_ack *ack, int world_rank)
{
	if (ack->is_begun) {
		note_beginning(ack->id, world_rank);
		return;
	}
	struct hwio_transfer *one = remove_outstanding(ack->id, world_rank);
	if (!one)
		return;
	if (!ack->is_read) {
		if (one->state != HWIO_TRANSFER_LATE)
			send_instead(one);
		hwio_context_touched(one->context, hwio_context_operation(one->context));
	}
	if (!ack->is_same)
		hwio_context_forbid(one->context, "what another rank read was not what was sent");
	release_outstanding(one);
}

void hwio_outstanding_poll(void)
{
	if (count == 0 || hwio_is_copy() || pthread_mutex_trylock(&protocol_lock) != 0)
		return;
	hwio_step_in();
	while (count > 0) {
		int has_arrived = 0;
		MPI_Status status;
		struct hwio_ack ack = {0};
		if (hwio_real.MPI_Iprobe(MPI_ANY_SOURCE, HWIO_TAG_ACK, hwio_control, &has_arrived, &status) !=
				MPI_SUCCESS ||
			!has_arrived)
			break;
		if (hwio_real.MPI_Recv(&ack, sizeof(ack), MPI_BYTE, status.MPI_SOURCE, HWIO_TAG_ACK, hwio_control,
			    MPI_STATUS_IGNORE) != MPI_SUCCESS)
			break;
		handle_ack(&ack, status.MPI_SOURCE);
	}
	hwio_step_out();
	pthread_mutex_unlock(&protocol_lock);
}

static bool depends_on(const struct hwio_transfer *one, const struct hwio_file *file)
{
	return !file ||
		(one->file->identity.device == file->identity.device &&
			one->file->identity.inode == file->identity.inode);
}

static bool is_awaited(const struct hwio_file *file)
{
	bool waits = false;
	hwio_enter();
	for (const struct hwio_transfer *one = list; one && !waits; one = one->next)
		waits = one->state != HWIO_TRANSFER_LATE && !is_own(one) && depends_on(one, file);
	hwio_leave();
	return waits;
}

static void preserve_own(const struct hwio_file *file)
{
	hwio_enter();
	for (struct hwio_transfer *one = list; one; one = one->next)
		if (is_own(one) && depends_on(one, file) && !detach_from_file(one))
			report_failure(one);
	hwio_leave();
}

/* Sends the data to the ranks that have not begun. True if there were any. */
static bool push_to_all(const struct hwio_file *file)
{
	bool is_any = false;
	if (pthread_mutex_trylock(&protocol_lock) != 0)
		return false;
	for (struct hwio_transfer *one = list; one; one = one->next)
		if (one->state == HWIO_TRANSFER_OFFERED && !is_own(one) && depends_on(one, file))
			is_any |= push(one);
	pthread_mutex_unlock(&protocol_lock);
	return is_any;
}

int hwio_outstanding_answer_until(MPI_Request *request)
{
	int is_done = 0, result = MPI_SUCCESS;
	while (result == MPI_SUCCESS && !is_done) {
		result = hwio_real.MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
		if (!is_done && result == MPI_SUCCESS) {
			hwio_outstanding_poll();
			hwio_pause();
		}
	}
	return result;
}

/* Waits until no rank depends on the file. Ranks that have not begun within `timeout_s` are sent the data. True if
 * there were any. */
static bool settle_file(const struct hwio_file *file, double timeout_s)
{
	bool is_any = false;
	double end = hwio_seconds() + timeout_s;
	hwio_step_in();
	for (;;) {
		hwio_outstanding_poll();
		if (hwio_seconds() >= end)
			is_any |= push_to_all(file);
		if (!is_awaited(file))
			break;
		hwio_pause();
	}
	hwio_step_out();
	return is_any;
}

void hwio_outstanding_settle(void)
{
	if (count > 0)
		settle_file(NULL, HWIO_WAIT_BEGINNING_S);
}

void hwio_outstanding_detach(const struct hwio_file *file, bool is_changing)
{
	if (count == 0 || hwio_is_copy())
		return;
	preserve_own(file);
	if (!is_awaited(file))
		return;
	bool is_any = settle_file(file, hwio_mounts_is_one_node() ? 0 : HWIO_WAIT_CHANGE_S);
	/* Receivers recognise by its times that the file has changed. */
	struct timespec tick = {0, HWIO_TICK_NS};
	if (is_any && is_changing)
		nanosleep(&tick, NULL);
}

/* Receives unneeded messages until no rank has any left. */
void hwio_outstanding_finish(void)
{
	MPI_Request all = MPI_REQUEST_NULL;
	int is_over = 0;
	/* A message that the program never receives delays no rank. */
	double end = hwio_seconds() + HWIO_WAIT_FINISH_S;
	hwio_step_in();
	while (!is_over) {
		int has_arrived = 0, bytes = 0;
		MPI_Status status;
		hwio_outstanding_poll();
		hwio_real.MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, hwio_control, &has_arrived, &status);
		if (has_arrived && status.MPI_TAG != HWIO_TAG_ACK &&
			hwio_real.MPI_Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS) {
			char *scratch = malloc((size_t)bytes + 1);
			hwio_real.MPI_Recv(scratch, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, hwio_control,
				MPI_STATUS_IGNORE);
			free(scratch);
		}
		while (obsolete) {
			struct hwio_transfer *one = obsolete;
			if (!hwio_copy_is_sent(&one->copy))
				break;
			hwio_transfer_unlink(&obsolete, one);
			hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
			free(one);
		}
		bool is_empty = (count == 0 && !obsolete) || hwio_seconds() > end;
		if (is_empty && all == MPI_REQUEST_NULL)
			hwio_real.MPI_Ibarrier(hwio_control, &all);
		if (all != MPI_REQUEST_NULL)
			hwio_real.MPI_Test(&all, &is_over, MPI_STATUS_IGNORE);
		if (!is_over)
			hwio_pause();
	}
	hwio_step_out();
}
