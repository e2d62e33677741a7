/* A list of what was sent as hints. Answers come in any order. */
#include "outstanding.h"

#include <stdlib.h>

#include "../context.h"
#include "real.h"

struct outstanding {
	uint64_t id;
	int world_rank;
	struct hw_file *file;
	struct hw_runs runs;
	struct hw_context *context;
	struct outstanding *next;
};

static struct outstanding *list;
static size_t count;

bool hw_outstanding_any(void)
{
	return count > 0;
}

bool hw_outstanding_has_room(void)
{
	return count < HW_OUTSTANDING_MAX;
}

void hw_outstanding_hint(uint64_t id, int world_rank, struct hw_file *file, const struct hw_runs *runs,
			 struct hw_context *context)
{
	struct outstanding *one = malloc(sizeof(*one));
	if (!one)
		abort();
	hw_enter();
	hw_file_keep(file);
	*one = (struct outstanding){id, world_rank, file, *runs, context, list};
	list = one;
	count++;
	hw_count_busy();
	hw_leave();
}

static struct outstanding *take(uint64_t id, int world_rank)
{
	hw_enter();
	struct outstanding **link = &list, *found = NULL;
	while (*link && !((*link)->id == id && (*link)->world_rank == world_rank))
		link = &(*link)->next;
	if ((found = *link)) {
		*link = found->next;
		count--;
	}
	hw_count_busy();
	hw_leave();
	return found;
}

/* Reads what the receiver couldn't, and sends it. */
static void serve(const struct outstanding *one)
{
	size_t bytes = hw_runs_bytes(&one->runs);
	struct hw_layout all = {.bytes = bytes, .count = 1, .buffer = malloc(bytes)};
	all.single = (struct hw_block){0, bytes};
	all.blocks = &all.single;
	if (!all.buffer || !hw_runs_transfer(one->file->descriptor, &one->runs, &all, false)) {
		hw_say("%s can't be read any more, and rank %d waits for it: %m", one->file->path, one->world_rank);
		hw_real.MPI_Abort(MPI_COMM_WORLD, 1);
	}
	hw_stream_send(&all, bytes, one->world_rank, HW_TAG_OF(HW_TAG_DATA, one->id));
	free(all.buffer);
}

static void answer(const struct hw_ack *ack, int world_rank)
{
	struct outstanding *one = take(ack->id, world_rank);
	if (!one)
		return;
	if (!ack->is_read) {
		serve(one);
		hw_context_touched(one->context, hw_context_operation(one->context));
	}
	if (!ack->is_same)
		hw_context_switch_off(one->context, "what another rank read was not what was sent");
	hw_enter();
	hw_file_release(one->file);
	hw_leave();
	free(one);
}

void hw_outstanding_poll(void)
{
	hw_depth++;
	while (count > 0) {
		int has_come = 0;
		MPI_Status status;
		struct hw_ack ack;
		if (hw_real.MPI_Iprobe(MPI_ANY_SOURCE, HW_TAG_ACK, hw_control, &has_come, &status) != MPI_SUCCESS ||
		    !has_come)
			break;
		if (hw_real.MPI_Recv(&ack, sizeof(ack), MPI_BYTE, status.MPI_SOURCE, HW_TAG_ACK, hw_control,
				     MPI_STATUS_IGNORE) != MPI_SUCCESS)
			break;
		answer(&ack, status.MPI_SOURCE);
	}
	hw_depth--;
}

static bool waits_for(const struct hw_file *file)
{
	for (const struct outstanding *one = list; one; one = one->next)
		if (!file || (one->file->identity.device == file->identity.device &&
			      one->file->identity.inode == file->identity.inode))
			return true;
	return false;
}

void hw_outstanding_wait(const struct hw_file *file)
{
	while (waits_for(file)) {
		hw_outstanding_poll();
		if (waits_for(file))
			hw_pause();
	}
}
