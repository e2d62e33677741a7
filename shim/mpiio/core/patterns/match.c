/*
 * Receives that are matched in other ways: with a send, by a probe. A probe must show the size of the data, not of what
 * travels in its place, so a message that may be ours is taken when it is probed, and kept until it is received.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../generated-calls.h"
#include "../memory/private.h"
#include "envelope.h"
#include "match.h"
#include "outstanding.h"
#include "real.h"
#include "receive.h"
#include "requests.h"
#include "send.h"

/* A message that was taken when it was probed. */
struct taken {
	MPI_Comm comm;
	MPI_Status status;
	int bytes;
	char *content;
	struct taken *next;
};

static struct taken *taken_list;
/* Held while a probe looks and takes, and from a receive's look at what was taken until MPI has it. */
static pthread_mutex_t matching = PTHREAD_MUTEX_INITIALIZER;

bool hw_match_is_shared(void)
{
	int level = MPI_THREAD_SINGLE;
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

static bool matches(const struct taken *one, int source, int tag, MPI_Comm comm)
{
	return one->comm == comm && (source == MPI_ANY_SOURCE || source == one->status.MPI_SOURCE) &&
	       (tag == MPI_ANY_TAG || tag == one->status.MPI_TAG);
}

static void copy_status(const struct taken *one, MPI_Status *status)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	int error = status->MPI_ERROR;
	*status = one->status;
	status->MPI_ERROR = error;
}

/* Whether there is one, which stays in the list for whoever receives it. */
static bool is_taken(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	if (!taken_list)
		return false;
	hw_enter();
	struct taken *one = taken_list;
	while (one && !matches(one, source, tag, comm))
		one = one->next;
	if (one)
		copy_status(one, status);
	hw_leave();
	return one != NULL;
}

/* The first of them, which is the caller's then. */
static struct taken *claim(int source, int tag, MPI_Comm comm)
{
	if (!taken_list)
		return NULL;
	hw_enter();
	struct taken **link = &taken_list;
	while (*link && !matches(*link, source, tag, comm))
		link = &(*link)->next;
	struct taken *one = *link;
	if (one)
		*link = one->next;
	hw_count_busy();
	hw_leave();
	return one;
}

static void free_taken(struct taken *one)
{
	if (one)
		free(one->content);
	free(one);
}

/* Receives a message that was claimed, as the program's receive would have. */
static int deliver(struct taken *one, void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Status *status)
{
	hw_before_receive(buffer, count, type);
	hw_depth++;
	int result = hw_real.MPI_Sendrecv(one->content, one->bytes, MPI_BYTE, 0, 0, buffer, (int)count, type, 0, 0,
					  MPI_COMM_SELF, MPI_STATUS_IGNORE);
	hw_depth--;
	if (result == MPI_SUCCESS) {
		MPI_Status arrived = one->status;
		hw_real.MPI_Status_set_elements_x(&arrived, MPI_BYTE, one->bytes);
		result = hw_received(buffer, count, type, comm, &arrived, true);
	} else {
		hw_error(comm, result);
	}
	copy_status(one, status);
	free_taken(one);
	return result;
}

/* What a call sends and receives at once. */
struct both {
	const void *send;
	int send_count;
	MPI_Datatype send_type;
	int destination, send_tag;
	void *receive;
	int receive_count;
	MPI_Datatype receive_type;
	int source, receive_tag;
	MPI_Comm comm;
};

/* In two calls, of which the receive is first: from then on no other thread's probe gets its message. */
static int in_two(const struct both *b, bool is_shared, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	MPI_Request sending, receiving;
	int received = MPI_SUCCESS, sent;
	hw_match_lock(is_shared);
	struct taken *one = claim(b->source, b->receive_tag, b->comm);
	hw_depth++;
	if (!one)
		received = hw_real.MPI_Irecv(b->receive, b->receive_count, b->receive_type, b->source, b->receive_tag, b->comm,
					     &receiving);
	hw_match_unlock(is_shared);
	sent = hw_real.MPI_Isend(b->send, b->send_count, b->send_type, b->destination, b->send_tag, b->comm, &sending);
	hw_depth--;
	if (one)
		received = deliver(one, b->receive, b->receive_count, b->receive_type, b->comm, status);
	hw_depth++;
	if (!one && received == MPI_SUCCESS)
		received = hw_real.MPI_Wait(&receiving, kept);
	if (sent == MPI_SUCCESS)
		sent = hw_real.MPI_Wait(&sending, MPI_STATUS_IGNORE);
	hw_depth--;
	if (!one && received == MPI_SUCCESS && b->source != MPI_PROC_NULL)
		received = hw_received(b->receive, b->receive_count, b->receive_type, b->comm, kept, false);
	return sent == MPI_SUCCESS ? received : sent;
}

int hw_MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int destination, int send_tag,
		    void *receive, int receive_count, MPI_Datatype receive_type, int source, int receive_tag,
		    MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	bool is_short = hw_is_short(send_count, send_type) && hw_is_short(receive_count, receive_type);
	if (is_short || hw_depth > 0 || hw_mode == HW_OFF)
		return HW_INSIDE(hw_real.MPI_Sendrecv(send, send_count, send_type, destination, send_tag, receive, receive_count,
						      receive_type, source, receive_tag, comm, status));
	hw_before_send(send, send_count, send_type);
	hw_outstanding_settle();
	hw_before_receive(receive, receive_count, receive_type);
	bool is_shared = hw_match_is_shared();
	if (is_shared || is_taken(source, receive_tag, comm, MPI_STATUS_IGNORE)) {
		struct both both = {send, send_count, send_type, destination, send_tag, receive,
				    receive_count, receive_type, source, receive_tag, comm};
		return in_two(&both, is_shared, status);
	}
	hw_depth++;
	int result = hw_real.MPI_Sendrecv(send, send_count, send_type, destination, send_tag, receive, receive_count,
					  receive_type, source, receive_tag, comm, kept);
	hw_depth--;
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		result = hw_received(receive, receive_count, receive_type, comm, kept, false);
	return result;
}

/* A copy of what is sent, as the bytes that travel; NULL if there can't be one. */
static char *copy_of(const void *buffer, int count, MPI_Datatype type, size_t *bytes)
{
	struct hw_layout layout;
	hw_depth++;
	bool is_known = hw_layout_make(&layout, buffer, count, type);
	*bytes = is_known ? layout.bytes : 0;
	char *copy = is_known && *bytes <= INT_MAX ? malloc(*bytes + 1) : NULL;
	if (copy)
		hw_layout_copy(&layout, 0, copy, *bytes, false);
	if (is_known)
		hw_layout_free(&layout);
	hw_depth--;
	return copy;
}

int hw_MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int destination, int send_tag, int source,
			    int receive_tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *kept = status == MPI_STATUS_IGNORE ? &own : status;
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Sendrecv_replace(buffer, count, type, destination, send_tag, source, receive_tag, comm,
						    status);
	hw_before_send(buffer, count, type);
	hw_outstanding_settle();
	bool is_shared = hw_match_is_shared();
	bool is_apart = is_shared || is_taken(source, receive_tag, comm, MPI_STATUS_IGNORE);
	size_t bytes = 0;
	char *copy = is_apart ? copy_of(buffer, count, type, &bytes) : NULL;
	if (copy) {
		struct both both = {copy, (int)bytes, MPI_BYTE, destination, send_tag, buffer,
				    count, type, source, receive_tag, comm};
		int result = in_two(&both, is_shared, status);
		free(copy);
		return result;
	}
	hw_depth++;
	int result = hw_real.MPI_Sendrecv_replace(buffer, count, type, destination, send_tag, source, receive_tag, comm,
						  kept);
	hw_depth--;
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		result = hw_received(buffer, count, type, comm, kept, false);
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
	struct taken *one = calloc(1, sizeof(*one));
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
	*status = one->status;
	hw_enter();
	struct taken **link = &taken_list;
	while (*link)
		link = &(*link)->next;
	*link = one;
	hw_count_busy();
	hw_leave();
}

bool hw_match_taken(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		    MPI_Status *status, bool is_shared, int *result)
{
	struct taken *one = claim(source, tag, comm);
	if (one) {
		hw_match_unlock(is_shared);
		*result = deliver(one, buffer, count, type, comm, status);
	}
	return one != NULL;
}

/* Held from the sending of a message to this rank itself until it is matched: no other thread gets it. */
static pthread_mutex_t to_itself = PTHREAD_MUTEX_INITIALIZER;

/* The message comes again, from this rank to itself, so that there is a request to wait for. */
bool hw_match_request(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		      bool is_shared, MPI_Request *request)
{
	struct taken *one = claim(source, tag, comm);
	if (!one)
		return false;
	hw_match_unlock(is_shared);
	struct hw_matched matched = {.status = one->status, .bytes = one->bytes, .content = one->content};
	one->content = NULL;
	free_taken(one);
	hw_depth++;
	pthread_mutex_lock(&to_itself);
	hw_real.MPI_Isend(matched.content, matched.bytes, MPI_BYTE, hw_rank, HW_TAG_MATCHED, hw_control, &matched.sending);
	hw_real.MPI_Irecv(buffer, (int)count, type, hw_rank, HW_TAG_MATCHED, hw_control, request);
	pthread_mutex_unlock(&to_itself);
	hw_depth--;
	hw_requests_matched(*request, buffer, count, type, &matched);
	return true;
}

/* Looks, and takes what may be ours. */
static int look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	*flag = is_taken(source, tag, comm, status);
	if (*flag)
		return MPI_SUCCESS;
	hw_depth++;
	int result = hw_real.MPI_Iprobe(source, tag, comm, flag, status);
	if (result == MPI_SUCCESS && *flag && source != MPI_PROC_NULL)
		take(comm, status);
	hw_depth--;
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
	if (flag || result != MPI_SUCCESS || is_taken(source, tag, comm, kept))
		return result;
	hw_depth++;
	result = hw_real.MPI_Probe(source, tag, comm, kept);
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		take(comm, kept);
	hw_depth--;
	return result;
}

/*
 * A matched probe: the message is taken, and a copy of it goes to this rank itself, over a communicator that only that
 * message is on, so that the program gets a handle to it. What its status was is kept with the handle.
 */
struct matched {
	MPI_Message message;
	MPI_Status status;
	int bytes;
	char *content;
	MPI_Request sending;
	struct matched *next;
};

static struct matched *matched_list;

static bool hand_over(MPI_Comm comm, int source, int tag, MPI_Message *message, MPI_Status *status)
{
	struct matched *copy = taken_list ? calloc(1, sizeof(*copy)) : NULL;
	struct taken *one = copy ? claim(source, tag, comm) : NULL;
	if (!one) {
		free(copy);
		return false;
	}
	copy->status = one->status;
	copy->bytes = one->bytes;
	copy->content = one->content;
	one->content = NULL;
	free_taken(one);
	pthread_mutex_lock(&to_itself);
	hw_real.MPI_Isend(copy->content, copy->bytes, MPI_BYTE, hw_rank, HW_TAG_MATCHED, hw_control, &copy->sending);
	hw_real.MPI_Mprobe(hw_rank, HW_TAG_MATCHED, hw_control, &copy->message, MPI_STATUS_IGNORE);
	pthread_mutex_unlock(&to_itself);
	hw_enter();
	copy->next = matched_list;
	matched_list = copy;
	hw_leave();
	*message = copy->message;
	if (status != MPI_STATUS_IGNORE)
		*status = copy->status;
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
		hw_depth++;
		result = hw_real.MPI_Improbe(shown.MPI_SOURCE, shown.MPI_TAG, comm, flag, message, status);
		hw_depth--;
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

static struct matched *take_matched(MPI_Message message)
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
	return one;
}

static int receive_matched(struct matched *one, void *buffer, int count, MPI_Datatype type, MPI_Status *status)
{
	MPI_Status arrived = one->status;
	hw_real.MPI_Wait(&one->sending, MPI_STATUS_IGNORE);
	hw_real.MPI_Status_set_elements_x(&arrived, MPI_BYTE, one->bytes);
	int result = hw_received(buffer, count, type, MPI_COMM_NULL, &arrived, false);
	if (status != MPI_STATUS_IGNORE) {
		int error = status->MPI_ERROR;
		*status = one->status;
		status->MPI_ERROR = error;
	}
	free(one->content);
	free(one);
	return result;
}

int hw_MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Mrecv(buffer, count, type, message, status);
	MPI_Message before = *message;
	hw_before_receive(buffer, count, type);
	hw_depth++;
	int result = hw_real.MPI_Mrecv(buffer, count, type, message, status);
	hw_depth--;
	struct matched *one = take_matched(before);
	return one && result == MPI_SUCCESS ? receive_matched(one, buffer, count, type, status) : result;
}

int hw_MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	if (hw_depth > 0 || hw_mode == HW_OFF)
		return hw_real.MPI_Imrecv(buffer, count, type, message, request);
	MPI_Message before = *message;
	hw_before_receive(buffer, count, type);
	hw_depth++;
	int result = hw_real.MPI_Imrecv(buffer, count, type, message, request);
	hw_depth--;
	struct matched *one = take_matched(before);
	if (one && result == MPI_SUCCESS) {
		struct hw_matched matched = {one->status, one->bytes, one->content, one->sending};
		hw_requests_matched(*request, buffer, count, type, &matched);
		free(one);
	}
	return result;
}
