/*
 * Receives that are matched by a probe, which must show the size of the data, not of what travels in its place: so a
 * message that may be ours is taken when it is probed, and kept until it is received.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../generated-calls.h"
#include "../memory/private.h"
#include "../mpi/typed.h"
#include "../patterns/envelope.h"
#include "../patterns/receive.h"
#include "match.h"
#include "real.h"
#include "requests.h"

/* A message that was taken when it was probed. */
struct hw_taken {
	MPI_Comm comm;
	MPI_Status status;
	int bytes;
	char *content;
	struct hw_taken *next;
};

static struct hw_taken *taken_list;
/* Held while a probe looks and takes, and from a receive's look at what was taken until MPI has it. */
static pthread_mutex_t matching = PTHREAD_MUTEX_INITIALIZER;

bool hw_match_is_shared(void)
{
	int level = 0;
	return hw_private_is_threaded() && hw_real.MPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

void hw_match_lock(bool is_shared)
{
	if (is_shared)
		pthread_mutex_lock(&matching);
}

void hw_match_unlock(bool is_shared)
{
	if (is_shared)
		pthread_mutex_unlock(&matching);
}

static bool matches(const struct hw_taken *one, int source, int tag, MPI_Comm comm)
{
	return one->comm == comm && (source == MPI_ANY_SOURCE || source == one->status.MPI_SOURCE) &&
	       (tag == MPI_ANY_TAG || tag == one->status.MPI_TAG);
}

static void copy_status(const struct hw_taken *one, MPI_Status *status)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	int error = status->MPI_ERROR;
	*status = one->status;
	status->MPI_ERROR = error;
}

/* Whether there is one, which stays in the list for whoever receives it. */
bool hw_match_is_taken(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	if (!taken_list)
		return false;
	hw_enter();
	struct hw_taken *one = taken_list;
	while (one && !matches(one, source, tag, comm))
		one = one->next;
	if (one)
		copy_status(one, status);
	hw_leave();
	return one != NULL;
}

/* The first of them, which is the caller's then. */
struct hw_taken *hw_match_claim(int source, int tag, MPI_Comm comm)
{
	if (!taken_list)
		return NULL;
	hw_enter();
	struct hw_taken **link = &taken_list;
	while (*link && !matches(*link, source, tag, comm))
		link = &(*link)->next;
	struct hw_taken *one = *link;
	if (one)
		*link = one->next;
	hw_count_busy();
	hw_leave();
	return one;
}

int hw_match_deliver(struct hw_taken *one, void *buffer, MPI_Count count, MPI_Datatype type, MPI_Status *status)
{
	hw_before_receive(buffer, count, type);
	int result = hw_typed_write(buffer, count, type, one->content, (size_t)one->bytes);
	if (result == MPI_SUCCESS) {
		MPI_Status arrived = one->status;
		hw_real.MPI_Status_set_elements_x(&arrived, MPI_BYTE, one->bytes);
		result = hw_received(buffer, count, type, one->comm, &arrived, true);
	} else {
		hw_error(one->comm, result);
	}
	copy_status(one, status);
	free(one->content);
	free(one);
	return result;
}

bool hw_match_any(void)
{
	return taken_list != NULL;
}

/* Takes the message that a probe has shown, if it may be one of ours; its status then tells of the data. */
static void take(MPI_Comm comm, MPI_Status *status)
{
	int bytes = 0, is_there = 0;
	MPI_Message message;
	struct hw_envelope envelope;
	if (hw_real.MPI_Get_count(status, MPI_BYTE, &bytes) != MPI_SUCCESS || !hw_may_be_ours(bytes) || !hw_comm_of(comm))
		return;
	struct hw_taken *one = calloc(1, sizeof(*one));
	char *content = malloc((size_t)bytes);
	if (!one || !content ||
	    hw_real.MPI_Improbe(status->MPI_SOURCE, status->MPI_TAG, comm, &is_there, &message, &one->status) !=
		    MPI_SUCCESS ||
	    !is_there || hw_real.MPI_Mrecv(content, bytes, MPI_BYTE, &message, &one->status) != MPI_SUCCESS) {
		free(one);
		free(content);
		return;
	}
	one->comm = comm;
	one->bytes = bytes;
	one->content = content;
	memcpy(&envelope, content, sizeof(envelope));
	if (hw_is_ours(content, (size_t)bytes))
		hw_real.MPI_Status_set_elements_x(&one->status, MPI_BYTE, (MPI_Count)envelope.bytes);
	copy_status(one, status);
	hw_enter();
	struct hw_taken **link = &taken_list;
	while (*link)
		link = &(*link)->next;
	*link = one;
	hw_count_busy();
	hw_leave();
}

bool hw_match_taken(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		    MPI_Status *status, bool is_shared, int *result)
{
	struct hw_taken *one = hw_match_claim(source, tag, comm);
	if (one) {
		hw_match_unlock(is_shared);
		*result = hw_match_deliver(one, buffer, count, type, status);
	}
	return one != NULL;
}

bool hw_match_request(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		      bool is_shared, MPI_Request *request)
{
	int result;
	MPI_Status status;
	if (!hw_match_taken(buffer, count, type, source, tag, comm, &status, is_shared, &result))
		return false;
	hw_typed_done(request);
	hw_requests_delivered(*request, NULL, &status, result);
	return true;
}

/* Looks, and takes what may be ours. */
static int look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	*flag = hw_match_is_taken(source, tag, comm, status);
	if (*flag)
		return MPI_SUCCESS;
	hw_step_in();
	int result = hw_real.MPI_Iprobe(source, tag, comm, flag, status);
	if (result == MPI_SUCCESS && *flag && source != MPI_PROC_NULL)
		take(comm, status);
	hw_step_out();
	return result;
}

int hw_MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	MPI_Status own;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Iprobe(source, tag, comm, flag, status);
	if (hw_is_busy)
		hw_communicates();
	bool is_shared = hw_match_is_shared();
	hw_match_lock(is_shared);
	int result = look(source, tag, comm, flag, status == MPI_STATUS_IGNORE ? &own : status);
	hw_match_unlock(is_shared);
	return result;
}

int hw_MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Probe(source, tag, comm, status);
	if (hw_is_busy)
		hw_communicates();
	int flag = 0, result = MPI_SUCCESS;
	/* What another thread's probe takes is seen in the list only. */
	while (hw_match_is_shared() && !flag && result == MPI_SUCCESS) {
		result = hw_MPI_Iprobe(source, tag, comm, &flag, kept);
		if (!flag)
			hw_pause();
	}
	if (flag || result != MPI_SUCCESS || hw_match_is_taken(source, tag, comm, kept))
		return result;
	hw_step_in();
	result = hw_real.MPI_Probe(source, tag, comm, kept);
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		take(comm, kept);
	hw_step_out();
	return result;
}

/* A matched probe's message, and the handle to it that the program has: to one without content. */
struct matched {
	MPI_Message message;
	struct hw_taken *taken;
	struct matched *next;
};

static struct matched *matched_list;

static bool hand_over(MPI_Comm comm, int source, int tag, MPI_Message *message, MPI_Status *status)
{
	struct matched *one = taken_list ? calloc(1, sizeof(*one)) : NULL;
	if (!one || !(one->taken = hw_match_claim(source, tag, comm))) {
		free(one);
		return false;
	}
	hw_typed_message(&one->message);
	hw_enter();
	one->next = matched_list;
	matched_list = one;
	hw_leave();
	*message = one->message;
	copy_status(one->taken, status);
	return true;
}

int hw_MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	MPI_Status shown;
	int result = MPI_SUCCESS;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Improbe(source, tag, comm, flag, message, status);
	if (hw_is_busy)
		hw_communicates();
	bool is_shared = hw_match_is_shared();
	hw_match_lock(is_shared);
	result = look(source, tag, comm, flag, &shown);
	if (result == MPI_SUCCESS && *flag && !hand_over(comm, source, tag, message, status)) {
		/* Just what was shown: another one, that has come since, may be ours. */
		hw_step_in();
		result = hw_real.MPI_Improbe(shown.MPI_SOURCE, shown.MPI_TAG, comm, flag, message, status);
		hw_step_out();
	}
	hw_match_unlock(is_shared);
	return result;
}

int hw_MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	int flag = 0, result = MPI_SUCCESS;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Mprobe(source, tag, comm, message, status);
	while (!flag && result == MPI_SUCCESS) {
		if (!hw_match_is_shared())
			result = hw_MPI_Probe(source, tag, comm, MPI_STATUS_IGNORE);
		if (result == MPI_SUCCESS)
			result = hw_MPI_Improbe(source, tag, comm, &flag, message, status);
		if (!flag && result == MPI_SUCCESS)
			hw_pause();
	}
	return result;
}

static struct hw_taken *take_matched(MPI_Message message)
{
	if (!matched_list)
		return NULL;
	hw_enter();
	struct matched **link = &matched_list;
	while (*link && (*link)->message != message)
		link = &(*link)->next;
	struct matched *one = *link;
	if (one)
		*link = one->next;
	hw_leave();
	struct hw_taken *taken = one ? one->taken : NULL;
	free(one);
	return taken;
}

int hw_MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Mrecv(buffer, count, type, message, status);
	struct hw_taken *one = take_matched(*message);
	if (!one)
		hw_before_receive(buffer, count, type);
	hw_step_in();
	int result = one ? hw_real.MPI_Mrecv(NULL, 0, MPI_BYTE, message, MPI_STATUS_IGNORE)
			 : hw_real.MPI_Mrecv(buffer, count, type, message, status);
	hw_step_out();
	return one ? hw_match_deliver(one, buffer, count, type, status) : result;
}

int hw_MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	MPI_Status status;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Imrecv(buffer, count, type, message, request);
	struct hw_taken *one = take_matched(*message);
	if (!one)
		hw_before_receive(buffer, count, type);
	hw_step_in();
	int result = one ? hw_real.MPI_Imrecv(NULL, 0, MPI_BYTE, message, request)
			 : hw_real.MPI_Imrecv(buffer, count, type, message, request);
	hw_step_out();
	if (!one)
		return result;
	int delivered = hw_match_deliver(one, buffer, count, type, &status);
	hw_requests_delivered(*request, NULL, &status, delivered);
	return result;
}
