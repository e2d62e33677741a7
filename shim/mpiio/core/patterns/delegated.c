/*
 * The senders write, each its own part, and this rank what is its own. With space reserved beforehand the program's
 * write returns before the others' have ended, as it does from a page cache; otherwise, when all have.
 */
#include "delegated.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../context.h"
#include "../memory/deferred.h"
#include "../model.h"
#include "../report.h"
#include "incoming.h"
#include "../mpi/mounts.h"
#include "outstanding.h"
#include "real.h"

#define NFS_MAGIC 0x6969

/* A rank that has not said yet that it has written. */
struct awaited {
	uint64_t id;
	int world_rank;
	uint64_t bytes;
	struct hw_runs runs;
	/* For what it couldn't write. */
	int descriptor;
	struct hw_target *target;
	/* The buffer, as long as it stands for what is written. */
	struct hw_pending *pending;
	struct awaited *next;
};

static struct awaited *awaited_list;
static struct hw_target *targets;

static void release(struct hw_target *target)
{
	if (--target->references > 0)
		return;
	struct hw_target **link = &targets;
	while (*link != target)
		link = &(*link)->next;
	*link = target->next;
	hw_libc.close(target->descriptor);
	free(target);
}

bool hw_incoming_is_writing(void)
{
	return awaited_list != NULL;
}

/* The buffer has its data after all, from a write that failed. */
static void give_back(struct hw_pending *pending, const struct hw_layout *copy)
{
	hw_pending_unlink(pending);
	hw_pending_protect(pending, false);
	hw_layout_copy(&pending->layout, 0, copy->buffer, copy->bytes, true);
	hw_enter();
	release(pending->target);
	hw_leave();
	hw_pending_free(pending);
}

/* Takes one rank's answer. What it couldn't write is written here. */
static void collect(struct awaited *one)
{
	struct hw_pending stub = {.id = one->id, .world_rank = one->world_rank};
	struct hw_reply reply = hw_pending_reply(&stub);
	if (reply.kind != HW_REPLY_DONE) {
		struct hw_layout copy = {.bytes = one->bytes, .count = 1, .buffer = malloc(one->bytes)};
		copy.single = (struct hw_block){0, one->bytes};
		copy.blocks = &copy.single;
		if (!copy.buffer)
			abort();
		hw_stream_receive(&copy, one->bytes, one->world_rank, HW_TAG_OF(HW_TAG_DATA, one->id));
		errno = 0;
		if (!hw_runs_transfer(one->descriptor, &one->runs, &copy, true))
			one->target->error = errno ? errno : EIO;
		if (one->target->error && one->pending)
			give_back(one->pending, &copy);
		free(copy.buffer);
	}
	/* What this node has kept of these pages is older than what was written. */
	for (uint32_t i = 0; i < one->runs.count; i++) {
		const struct hw_run *run = &one->runs.run[i];
		posix_fadvise(one->descriptor, (off_t)run->offset, (off_t)(run->stride * run->count), POSIX_FADV_DONTNEED);
	}
}

int hw_incoming_wait(void)
{
	int error = 0;
	hw_depth++;
	while (awaited_list) {
		hw_enter();
		struct awaited *one = awaited_list;
		awaited_list = one->next;
		hw_leave();
		collect(one);
		error = one->target->error;
		hw_libc.close(one->descriptor);
		hw_enter();
		release(one->target);
		hw_leave();
		free(one);
	}
	hw_depth--;
	return error;
}

int hw_delegated_error(uint64_t device, uint64_t inode)
{
	for (struct hw_target *target = targets; target; target = target->next)
		if (target->device == device && target->inode == inode && target->error) {
			int error = target->error;
			target->error = 0;
			return error;
		}
	return 0;
}

static void forget_buffer(const struct hw_pending *pending)
{
	for (struct awaited *one = awaited_list; one; one = one->next)
		if (one->pending == pending)
			one->pending = NULL;
}

void hw_delegated_fill(struct hw_pending *one)
{
	forget_buffer(one);
	hw_incoming_wait();
	off_t offset = one->offset + (off_t)(one->low - one->written_low);
	if (!hw_read_whole(one->target->descriptor, (void *)one->low, one->high - one->low, offset))
		hw_say("a part of a file that other ranks have written can't be read back: %m");
	hw_enter();
	release(one->target);
	hw_leave();
}

void hw_delegated_detach(struct hw_pending *one)
{
	forget_buffer(one);
	hw_enter();
	release(one->target);
	hw_leave();
}

bool hw_delegated_is_target(uint64_t device, uint64_t inode)
{
	for (const struct hw_target *target = targets; target; target = target->next)
		if (target->device == device && target->inode == inode)
			return true;
	return false;
}

void hw_delegated_fill_file(uint64_t device, uint64_t inode, off_t low, off_t high)
{
	for (struct hw_pending *one = hw_pending_list, *next; one; one = next) {
		next = one->next;
		off_t end = one->offset + (off_t)(one->layout.high - one->written_low);
		if (one->target && one->target->device == device && one->target->inode == inode && one->offset < high &&
		    end > low) {
			hw_incoming_fetch(one->layout.low, one->layout.high);
			next = hw_pending_list;
		}
	}
}

/* A write as the program asked for it. */
struct writing {
	int descriptor;
	uintptr_t low, high;
	off_t offset;
	struct stat status;
	struct hw_identity identity;
	char path[HW_PATH_BYTES_MAX];
	bool is_reserved;
	struct hw_target *target;
};

static bool is_named(struct writing *w)
{
	char link[32];
	struct stat status;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", w->descriptor);
	ssize_t length = readlink(link, w->path, sizeof(w->path) - 1);
	if (length <= 0 || (size_t)length >= sizeof(w->path) - 1)
		return false;
	w->path[length] = 0;
	return stat(w->path, &status) == 0 && status.st_ino == w->status.st_ino && status.st_dev == w->status.st_dev;
}

static bool is_fit(struct writing *w)
{
	int flags = fcntl(w->descriptor, F_GETFL);
	struct rlimit limit;
	uint64_t end = (uint64_t)w->offset + (w->high - w->low);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & (O_APPEND | O_DIRECT | O_SYNC | O_DSYNC)) ||
	    w->high - w->low > HW_CALL_BYTES_MAX || fstat(w->descriptor, &w->status) != 0 || !S_ISREG(w->status.st_mode) ||
	    getrlimit(RLIMIT_FSIZE, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) ||
	    !hw_identity_of(w->descriptor, &w->status, &w->identity))
		return false;
	/* Clients of NFS don't see each other's writes until they open the file anew. */
	return w->identity.file_system != NFS_MAGIC && hw_mounts_share(&w->identity) && is_named(w);
}

static bool find_target(struct writing *w)
{
	char link[32];
	for (w->target = targets; w->target; w->target = w->target->next)
		if (w->target->device == w->status.st_dev && w->target->inode == w->status.st_ino) {
			w->target->references++;
			return true;
		}
	struct hw_target *target = calloc(1, sizeof(*target));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", w->descriptor);
	int descriptor = target ? hw_libc.open(link, O_RDONLY | O_CLOEXEC) : -1;
	int high = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, 512);
	if (descriptor >= 0)
		hw_libc.close(descriptor);
	if (high < 0) {
		free(target);
		return false;
	}
	*target = (struct hw_target){high, w->status.st_dev, w->status.st_ino, 1, 0, targets};
	targets = w->target = target;
	return true;
}

static bool lies_in(const struct hw_pending *one, const struct writing *w)
{
	return one->layout.low >= w->low && one->layout.high <= w->high;
}

/* What the program has changed of the bytes that it got at once would be lost. */
static bool has_changed(const struct hw_pending *one)
{
	const struct hw_layout *layout = &one->layout;
	size_t head = one->low - layout->low, tail = layout->high - one->high;
	if (layout->blocks[0].bytes < head || layout->blocks[layout->count - 1].bytes < tail)
		return true;
	return memcmp((void *)layout->low, one->first, head) != 0 ||
	       memcmp((void *)one->high, one->last + HW_PAGE_BYTES - tail, tail) != 0;
}

static bool map(const struct hw_pending *one, const struct writing *w, struct hw_runs *runs)
{
	runs->count = 0;
	for (size_t i = 0; i < one->layout.count; i++) {
		uintptr_t at = (uintptr_t)(one->layout.buffer + one->layout.blocks[i].at);
		if (!hw_runs_append(runs, (uint64_t)w->offset + (at - w->low), one->layout.blocks[i].bytes))
			return false;
	}
	return true;
}

/* Fetches what can't be delegated as a whole; says whether anything is left. */
static size_t sift(const struct writing *w)
{
	size_t left = 0;
	struct hw_runs runs;
	for (struct hw_pending *one = hw_pending_list, *next; one; one = next) {
		next = one->next;
		if (one->layout.low >= w->high || one->layout.high <= w->low)
			continue;
		if (!one->target && lies_in(one, w) && !has_changed(one) && map(one, w, &runs)) {
			left++;
			continue;
		}
		hw_incoming_fetch(one->layout.low, one->layout.high);
		left = 0;
		next = hw_pending_list;
	}
	return left;
}

static void tell(struct hw_pending *one, const struct writing *w)
{
	struct hw_verdict verdict = {.id = one->id, .kind = HW_VERDICT_WRITE, .identity = w->identity};
	struct awaited *waiting = calloc(1, sizeof(*waiting));
	if (!waiting)
		abort();
	map(one, w, &verdict.runs);
	verdict.path_bytes = (uint32_t)strlen(w->path) + 1;
	memcpy(verdict.path, w->path, verdict.path_bytes);
	hw_real.MPI_Send(&verdict, (int)(offsetof(struct hw_verdict, path) + verdict.path_bytes), MPI_BYTE, one->world_rank,
			 HW_TAG_OF(HW_TAG_VERDICT, one->id), hw_control);
	*waiting = (struct awaited){one->id,
				    one->world_rank,
				    one->layout.bytes,
				    verdict.runs,
				    fcntl(w->descriptor, F_DUPFD_CLOEXEC, 512),
				    w->target,
				    one,
				    awaited_list};
	one->target = w->target;
	one->offset = w->offset;
	one->written_low = w->low;
	hw_enter();
	w->target->references += 2;
	awaited_list = waiting;
	hw_leave();
}

static int by_address(const void *a, const void *b)
{
	const struct hw_block *left = a, *right = b;
	return (left->at > right->at) - (left->at < right->at);
}

static bool write_whole(const struct writing *w, uintptr_t from, uintptr_t to)
{
	while (from < to) {
		off_t offset = w->offset + (off_t)(from - w->low);
		ssize_t written = hw_libc.pwrite(w->descriptor, (void *)from, to - from, offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		from += (uintptr_t)written;
	}
	return true;
}

/* Writes what lies between the delegated blocks. */
static bool write_own(const struct writing *w)
{
	size_t count = 0, filled = 0;
	for (struct hw_pending *one = hw_pending_list; one; one = one->next)
		count += lies_in(one, w) ? one->layout.count : 0;
	struct hw_block *blocks = malloc((count + 1) * sizeof(*blocks));
	if (!blocks)
		return false;
	for (struct hw_pending *one = hw_pending_list; one; one = one->next)
		for (size_t i = 0; lies_in(one, w) && i < one->layout.count; i++)
			blocks[filled++] = (struct hw_block){
				(intptr_t)(one->layout.buffer + one->layout.blocks[i].at - (char *)w->low),
				one->layout.blocks[i].bytes};
	qsort(blocks, filled, sizeof(*blocks), by_address);
	blocks[filled] = (struct hw_block){(intptr_t)(w->high - w->low), 0};
	uintptr_t at = w->low;
	bool is_good = true, is_open = false;
	for (size_t i = 0; i <= filled && is_good; i++) {
		uintptr_t stop = w->low + (uintptr_t)blocks[i].at;
		if (stop > at && !is_open) {
			is_open = true;
			hw_incoming_open(true);
		}
		is_good = stop <= at || write_whole(w, at, stop);
		at = stop + blocks[i].bytes;
	}
	if (is_open)
		hw_incoming_open(false);
	free(blocks);
	return is_good;
}

/* After a failure the original write is done, with all of the data here, and fails as it would have. */
static void take_back(const struct writing *w)
{
	hw_incoming_fetch(w->low, w->high);
	hw_delegated_error(w->status.st_dev, w->status.st_ino);
	if (w->offset + (off_t)(w->high - w->low) > w->status.st_size &&
	    hw_libc.ftruncate(w->descriptor, w->status.st_size) != 0)
		hw_say("%s can't be cut to its former size: %m", w->path);
}

bool hw_incoming_write(int descriptor, const void *memory, size_t bytes, off_t offset)
{
	struct writing w = {.descriptor = descriptor, .low = (uintptr_t)memory, .high = (uintptr_t)memory + bytes,
			    .offset = offset};
	bool is_any = false;
	for (struct hw_pending *one = hw_pending_list; one; one = one->next)
		is_any |= one->layout.low < w.high && one->layout.high > w.low;
	if (!is_any)
		return false;
	hw_depth++;
	struct hw_context *context = hw_context_here(HW_OP_WRITE);
	bool is_fit_for_it = is_fit(&w) && !(hw_mode == HW_VERIFY && context && context->verified++ < HW_VERIFIED_MAX);
	size_t parts = is_fit_for_it ? sift(&w) : 0;
	bool is_done = parts > 0 && find_target(&w);
	if (is_done) {
		double begin = hw_seconds();
		bool is_gather = false;
		hw_memory_in(memory, bytes);
		w.is_reserved = !hw_mounts_is_one_node() &&
				fallocate(descriptor, 0, offset, (off_t)bytes) == 0;
		for (struct hw_pending *one = hw_pending_list; one; one = one->next)
			if (lies_in(one, &w)) {
				is_gather |= one->context && one->context->kind == HW_OP_GATHER;
				hw_context_used(one->context);
				tell(one, &w);
			}
		is_done = write_own(&w);
		if (!w.is_reserved || !is_done)
			is_done = hw_incoming_wait() == 0 && is_done;
		if (!is_done)
			take_back(&w);
		hw_enter();
		release(w.target);
		hw_leave();
		hw_context_transformed(context, is_gather ? HW_GATHER_WRITE : HW_RECEIVE_WRITE, bytes,
				       hw_model_write_gain(bytes, hw_seconds() - begin));
	} else {
		hw_incoming_fetch(w.low, w.high);
	}
	hw_depth--;
	return is_done;
}
