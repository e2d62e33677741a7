/* Data that was read is sent by every call that MPI has, and received as programs mostly do. */
#define _GNU_SOURCE
#include "messages.h"

#include <pthread.h>

SENDS(until_received, MPI_Ssend)

static inline __attribute__((always_inline)) int persistently(char *data, int to)
{
	MPI_Request request;

	MPI_Send_init(data, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request);
	MPI_Start(&request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return MPI_Request_free(&request);
}

static inline __attribute__((always_inline)) int buffered(char *data, int to)
{
	int room = PART + MPI_BSEND_OVERHEAD;
	char *space = memory((size_t)room);

	MPI_Buffer_attach(space, room);
	int code = MPI_Bsend(data, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
	memset(data, 'b', 100);
	MPI_Buffer_detach(&space, &room);
	free(space);
	return code;
}

static inline __attribute__((always_inline)) int largely(char *data, int to)
{
	MPI_Datatype type = large_type();
	int result = MPI_Send(data, 1, type, to, TAG, MPI_COMM_WORLD);

	MPI_Type_free(&type);
	return result;
}

static void by_recv(char *mine)
{
	MPI_Status status;

	MPI_Recv(mine, PART + 5000, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	note_status(&status, MPI_DOUBLE);
}

static void by_wildcards(char *mine)
{
	MPI_Status status;

	MPI_Recv(mine, PART, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
}

static void by_recv_without_status(char *mine)
{
	MPI_Recv(mine, PART, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_probe(char *mine)
{
	MPI_Status status = {0};
	int bytes;

	MPI_Probe(odd() ? MPI_ANY_SOURCE : 0, odd() ? MPI_ANY_TAG : TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Get_count(&status, MPI_BYTE, &bytes);
	MPI_Recv(mine, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
}

static void by_iprobe(char *mine)
{
	MPI_Status status = {0};
	int there = 0;

	while (!there)
		MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
	note_status(&status, MPI_BYTE);
	MPI_Recv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_mprobe(char *mine)
{
	MPI_Message message;
	MPI_Status status = {0};

	MPI_Mprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, &status);
	note_status(&status, MPI_BYTE);
	MPI_Mrecv(mine, PART, MPI_BYTE, &message, &status);
	note_status(&status, MPI_BYTE);
}

static void by_improbe(char *mine)
{
	MPI_Message message;
	MPI_Request request;
	MPI_Status status = {0};
	int there = 0;

	while (!there)
		MPI_Improbe(0, TAG, MPI_COMM_WORLD, &there, &message, &status);
	MPI_Imrecv(mine, PART, MPI_BYTE, &message, &request);
	MPI_Wait(&request, &status);
	note_status(&status, MPI_BYTE);
}

static void by_test(char *mine)
{
	MPI_Request request;
	MPI_Status status;
	int is_done = 0;

	MPI_Irecv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	while (!is_done)
		MPI_Test(&request, &is_done, &status);
	note_status(&status, MPI_BYTE);
	note("null %d", request == MPI_REQUEST_NULL);
}

static void by_status_of_request(char *mine)
{
	MPI_Request request;
	MPI_Status status;
	int is_done = 0;

	MPI_Irecv(mine, PART, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
	while (!is_done)
		MPI_Request_get_status(request, &is_done, &status);
	note_status(&status, MPI_BYTE);
	note("wait %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Two requests of which one never gets a message, until it is cancelled. */
static void by_several(char *mine, int variant)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int index = -1, indices[2] = {-1, -1}, count = 0, is_done = 0;
	char other[8];

	MPI_Irecv(other, 8, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Irecv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[1]);
	if (variant == 0) {
		MPI_Waitany(2, requests, &index, statuses);
	} else if (variant == 1) {
		MPI_Waitsome(2, requests, &count, indices, statuses);
		index = indices[0];
	} else if (variant == 2) {
		while (!is_done)
			MPI_Testany(2, requests, &index, &is_done, statuses);
	} else {
		while (count == 0)
			MPI_Testsome(2, requests, &count, indices, statuses);
		index = indices[0];
	}
	note("index %d", index);
	note_status(&statuses[0], MPI_BYTE);
	MPI_Testall(2, requests, &is_done, statuses);
	note("all done %d", is_done);
	MPI_Cancel(&requests[0]);
	MPI_Wait(&requests[0], &statuses[0]);
	MPI_Test_cancelled(&statuses[0], &is_done);
	note("cancelled %d", is_done);
}

static void by_waitany(char *mine)
{
	by_several(mine, 0);
}

static void by_waitsome(char *mine)
{
	by_several(mine, 1);
}

static void by_testany(char *mine)
{
	by_several(mine, 2);
}

static void by_testsome(char *mine)
{
	by_several(mine, 3);
}

static void by_persistent(char *mine)
{
	MPI_Request request;
	MPI_Status status;

	MPI_Recv_init(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	MPI_Startall(1, &request);
	MPI_Waitall(1, &request, &status);
	note_status(&status, MPI_BYTE);
	MPI_Request_free(&request);
}

static void by_sendrecv(char *mine)
{
	char own[10] = "own", got[10] = "";
	MPI_Status status;

	MPI_Sendrecv(own, 10, MPI_BYTE, rank, 3, got, 10, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &status);
	MPI_Sendrecv(own, 0, MPI_BYTE, MPI_PROC_NULL, 3, mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Sendrecv_replace(mine, PART, MPI_BYTE, rank, 4, rank, 4, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
}

static void by_probe_and_sendrecv(char *mine)
{
	MPI_Status status = {0};

	MPI_Probe(0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 3, mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
}

static void by_probe_and_replace(char *mine)
{
	char *sent = memory(PART);
	MPI_Request request;
	MPI_Status status = {0};

	MPI_Irecv(sent, PART, MPI_BYTE, rank, 4, MPI_COMM_WORLD, &request);
	MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Sendrecv_replace(mine, PART, MPI_BYTE, rank, 4, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	note_sum("sent", sent, PART);
	free(sent);
}

static void by_two(char *mine)
{
	MPI_Status status;

	MPI_Recv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	note_sum("first", mine, PART / 2);
	MPI_Recv(mine + 100, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
}

/* A message that is too long for its room. */
static void by_too_little(char *mine)
{
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int code = MPI_Recv(mine, odd() ? PART / 2 : PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	note("class %d", class_of(code));
	if (odd())
		memset(mine, 't', PART);
}

static void by_types(char *mine)
{
	MPI_Datatype gaps;
	MPI_Status status;

	MPI_Type_vector(PART / 7, 4, 7, MPI_BYTE, &gaps);
	MPI_Type_commit(&gaps);
	MPI_Recv(mine, 2, gaps, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, gaps);
	MPI_Type_free(&gaps);
}

static void by_large_type(char *mine)
{
	MPI_Datatype type = large_type();
	MPI_Request request;
	MPI_Status status;

	MPI_Irecv(mine, 1, type, 0, TAG, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	note_status(&status, type);
	MPI_Type_free(&type);
}

/* clang-format off */
#define MESSAGES(X) \
	X(recv, plainly, by_recv) X(ssend, until_received, by_recv) X(isend, at_once, by_recv) \
	X(send_init, persistently, by_persistent) X(bsend, buffered, by_recv) X(two_messages, twice, by_two) \
	X(wildcards, plainly, by_wildcards) X(no_status, plainly, by_recv_without_status) X(probe, plainly, by_probe) \
	X(iprobe, plainly, by_iprobe) X(mprobe, until_received, by_mprobe) X(improbe, plainly, by_improbe) \
	X(tested, plainly, by_test) X(status_of_request, plainly, by_status_of_request) X(waitany, plainly, by_waitany) \
	X(waitsome, at_once, by_waitsome) X(testany, plainly, by_testany) X(testsome, plainly, by_testsome) \
	X(sendrecv, plainly, by_sendrecv) X(probe_sendrecv, plainly, by_probe_and_sendrecv) \
	X(probe_replace, at_once, by_probe_and_replace) X(too_little_room, plainly, by_too_little) X(with_gaps, partly, by_types) \
	X(with_large_types, largely, by_large_type)
/* clang-format on */

MESSAGES(CASE)

/* Isend of the whole table, part by part, all pending at once; the buffer is read meanwhile. */
static void many_pending(void)
{
	char *name = path("in"), *all = memory(all_bytes()), *mine = memory(PART);
	MPI_Request requests[size];

	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, all_bytes()));
		close(fd);
		for (int to = 0; to < size; to++)
			MPI_Isend(all + to * PART, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[to]);
		if (odd())
			note_sum("meanwhile", all, all_bytes());
	}
	MPI_Recv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 0)
		MPI_Waitall(size, requests, MPI_STATUSES_IGNORE);
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

/* Long enough to be offered. */
#define LONG 300003

/* Two Isends are pending, which may have one handle: a wait for the first returns its memory. */
static void first_of_two(void)
{
	char *one = memory(LONG), *other = memory(LONG);
	MPI_Request requests[2];

	memset(one, 11 + rank, LONG);
	memset(other, 22 + rank, LONG);
	if (rank > 0) {
		MPI_Isend(one, LONG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(other, LONG, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, &requests[1]);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		memset(one, 99, LONG);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		memset(other, 99, LONG);
	}
	for (int from = 1; from < size && rank == 0; from++) {
		int fd = open(path("copy"), O_RDWR | O_CREAT, 0644);

		MPI_Recv(other, LONG, MPI_BYTE, from, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		note_result("write", pwrite(fd, other, LONG, 0));
		note_sum("second", other, LONG);
		MPI_Recv(one, LONG, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		note_sum("first", one, LONG);
		close(fd);
	}
	free(one);
	free(other);
}

static void *thread_receives(void *mine)
{
	MPI_Status status;

	MPI_Recv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	return NULL;
}

/* Another thread receives, while this one exchanges messages of its own. */
static void with_threads(void)
{
	char *name = path("in"), *mine = memory(PART);
	pthread_t thread;

	if (thread_level < MPI_THREAD_MULTIPLE) {
		free(mine);
		return;
	}
	must(rank == 0 || !pthread_create(&thread, NULL, thread_receives, mine), "thread");
	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);

		for (int to = 1; to < size; to++) {
			note_result("read", read(fd, mine, PART));
			MPI_Send(mine, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
		}
		close(fd);
	}
	int to = (rank + 1) % size, from = (rank + size - 1) % size, got = -1;
	MPI_Sendrecv(&rank, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	must(got == from, "ring");
	if (rank)
		pthread_join(thread, NULL);
	note_sum("mine", mine, PART);
	free(mine);
}

/* What the statuses of all sends say of errors, none of which is one. */
static void errors_of_sends(void)
{
	char *name = path("in"), *all = memory(all_bytes()), *mine = memory(PART);
	MPI_Request requests[size];
	MPI_Status statuses[size];
	int flag = 0, count = size, left = size, indices[size];

	memset(statuses, 0x33, sizeof statuses);
	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, all, all_bytes()));
		close(fd);
		for (int to = 1; to < size; to++)
			MPI_Isend(all + to * PART, PART, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[to]);
		requests[0] = MPI_REQUEST_NULL;
		if (round_now == 0)
			while (!flag)
				MPI_Testall(size, requests, &flag, statuses);
		for (left = size - 1; left > 0 && round_now == 2; left -= count)
			MPI_Waitsome(size, requests, &count, indices, statuses + size - left);
		if (odd())
			MPI_Waitall(size, requests, statuses);
		for (int to = 0; to < size; to++)
			note("error %d", statuses[to].MPI_ERROR);
	} else {
		MPI_Recv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		note_sum("mine", mine, PART);
	}
	free(all);
	free(mine);
}

/* Sends that MPI refuses: their tag, their type, or what they receive is wrong. */
static void refused_sends(void)
{
	char *name = path("in"), *all = memory(all_bytes()), *mine = memory(PART);
	int next = (rank + 1) % size, before = (rank + size - 1) % size, class, results[10], count = 0;
	MPI_Comm w = MPI_COMM_WORLD;
	MPI_Request request;
	MPI_Datatype unready;

	MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
	MPI_Type_contiguous(PART, MPI_BYTE, &unready);
	if (rank == 0)
		make(name, all_bytes(), 1);
	MPI_Barrier(w);
	int fd = open(name, O_RDONLY);
	note_result("read", read(fd, all, all_bytes()));
	close(fd);
	results[count++] = MPI_Send(all, PART, MPI_BYTE, next, -5, w);
	results[count++] = MPI_Ssend(all, 1, unready, next, TAG, w);
	results[count++] = MPI_Isend(all, PART, MPI_BYTE, next, -5, w, &request);
	results[count++] = MPI_Rsend(all, 1, unready, next, TAG, w);
	results[count++] = MPI_Sendrecv(all, PART, MPI_BYTE, next, -5, mine, PART, MPI_BYTE, before, TAG, w,
		MPI_STATUS_IGNORE);
	results[count++] = MPI_Sendrecv(all, PART, MPI_BYTE, next, TAG, mine, -1, MPI_BYTE, before, TAG, w,
		MPI_STATUS_IGNORE);
	results[count++] = MPI_Sendrecv(all, PART, MPI_BYTE, next, TAG, mine, PART, MPI_BYTE, before, -5, w,
		MPI_STATUS_IGNORE);
	results[count++] = MPI_Sendrecv_replace(all, PART, MPI_BYTE, next, -5, before, TAG, w, MPI_STATUS_IGNORE);
	/* These were not read. */
	fill(mine, PART, (unsigned)rank);
	results[count++] = MPI_Send(mine, 1, unready, next, TAG, w);
	results[count++] = MPI_Isend(mine, PART, MPI_BYTE, next, -5, w, &request);
	for (int i = 0; i < count; i++) {
		MPI_Error_class(results[i], &class);
		note("refused %d", class);
	}
	MPI_Barrier(w);
	MPI_Comm_set_errhandler(w, MPI_ERRORS_ARE_FATAL);
	MPI_Type_free(&unready);
	note_sum("all", all, all_bytes());
	free(all);
	free(mine);
}

/* A send has ended, and its rank waits for what the receiver does with the data, by a file instead of MPI. */
static void sender_waits_by_a_file(void)
{
	const size_t bytes = 3 * PART;
	char *out = path("out"), *done = path("done"), *mine = memory(bytes);

	fill(mine, bytes, (unsigned)rank);
	if (rank == 1) {
		MPI_Send(mine, (int)bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
		int tries = 30000;

		while (tries-- && access(done, F_OK))
			usleep(1000);
		note("done %d", access(done, F_OK) == 0);
	} else if (rank == 0) {
		MPI_Recv(mine, (int)bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		/* Longer than the sender waits for it. */
		usleep(200000);
		int fd = open(out, O_WRONLY | O_CREAT, 0644);

		note_result("write", write(fd, mine, bytes));
		close(fd);
		close(open(done, O_WRONLY | O_CREAT, 0644));
		note_file(out);
	}
	free(mine);
}

#define ROWS(name, send, receives) {"message_" #name, name, 0},

const struct test message_tests[] = {
	MESSAGES(ROWS){"many_pending", many_pending, 0},
	{"first_of_two", first_of_two, 0},
	{"errors_of_sends", errors_of_sends, 0},
	{"refused_sends", refused_sends, 0},
	{"sender_waits_by_a_file", sender_waits_by_a_file, 0},
	{"with_threads", with_threads, LASTS},
	{NULL, NULL, 0},
};
