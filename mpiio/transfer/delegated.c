/* Each sender writes its own part, and this rank the rest. If all space could be reserved, the program's write returns
 * before the others' writes have ended, as from a page cache, unless the program could read the file meanwhile.
 * Otherwise it returns when all have ended. */
#include "transfer/delegated.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/context.h"
#include "transfer/exchange/deferred_write.h"
#include "memory/deferred.h"
#include "memory/pages.h"
#include "mpi/model.h"
#include "mpi/mounts.h"
#include "transfer/incoming.h"
#include "transfer/outstanding.h"
#include "real.h"

/* Writes whose reply is awaited and whose buffer the program has back. Those of a write that hasn't returned are among
 * the incoming transfers. */
static struct hwio_transfer *detached_list;
/* Of both. */
static size_t awaited_count;

static bool is_awaited(const struct hwio_transfer *one)
{
	return one->state == HWIO_TRANSFER_NOTIFIED && one->is_write;
}

/* Returns the first such transfer, or NULL. */
static struct hwio_transfer *find_awaited(void)
{
	struct hwio_transfer *one = detached_list ? detached_list : hwio_incoming_list;
	while (one && !is_awaited(one))
		one = one->next;
	return one;
}

/* Marks the buffer as filled, and opens its pages. */
static void mark_complete(struct hwio_transfer *one)
{
	uintptr_t low = one->low, high = one->high;
	one->low = one->high;
	hwio_pages_settle(low, high);
}

/* The last write that failed after the program's call had returned. */
static struct {
	uint64_t device, inode;
	int error;
} failed;

bool hwio_incoming_is_writing(void)
{
	return awaited_count > 0 || hwio_deferred_write_any();
}

static const struct hwio_writers writers = {.is_any = hwio_incoming_is_writing, .wait = hwio_incoming_wait};

static void note_writes(void)
{
	hwio_deferred_set_writers(&writers);
	hwio_note_busy(HWIO_PART_WRITES, hwio_incoming_is_writing);
}

/* Returns true if any piece may lie in the range. */
static bool overlaps_runs(const struct hwio_runs *runs, uint64_t low, uint64_t high)
{
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		if (run.offset < high && run.offset + run.stride * run.count > low)
			return true;
	}
	return false;
}

/* Returns true if a write to the file is awaited that may overlap the range, or, if `is_other`, one to another file. */
static bool is_any_awaited(bool is_other, uint64_t device, uint64_t inode, uint64_t low, uint64_t high)
{
	struct hwio_transfer *const lists[] = {detached_list, hwio_incoming_list};
	for (size_t i = 0; i < 2 && awaited_count > 0; i++)
		for (const struct hwio_transfer *one = lists[i]; one; one = one->next) {
			bool is_same = is_awaited(one) && one->device == device && one->inode == inode;
			if (is_other ? is_awaited(one) && !is_same : is_same && overlaps_runs(&one->runs, low, high))
				return true;
		}
	return false;
}

bool hwio_delegated_is_awaited(uint64_t device, uint64_t inode, uint64_t low, uint64_t high)
{
	return is_any_awaited(false, device, inode, low, high);
}

bool hwio_delegated_overlaps(uint64_t device, uint64_t inode, uint64_t low, uint64_t high)
{
	return hwio_delegated_is_awaited(device, inode, low, high) ||
		hwio_deferred_write_overlaps(device, inode, low, high);
}

bool hwio_delegated_elsewhere(uint64_t device, uint64_t inode)
{
	return is_any_awaited(true, device, inode, 0, 0) ||
		(hwio_deferred_write_any() && !hwio_deferred_write_overlaps(device, inode, 0, UINT64_MAX));
}

int hwio_delegated_error(uint64_t device, uint64_t inode)
{
	int error = failed.device == device && failed.inode == inode ? failed.error : 0;
	if (error)
		failed.error = 0;
	return error;
}

/* Receives one rank's reply, and writes what the rank couldn't write. False, with errno set: that has failed, too. */
static bool collect_reply(struct hwio_transfer *one)
{
	bool is_good = true, has_buffer = one->layout.count > 0;
	size_t bytes = one->layout.bytes;
	bool is_written = hwio_incoming_reply(one->id, one->world_rank).kind == HWIO_REPLY_DONE;
	if (is_written && one->is_sent_too) {
		hwio_incoming_receive(one);
		mark_complete(one);
	}
	if (!is_written) {
		struct hwio_layout copy = {.bytes = bytes, .count = 1, .buffer = malloc(bytes)};
		copy.single = (struct hwio_block){0, bytes};
		copy.blocks = &copy.single;
		if (!copy.buffer)
			abort();
		hwio_stream_receive(&copy, bytes, one->world_rank, HWIO_TAG_OF(HWIO_TAG_DATA, one->id));
		hwio_context_sent(one->writing, hwio_model_saved(bytes, 1, 0));
		errno = 0;
		is_good = hwio_runs_write(one->descriptor, &one->runs, &copy, one->skip);
		int error = errno ? errno : EIO;
		if (has_buffer) {
			/* The received data completes the buffer, too. */
			size_t admitted = hwio_pages_admit(one->layout.low, one->layout.high);
			hwio_layout_copy(&one->layout, 0, copy.buffer, copy.bytes, true);
			hwio_pages_dismiss(admitted);
			mark_complete(one);
		}
		free(copy.buffer);
		errno = error;
	}
	hwio_mounts_forget(one->descriptor);
	return is_good;
}

static void note_failure(uint64_t device, uint64_t inode, int error)
{
	failed.device = device;
	failed.inode = inode;
	failed.error = error;
}

int hwio_incoming_wait(void)
{
	uint64_t device, inode;
	if (hwio_is_copy())
		return 0;
	hwio_step_in();
	int error = hwio_deferred_write_flush(&device, &inode);
	if (error)
		note_failure(device, inode, error);
	for (struct hwio_transfer *one; (one = find_awaited());) {
		bool is_detached = one->layout.count == 0;
		/* Before its reply is received, so that it is received once. */
		hwio_enter();
		hwio_transfer_note(one, HWIO_TRANSFER_ENDS);
		awaited_count--;
		if (is_detached)
			hwio_transfer_unlink(&detached_list, one);
		hwio_leave();
		if (!collect_reply(one)) {
			error = errno;
			note_failure(one->device, one->inode, error);
		}
		hwio_file_refresh(one->descriptor);
		hwio_libc.close(one->descriptor);
		if (is_detached)
			hwio_incoming_free(one);
	}
	note_writes();
	hwio_step_out();
	return error;
}

/* A write as the program requested it. */
struct writing {
	struct hwio_target target;
	struct stat status;
	struct hwio_identity identity;
	char path[HWIO_PATH_BYTES_MAX];
	/* True if the program's call may return before all is written. */
	bool may_return;
	/* True if the data is sent to this rank, too. */
	bool is_sent_too;
	struct hwio_file *file;
};

/* Returns the offset in the file of an address in the written memory. */
static off_t offset_of(const struct writing *w, uintptr_t at)
{
	return w->target.offset + (off_t)(at - w->target.low);
}

static bool is_named(struct writing *w)
{
	char link[32];
	struct stat status;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", w->target.descriptor);
	ssize_t length = readlink(link, w->path, sizeof(w->path) - 1);
	if (length <= 0 || (size_t)length >= sizeof(w->path) - 1)
		return false;
	w->path[length] = 0;
	return hwio_status_untimed(AT_FDCWD, w->path, &status) && status.st_ino == w->status.st_ino &&
		status.st_dev == w->status.st_dev;
}

static bool is_fit(struct writing *w)
{
	int flags = fcntl(w->target.descriptor, F_GETFL);
	struct rlimit limit;
	uint64_t end = (uint64_t)w->target.offset + (w->target.high - w->target.low);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & (O_APPEND | O_DIRECT | O_SYNC | O_DSYNC)) ||
		w->target.high - w->target.low > HWIO_CALL_BYTES_MAX ||
		!hwio_status_untimed(w->target.descriptor, NULL, &w->status) || !S_ISREG(w->status.st_mode) ||
		getrlimit(RLIMIT_FSIZE, &limit) != 0 || end > limit.rlim_cur || end > (uint64_t)hwio_file_bytes_max ||
		!hwio_identity_of(w->target.descriptor, &w->status, &w->identity))
		return false;
	w->target.bytes_before = w->status.st_size;
	w->target.is_by_pages = hwio_identity_is_nfs(&w->identity);
	/* Ranks of one node have the same client of NFS, and would wait for each other. */
	return !(w->target.is_by_pages && hwio_mounts_is_one_node()) && hwio_mounts_share(&w->identity) && is_named(w);
}

/* Returns true if this process has the file open for reading: it could read parts that aren't written yet. */
static bool is_readable_here(int descriptor)
{
	struct stat wanted, status;
	DIR *all = hwio_status_untimed(descriptor, NULL, &wanted) ? opendir("/proc/self/fd") : NULL;
	bool is_any = !all;
	for (struct dirent *one; all && !is_any && (one = readdir(all));) {
		int other = atoi(one->d_name), flags = one->d_name[0] == '.' ? -1 : fcntl(other, F_GETFL);
		is_any = flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && hwio_status_untimed(other, NULL, &status) &&
			status.st_ino == wanted.st_ino && status.st_dev == wanted.st_dev && !hwio_file_owns(other);
	}
	if (all)
		closedir(all);
	return is_any;
}

/* Opens the file for reading back what was written: the program may access its buffer again. */
static bool find_file(struct writing *w)
{
	char link[32];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", w->target.descriptor);
	int readable = hwio_libc.open(link, O_RDONLY | O_CLOEXEC);
	if (readable < 0)
		return false;
	hwio_enter();
	w->file = hwio_file_of(readable, &w->status);
	if (w->file)
		w->file->has_changed_here = true;
	hwio_leave();
	hwio_libc.close(readable);
	return w->file != NULL;
}

/* Finds the part of a message that its sender may write: all, or what fills whole pages of the file. `skip`: the bytes
 * before. Returns 0 if there is none. */
static size_t find_part(const struct writing *w, const struct hwio_layout *layout, size_t *skip)
{
	*skip = 0;
	if (!w->target.is_by_pages)
		return layout->bytes;
	uint64_t low = (uint64_t)offset_of(w, layout->low), high = low + layout->bytes;
	uint64_t first = hwio_page_up(low), end = hwio_page_down(high);
	*skip = (size_t)(first - low);
	return layout->count == 1 && first < end ? (size_t)(end - first) : 0;
}

/* Returns true if a message lies in pieces, so that only an exchange writes whole pages of it. */
static bool has_pieces(const struct writing *w)
{
	size_t skip;
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(&w->target, &one->layout) && find_part(w, &one->layout, &skip) == 0)
			return true;
	return false;
}

/* Fetches messages that can't be delegated as a whole. Returns how many can. */
static size_t fetch_rest(const struct writing *w)
{
	size_t left = 0;
	struct hwio_runs runs;
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (one->layout.low >= w->target.high || one->layout.high <= w->target.low)
			continue;
		if (hwio_target_has(&w->target, &one->layout) && !hwio_incoming_has_changed(one) &&
			hwio_target_runs(&w->target, &one->layout, &runs)) {
			left++;
			continue;
		}
		hwio_incoming_fetch(one->layout.low, one->layout.high);
		left = 0;
		next = hwio_incoming_list;
	}
	return left;
}

static void send_verdict(struct hwio_transfer *one, const struct writing *w)
{
	struct hwio_verdict verdict = {
		.id = one->id, .kind = HWIO_VERDICT_WRITE, .is_sent_too = w->is_sent_too, .identity = w->identity};
	hwio_target_runs(&w->target, &one->layout, &verdict.runs);
	size_t skip, bytes = find_part(w, &one->layout, &skip);
	if (bytes < one->layout.bytes) {
		verdict.skip = skip;
		hwio_runs_clear(&verdict.runs);
		hwio_runs_append(&verdict.runs, (uint64_t)offset_of(w, one->layout.low) + skip, bytes);
	}
	verdict.path_bytes = (uint32_t)strlen(w->path) + 1;
	memcpy(verdict.path, w->path, verdict.path_bytes);
	hwio_real.MPI_Send(&verdict, (int)(offsetof(struct hwio_verdict, path) + verdict.path_bytes), MPI_BYTE,
		one->world_rank, HWIO_TAG_OF(HWIO_TAG_VERDICT, one->id), hwio_control);
	one->is_write = true;
	one->is_sent_too = verdict.is_sent_too;
	one->writing = w->target.context;
	one->runs = verdict.runs;
	one->skip = verdict.skip;
	one->device = w->status.st_dev;
	one->inode = w->status.st_ino;
	one->descriptor = fcntl(w->target.descriptor, F_DUPFD_CLOEXEC, 512);
	hwio_enter();
	hwio_transfer_note(one, HWIO_TRANSFER_NOTIFIES);
	awaited_count++;
	note_writes();
	hwio_leave();
}

static int by_address(const void *a, const void *b)
{
	const struct hwio_block *left = a, *right = b;
	return (left->at > right->at) - (left->at < right->at);
}

/* Finds the blocks between the delegated ones, which this rank writes itself; `is_whole`: all of a message's bytes are
 * delegated. */
static bool find_own(const struct writing *w, struct hwio_layout *own, bool is_whole)
{
	size_t count = 0, filled = 0;
	memset(own, 0, sizeof(*own));
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		count += hwio_target_has(&w->target, &one->layout) ? one->layout.count : 0;
	struct hwio_block *blocks = malloc((count + 1) * sizeof(*blocks));
	if (!blocks)
		return false;
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		for (size_t i = 0; hwio_target_has(&w->target, &one->layout) && i < one->layout.count; i++) {
			size_t skip = 0, bytes = one->layout.blocks[i].bytes;
			if (!is_whole && one->layout.count == 1)
				bytes = find_part(w, &one->layout, &skip);
			blocks[filled++] = (struct hwio_block){
				(intptr_t)(one->layout.buffer + one->layout.blocks[i].at + skip -
					(char *)w->target.low),
				bytes};
		}
	qsort(blocks, filled, sizeof(*blocks), by_address);
	blocks[filled] = (struct hwio_block){(intptr_t)(w->target.high - w->target.low), 0};
	own->buffer = (char *)w->target.low;
	own->blocks = blocks;
	intptr_t at = 0;
	for (size_t i = 0; i <= filled; i++) {
		struct hwio_block delegated = blocks[i];
		if (delegated.at > at) {
			own->bytes += (size_t)(delegated.at - at);
			blocks[own->count++] = (struct hwio_block){at, (size_t)(delegated.at - at)};
		}
		at = delegated.at + (intptr_t)delegated.bytes;
	}
	return true;
}

static bool write_own(const struct writing *w, const struct hwio_layout *own)
{
	bool is_good = true;
	size_t admitted = hwio_pages_admit(w->target.low, w->target.high);
	for (size_t i = 0; i < own->count && is_good; i++) {
		uintptr_t at = w->target.low + (uintptr_t)own->blocks[i].at;
		is_good = hwio_write_whole(w->target.descriptor, (void *)at, own->blocks[i].bytes, offset_of(w, at));
	}
	hwio_pages_dismiss(admitted);
	return is_good;
}

/* After a failure the original write is called, with all data here, and fails as it would have. */
static void restore(const struct writing *w)
{
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (one->state == HWIO_TRANSFER_PENDING)
			continue;
		size_t admitted = hwio_pages_admit(one->layout.low, one->layout.high);
		hwio_incoming_unlink(one);
		/* The data of ranks that have written is in the file; that of the others is here. */
		for (size_t i = 0; one->low < one->high && i < one->layout.count; i++) {
			uintptr_t at = (uintptr_t)(one->layout.buffer + one->layout.blocks[i].at);
			hwio_read_whole(w->file->descriptor, (void *)at, one->layout.blocks[i].bytes, offset_of(w, at));
		}
		/* This rank may not have written them. */
		if (w->target.is_by_pages)
			hwio_incoming_place_ends(one);
		hwio_pages_dismiss(admitted);
		hwio_pages_settle(one->low, one->high);
		hwio_incoming_free(one);
	}
	hwio_delegated_error(w->status.st_dev, w->status.st_ino);
	if (w->target.offset + (off_t)(w->target.high - w->target.low) > w->status.st_size &&
		hwio_libc.ftruncate(w->target.descriptor, w->status.st_size) != 0)
		hwio_log("%s can't be cut to its former size: %m", w->path);
}

/* Makes the buffer a deferred read of the file. On one node, where every process can change the file a moment later,
 * the data was received, too. */
static void defer_to_file(const struct writing *w, struct hwio_context *context)
{
	note_writes();
	for (struct hwio_transfer *one = hwio_incoming_list, *next; one; one = next) {
		next = one->next;
		if (one->state == HWIO_TRANSFER_PENDING)
			continue;
		struct hwio_record record = {.low = one->low,
			.high = one->high,
			.state = HWIO_DEFERRED,
			.file = w->file,
			.offset = offset_of(w, one->low),
			.context = context};
		bool is_added = true, is_protected = true, is_done = one->state == HWIO_TRANSFER_DONE;
		hwio_enter();
		hwio_incoming_unlink(one);
		if (!is_done) {
			one->layout.count = 0;
			hwio_transfer_link(&detached_list, one);
		}
		if (record.low < record.high) {
			is_added = hwio_deferred_add(&record);
			is_protected = hwio_pages_settle(record.low, record.high);
		}
		hwio_leave();
		if (!is_added)
			hwio_deferred_read(&record);
		else if (!is_protected)
			hwio_memory_in((void *)record.low, record.high - record.low);
		if (is_done)
			hwio_incoming_free(one);
	}
}

/* Has each owner write its part. */
static bool delegate_parts(struct writing *w, const struct hwio_layout *own)
{
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(&w->target, &one->layout))
			send_verdict(one, w);
	bool is_done = write_own(w, own);
	/* By now the others' writes have allocated most of the space; the rest is reserved fast. */
	bool may_return = w->may_return && is_done &&
		fallocate(w->target.descriptor, 0, w->target.offset, (off_t)(w->target.high - w->target.low)) == 0;
	if (!may_return)
		is_done = hwio_incoming_wait() == 0 && is_done;
	if (!is_done)
		restore(w);
	return is_done;
}

/* Ends a deferred write that this one overlaps, before this one is carried out. */
static void end_overlapped(const struct writing *w)
{
	uint64_t low = (uint64_t)w->target.offset, high = low + (w->target.high - w->target.low);
	if (hwio_deferred_write_overlaps(w->status.st_dev, w->status.st_ino, low, high))
		hwio_incoming_wait();
}

/* Prepares a write by pages: this rank's node has nothing cached of the file, and the ends of the messages are here. */
static bool prepare_pages(const struct writing *w)
{
	uint64_t low = (uint64_t)w->target.offset;
	if (hwio_file_send(w->target.descriptor, low, low + (w->target.high - w->target.low)) != 0)
		return false;
	size_t admitted = hwio_pages_admit(w->target.low, w->target.high);
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(&w->target, &one->layout))
			hwio_incoming_place_ends(one);
	hwio_pages_dismiss(admitted);
	return true;
}

static bool delegate(struct writing *w, struct hwio_context *context, bool *is_gather)
{
	struct hwio_layout own;
	bool is_done = false, has_gaps = has_pieces(w);
	if ((has_gaps && w->is_sent_too) || (w->target.is_by_pages && !prepare_pages(w)) || !find_own(w, &own, true))
		return false;
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		if (hwio_target_has(&w->target, &one->layout)) {
			*is_gather |= one->context && one->context->kind == HWIO_OP_GATHER;
			hwio_context_used(one->context);
		}
	if (!w->is_sent_too && (has_gaps || context->does_overlap || hwio_exchange_is_better(&w->target, &own))) {
		size_t admitted = hwio_pages_admit(w->target.low, w->target.high);
		is_done = w->may_return && hwio_model_defers_exchanges() && hwio_deferred_write_add(&w->target, &own);
		if (!is_done) {
			end_overlapped(w);
			is_done = hwio_exchange_write(&w->target, &own);
		}
		hwio_pages_dismiss(admitted);
	} else {
		free(own.blocks);
		end_overlapped(w);
		is_done = find_own(w, &own, false) && delegate_parts(w, &own);
	}
	if (is_done)
		defer_to_file(w, context);
	free(own.blocks);
	return is_done;
}

/* Compares the written data with the buffer. If they differ, the original write is called. */
static bool is_as_intended(const struct writing *w)
{
	size_t piece_bytes = 1UL << 20;
	char *piece = malloc(piece_bytes);
	bool is_same = piece;
	for (uintptr_t at = w->target.low; at < w->target.high && is_same; at += piece_bytes) {
		size_t part = w->target.high - at < piece_bytes ? w->target.high - at : piece_bytes;
		is_same = hwio_read_whole(w->file->descriptor, piece, part, offset_of(w, at)) &&
			memcmp(piece, (void *)at, part) == 0;
	}
	free(piece);
	return is_same;
}

bool hwio_incoming_write(int descriptor, const void *memory, size_t bytes, off_t offset, bool has_overlapped)
{
	struct writing w = {.target = {.descriptor = descriptor,
				    .low = (uintptr_t)memory,
				    .high = (uintptr_t)memory + bytes,
				    .offset = offset,
				    .identity = &w.identity,
				    .path = w.path}};
	bool is_any = false, is_done = false, is_gather = false;
	for (struct hwio_transfer *one = hwio_incoming_list; one; one = one->next)
		is_any |= one->layout.low < w.target.high && one->layout.high > w.target.low;
	if (!is_any || hwio_is_copy())
		return false;
	hwio_step_in();
	struct hwio_context *context = hwio_context_here(HWIO_OP_WRITE);
	w.target.context = context;
	bool is_verified = hwio_mode == HWIO_VERIFY && context && context->verified++ < HWIO_VERIFIED_MAX;
	w.is_sent_too = is_verified || hwio_mounts_is_one_node();
	w.may_return = !w.is_sent_too && !is_readable_here(descriptor);
	if (context && has_overlapped)
		context->does_overlap = true;
	if (!hwio_context_is_off(context) && is_fit(&w) && fetch_rest(&w) > 0 && find_file(&w)) {
		double begin = hwio_seconds();
		hwio_memory_in_loosely(memory, bytes);
		is_done = delegate(&w, context, &is_gather);
		if (is_done && is_verified && !is_as_intended(&w)) {
			hwio_context_forbid(context, "what other ranks wrote was not what was gathered");
			is_done = false;
		}
		hwio_file_release(w.file);
		double took = hwio_seconds() - begin, saved = hwio_model_saved(bytes, hwio_ranks, took);
		if (is_done) {
			hwio_context_timed(context, took, took + saved);
			hwio_context_transformed(context, is_gather ? HWIO_GATHER_WRITE : HWIO_RECEIVE_WRITE, bytes,
				saved);
		}
	}
	if (!is_done)
		hwio_incoming_fetch(w.target.low, w.target.high);
	hwio_step_out();
	return is_done;
}
