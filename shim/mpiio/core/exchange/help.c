/* Announcements, calls for help and answers are messages beside the program's; a rank that doesn't look misses nothing. */
#include "help.h"

#include <fcntl.h>
#include <string.h>

#include "../generated-calls.h"
#include "real.h"

/* So long an asked rank has to look. */
#define ANSWER_SECONDS_MAX 0.020
#define NOBODY (-1)

struct call {
	uint64_t number;
	struct hw_identity identity;
	uint32_t path_bytes;
	char path[HW_PATH_BYTES_MAX];
};

struct answer {
	uint64_t number;
	int32_t kind;
	int32_t reserved;
};

/* Whom this rank waits for. */
static int awaited = NOBODY;
/* Who may be waiting for this rank. */
static int waiting[HW_SHARES_MAX];
static uint32_t waiting_count;
/* Who was asked for the exchange of this number, and has answered that it takes part. */
static uint64_t number;
static int asked[HW_SHARES_MAX];
static bool is_ready[HW_SHARES_MAX];
static uint32_t asked_count;

void hw_help_offer(int root)
{
	MPI_Request sending;
	char nothing = 0;
	if (hw_real.MPI_Isend(&nothing, 0, MPI_BYTE, root, HW_TAG_WAITING, hw_control, &sending) == MPI_SUCCESS) {
		hw_real.MPI_Request_free(&sending);
		awaited = root;
	}
}

void hw_help_end(void)
{
	awaited = NOBODY;
}

static void say(uint64_t of, int root, enum hw_reply_kind kind)
{
	struct answer answer = {.number = of, .kind = (int32_t)kind};
	hw_real.MPI_Send(&answer, sizeof(answer), MPI_BYTE, root, HW_TAG_HELPER, hw_control);
}

static void help(const struct call *call, int root)
{
	static const struct hw_layout nothing;
	struct hw_plan plan = {0};
	struct hw_file *file = NULL;
	uint32_t own;
	char *space = awaited == root ? hw_exchange_space() : NULL;
	if (space && hw_path_is_sound(call->path, call->path_bytes)) {
		hw_enter();
		file = hw_file_open(call->path, O_WRONLY, &call->identity);
		hw_leave();
	}
	say(call->number, root, file ? HW_REPLY_READY : HW_REPLY_FAILED);
	hw_real.MPI_Recv(&plan, sizeof(plan), MPI_BYTE, root, HW_TAG_HELP, hw_control, MPI_STATUS_IGNORE);
	if (file && hw_plan_is_good(&plan, 0, &own)) {
		int error = hw_exchange(&plan, own, &nothing, file->descriptor, space);
		say(call->number, root, error ? HW_REPLY_FAILED : HW_REPLY_DONE);
	}
	if (file) {
		hw_enter();
		hw_file_release(file);
		hw_leave();
	}
	hw_exchange_free(space);
}

bool hw_help_poll(void)
{
	int has_come = 0;
	MPI_Status status;
	struct call call = {0};
	if (awaited == NOBODY ||
	    hw_real.MPI_Iprobe(MPI_ANY_SOURCE, HW_TAG_HELP, hw_control, &has_come, &status) != MPI_SUCCESS || !has_come)
		return false;
	hw_real.MPI_Recv(&call, sizeof(call), MPI_BYTE, status.MPI_SOURCE, HW_TAG_HELP, hw_control, MPI_STATUS_IGNORE);
	help(&call, status.MPI_SOURCE);
	return true;
}

static bool is_among(int rank, const int *ranks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

static void note_announcements(void)
{
	for (;;) {
		int has_come = 0;
		MPI_Status status;
		if (hw_real.MPI_Iprobe(MPI_ANY_SOURCE, HW_TAG_WAITING, hw_control, &has_come, &status) != MPI_SUCCESS ||
		    !has_come)
			return;
		hw_real.MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, HW_TAG_WAITING, hw_control, MPI_STATUS_IGNORE);
		if (!is_among(status.MPI_SOURCE, waiting, waiting_count) && waiting_count < HW_SHARES_MAX)
			waiting[waiting_count++] = status.MPI_SOURCE;
	}
}

static bool has_data(int rank, const struct hw_plan *plan)
{
	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->shares[i].world_rank == rank)
			return true;
	return false;
}

/* Takes an answer off the network. False: there is none. Of an earlier exchange it is of no interest. */
static bool next_answer(void)
{
	int has_come = 0;
	MPI_Status status;
	struct answer answer = {0};
	hw_real.MPI_Iprobe(MPI_ANY_SOURCE, HW_TAG_HELPER, hw_control, &has_come, &status);
	if (!has_come)
		return false;
	hw_real.MPI_Recv(&answer, sizeof(answer), MPI_BYTE, status.MPI_SOURCE, HW_TAG_HELPER, hw_control,
			 MPI_STATUS_IGNORE);
	for (uint32_t i = 0; i < asked_count; i++)
		if (answer.number == number && asked[i] == status.MPI_SOURCE)
			is_ready[i] = answer.kind == HW_REPLY_READY;
	return true;
}

static bool are_all_there(void)
{
	for (uint32_t i = 0; i < asked_count; i++)
		if (!is_ready[i])
			return false;
	return true;
}

void hw_help_ask(const struct hw_target *target, struct hw_plan *plan)
{
	struct call call = {.number = ++number, .identity = *target->identity};
	call.path_bytes = (uint32_t)strlen(target->path) + 1;
	memcpy(call.path, target->path, call.path_bytes);
	note_announcements();
	asked_count = 0;
	for (uint32_t i = 0; i < waiting_count && plan->count + asked_count < HW_SHARES_MAX; i++) {
		if (has_data(waiting[i], plan))
			continue;
		is_ready[asked_count] = false;
		asked[asked_count++] = waiting[i];
		hw_real.MPI_Send(&call, (int)(offsetof(struct call, path) + call.path_bytes), MPI_BYTE, waiting[i],
				 HW_TAG_HELP, hw_control);
	}
	double end = hw_seconds() + ANSWER_SECONDS_MAX;
	while (!are_all_there() && hw_seconds() < end)
		if (!next_answer())
			hw_pause();
	/* Who didn't look, or is being received from now, announces itself again. */
	waiting_count = 0;
	for (uint32_t i = 0; i < asked_count; i++) {
		if (!is_ready[i])
			continue;
		waiting[waiting_count++] = asked[i];
		memset(&plan->shares[plan->count], 0, sizeof(plan->shares[0]));
		plan->shares[plan->count++].world_rank = asked[i];
	}
}

void hw_help_tell(const struct hw_plan *plan)
{
	static const struct hw_plan none;
	for (uint32_t i = 0; i < asked_count; i++) {
		/* Who may not be looking gets nothing that a send would wait for. */
		size_t bytes = is_ready[i] ? sizeof(*plan) : offsetof(struct hw_plan, shares);
		hw_real.MPI_Send(is_ready[i] ? plan : &none, (int)bytes, MPI_BYTE, asked[i], HW_TAG_HELP, hw_control);
	}
}

bool hw_help_is_done(const struct hw_plan *plan)
{
	bool is_done = true;
	for (uint32_t i = 0; i < asked_count; i++) {
		struct answer answer = {0};
		if (!is_ready[i] || !has_data(asked[i], plan))
			continue;
		do
			hw_real.MPI_Recv(&answer, sizeof(answer), MPI_BYTE, asked[i], HW_TAG_HELPER, hw_control,
					 MPI_STATUS_IGNORE);
		while (answer.number != number);
		is_done &= answer.kind == HW_REPLY_DONE;
	}
	return is_done;
}
