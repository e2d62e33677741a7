/* Matches receives with probes. A probe must show the size of the data, not that of an envelope. So a message that may
 * be an envelope is received when it is probed, and stored until the program receives it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/generated-calls.h"
#include "memory/memory_map.h"
#include "mpi/typed.h"
#include "transfer/envelope.h"
#include "intercept/messages/receive.h"
#include "intercept/requests/match.h"
#include "real.h"
#include "intercept/requests/requests.h"

/* A message that was taken when it was probed. */
struct hwio_probed {
	MPI_Comm comm;
	MPI_Status status;
	int bytes;
	char *content;
	struct hwio_probed *next;
};

static struct hwio_probed *probed_list;
/* Held while a probe checks and takes, and from a receive's check of taken messages until MPI has the receive. */
static pthread_mutex_t matching = PTHREAD_MUTEX_INITIALIZER;

bool hwio_match_is_shared(void)
{
	int level = 0;
	return hwio_is_threaded() && hwio_real.MPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

void hwio_match_lock(bool is_shared)
{
	if (is_shared)
		pthread_mutex_lock(&matching);
}

void hwio_match_unlock(bool is_shared)
{
	if (is_shared)
		pthread_mutex_unlock(&matching);
}

static bool matches(const struct hwio_probed *one, int source, int tag, MPI_Comm comm)
{
	return one->comm == comm && (source == MPI_ANY_SOURCE || source == one->status.MPI_SOURCE) &&
		(tag == MPI_ANY_TAG || tag == one->status.MPI_TAG);
}

void hwio_match_copy_status(const MPI_Status *from, MPI_Status *status)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	int error = status->MPI_ERROR;
	*status = *from;
	status->MPI_ERROR = error;
}

/* Returns true if a taken message matches; it stays in the list until it is received. */
bool hwio_match_is_probed(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	if (!probed_list)
		return false;
	hwio_enter();
	struct hwio_probed *one = probed_list;
	while (one && !matches(one, source, tag, comm))
		one = one->next;
	if (one)
		hwio_match_copy_status(&one->status, status);
	hwio_leave();
	return one != NULL;
}

/* Removes and returns the first match, which the caller owns then. */
struct hwio_probed *hwio_match_claim(int source, int tag, MPI_Comm comm)
{
	if (!probed_list)
		return NULL;
	hwio_enter();
	struct hwio_probed **link = &probed_list;
	while (*link && !matches(*link, source, tag, comm))
		link = &(*link)->next;
	struct hwio_probed *one = *link;
	if (one)
		*link = one->next;
	hwio_note_busy(HWIO_PART_PROBED, hwio_match_any);
	hwio_leave();
	return one;
}

int hwio_match_deliver(struct hwio_probed *one, void *buffer, MPI_Count count, MPI_Datatype type, MPI_Status *status)
{
	hwio_before_receive(buffer, count, type);
	int result = hwio_typed_write(buffer, count, type, one->content, (size_t)one->bytes);
	if (result == MPI_SUCCESS) {
		MPI_Status arrived = one->status;
		hwio_real.MPI_Status_set_elements_x(&arrived, MPI_BYTE, one->bytes);
		result = hwio_received(buffer, count, type, one->comm, &arrived, true);
	} else {
		hwio_error(one->comm, result);
	}
	hwio_match_copy_status(&one->status, status);
	free(one->content);
	free(one);
	return result;
}

bool hwio_match_any(void)
{
	return probed_list != NULL;
}

/* Takes the message that a probe has shown, if it may be an envelope; the status then has the size of the data. */
static void take_probed(MPI_Comm comm, MPI_Status *status)
{
	int bytes = 0, is_there = 0;
	MPI_Message message;
	struct hwio_envelope envelope;
	if (hwio_real.MPI_Get_count(status, MPI_BYTE, &bytes) != MPI_SUCCESS || !hwio_may_be_envelope(bytes) ||
		!hwio_comm_of(comm))
		return;
	struct hwio_probed *one = calloc(1, sizeof(*one));
	char *content = malloc((size_t)bytes);
	if (!one || !content ||
		hwio_real.MPI_Improbe(status->MPI_SOURCE, status->MPI_TAG, comm, &is_there, &message, &one->status) !=
			MPI_SUCCESS ||
		!is_there || hwio_real.MPI_Mrecv(content, bytes, MPI_BYTE, &message, &one->status) != MPI_SUCCESS) {
		free(one);
		free(content);
		return;
	}
	one->comm = comm;
	one->bytes = bytes;
	one->content = content;
	memcpy(&envelope, content, sizeof(envelope));
	if (hwio_is_envelope(content, (size_t)bytes))
		hwio_real.MPI_Status_set_elements_x(&one->status, MPI_BYTE, (MPI_Count)envelope.bytes);
	hwio_match_copy_status(&one->status, status);
	hwio_enter();
	struct hwio_probed **link = &probed_list;
	while (*link)
		link = &(*link)->next;
	*link = one;
	hwio_note_busy(HWIO_PART_PROBED, hwio_match_any);
	hwio_leave();
}

bool hwio_match_receive(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	MPI_Status *status, bool is_shared, int *result)
{
	struct hwio_probed *one = hwio_match_claim(source, tag, comm);
	if (one) {
		hwio_match_unlock(is_shared);
		*result = hwio_match_deliver(one, buffer, count, type, status);
	}
	return one != NULL;
}

bool hwio_match_request(void *buffer, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	bool is_shared, MPI_Request *request)
{
	int result;
	MPI_Status status;
	if (!hwio_match_receive(buffer, count, type, source, tag, comm, &status, is_shared, &result))
		return false;
	hwio_typed_done(request);
	hwio_requests_delivered(*request, NULL, &status, result);
	return true;
}

/* Probes, and takes a message that may be an envelope. */
static int probe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	*flag = hwio_match_is_probed(source, tag, comm, status);
	if (*flag)
		return MPI_SUCCESS;
	hwio_step_in();
	int result = hwio_real.MPI_Iprobe(source, tag, comm, flag, status);
	if (result == MPI_SUCCESS && *flag && source != MPI_PROC_NULL)
		take_probed(comm, status);
	hwio_step_out();
	return result;
}

int hwio_MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	MPI_Status own;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Iprobe(source, tag, comm, flag, status);
	if (hwio_is_busy)
		hwio_communicates();
	bool is_shared = hwio_match_is_shared();
	hwio_match_lock(is_shared);
	int result = probe(source, tag, comm, flag, status == MPI_STATUS_IGNORE ? &own : status);
	hwio_match_unlock(is_shared);
	return result;
}

int hwio_MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *actual = status == MPI_STATUS_IGNORE ? &own : status;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Probe(source, tag, comm, status);
	if (hwio_is_busy)
		hwio_communicates();
	int flag = 0, result = MPI_SUCCESS;
	/* A message that another thread's probe takes is only in the list. */
	while (hwio_match_is_shared() && !flag && result == MPI_SUCCESS) {
		result = hwio_MPI_Iprobe(source, tag, comm, &flag, actual);
		if (!flag)
			hwio_pause();
	}
	if (flag || result != MPI_SUCCESS || hwio_match_is_probed(source, tag, comm, actual))
		return result;
	hwio_step_in();
	result = hwio_real.MPI_Probe(source, tag, comm, actual);
	if (result == MPI_SUCCESS && source != MPI_PROC_NULL)
		take_probed(comm, actual);
	hwio_step_out();
	return result;
}

/* A message of a matched probe, with the program's handle: that of a message without content. */
struct matched {
	MPI_Message message;
	struct hwio_probed *probed;
	struct matched *next;
};

static struct matched *matched_list;

static bool hand_over(MPI_Comm comm, int source, int tag, MPI_Message *message, MPI_Status *status)
{
	struct matched *one = probed_list ? calloc(1, sizeof(*one)) : NULL;
	if (!one || !(one->probed = hwio_match_claim(source, tag, comm))) {
		free(one);
		return false;
	}
	hwio_typed_message(&one->message);
	hwio_enter();
	one->next = matched_list;
	matched_list = one;
	hwio_leave();
	*message = one->message;
	hwio_match_copy_status(&one->probed->status, status);
	return true;
}

int hwio_MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	MPI_Status shown;
	int result = MPI_SUCCESS;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Improbe(source, tag, comm, flag, message, status);
	if (hwio_is_busy)
		hwio_communicates();
	bool is_shared = hwio_match_is_shared();
	hwio_match_lock(is_shared);
	result = probe(source, tag, comm, flag, &shown);
	if (result == MPI_SUCCESS && *flag && !hand_over(comm, source, tag, message, status)) {
		/* Exactly the message that was shown: one that has arrived since may be an envelope. */
		result = HWIO_INSIDE(hwio_real.MPI_Improbe(shown.MPI_SOURCE, shown.MPI_TAG, comm, flag, message,
			status));
	}
	hwio_match_unlock(is_shared);
	return result;
}

int hwio_MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	int flag = 0, result = MPI_SUCCESS;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Mprobe(source, tag, comm, message, status);
	while (!flag && result == MPI_SUCCESS) {
		if (!hwio_match_is_shared())
			result = hwio_MPI_Probe(source, tag, comm, MPI_STATUS_IGNORE);
		if (result == MPI_SUCCESS)
			result = hwio_MPI_Improbe(source, tag, comm, &flag, message, status);
		if (!flag && result == MPI_SUCCESS)
			hwio_pause();
	}
	return result;
}

static struct hwio_probed *take_matched(MPI_Message message)
{
	if (!matched_list)
		return NULL;
	hwio_enter();
	struct matched **link = &matched_list;
	while (*link && (*link)->message != message)
		link = &(*link)->next;
	struct matched *one = *link;
	if (one)
		*link = one->next;
	hwio_leave();
	struct hwio_probed *probed = one ? one->probed : NULL;
	free(one);
	return probed;
}

int hwio_MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Mrecv(buffer, count, type, message, status);
	struct hwio_probed *one = take_matched(*message);
	if (!one)
		hwio_before_receive(buffer, count, type);
	int result = HWIO_INSIDE(one ? hwio_real.MPI_Mrecv(NULL, 0, MPI_BYTE, message, MPI_STATUS_IGNORE)
				     : hwio_real.MPI_Mrecv(buffer, count, type, message, status));
	return one ? hwio_match_deliver(one, buffer, count, type, status) : result;
}

int hwio_MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	MPI_Status status;
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_Imrecv(buffer, count, type, message, request);
	struct hwio_probed *one = take_matched(*message);
	if (!one)
		hwio_before_receive(buffer, count, type);
	int result = HWIO_INSIDE(one ? hwio_real.MPI_Imrecv(NULL, 0, MPI_BYTE, message, request)
				     : hwio_real.MPI_Imrecv(buffer, count, type, message, request));
	if (!one)
		return result;
	int delivered = hwio_match_deliver(one, buffer, count, type, &status);
	hwio_requests_delivered(*request, NULL, &status, delivered);
	return result;
}
