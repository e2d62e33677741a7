/* Messages from one rank to another. */
#define _GNU_SOURCE
#include "sequences.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum begin { AT_ONCE, SYNCHRONOUS, PERSISTENT, PERSISTENT_SYNCHRONOUS, PERSISTENT_STARTALL, BEGINS };
/* From LATER on: begun as above, and completed. */
enum send { SEND, SSEND, SENDRECV, BSEND, LATER };
enum receive {
	RECV,
	RECV_SENDRECV,
	PROBE,
	IPROBE,
	MPROBE,
	IMPROBE,
	MPROBE_IMRECV,
	PROBE_IRECV,
	PROBE_TWICE,
	RECEIVE_LATER
};

struct message {
	MPI_Comm comm;
	/* Ranks of the program, and of the communicator. */
	int from, to, source, destination, tag;
};

static struct message next_message(void)
{
	int comm = (int)next();
	struct message message = {.comm = program.comms[comm]};

	message.from = (int)next();
	message.to = (int)next();
	message.tag = (int)next();
	message.source = rank_in(comm, message.from);
	message.destination = rank_in(comm, message.to);
	return message;
}

static void start(struct request *request, enum begin variant)
{
	if (variant == PERSISTENT_STARTALL)
		event_code("startall", MPI_Startall(1, &request->handle));
	else
		event_code("start", MPI_Start(&request->handle));
}

static struct request *begin_send(const struct message *m, const struct typed *t, enum begin variant)
{
	struct request *request = &program.requests[0][m->tag];

	request->type = MPI_DATATYPE_NULL;
	if (variant == AT_ONCE || variant == SYNCHRONOUS) {
		event_code("isend",
			(variant == AT_ONCE ? MPI_Isend : MPI_Issend)(t->at, t->count, t->type, m->destination, m->tag,
				m->comm, &request->handle));
		return request;
	}
	if (!request->is_persistent)
		event_code("send_init",
			(variant == PERSISTENT_SYNCHRONOUS ? MPI_Ssend_init : MPI_Send_init)(t->at, t->count, t->type,
				m->destination, m->tag, m->comm, &request->handle));
	request->is_persistent = 1;
	start(request, variant);
	return request;
}

static struct request *begin_receive(const struct message *m, const struct typed *t, enum begin variant)
{
	struct request *request = &program.requests[1][m->tag];

	request->type = t->type;
	if (variant == AT_ONCE || variant == SYNCHRONOUS) {
		event_code("irecv", MPI_Irecv(t->at, t->count, t->type, m->source, m->tag, m->comm, &request->handle));
		return request;
	}
	if (!request->is_persistent)
		event_code("recv_init",
			MPI_Recv_init(t->at, t->count, t->type, m->source, m->tag, m->comm, &request->handle));
	request->is_persistent = 1;
	start(request, variant);
	return request;
}

static void send_buffered(const struct message *m, const struct typed *t)
{
	int bytes;
	void *memory;

	MPI_Pack_size(t->count, t->type, m->comm, &bytes);
	bytes += MPI_BSEND_OVERHEAD;
	memory = malloc((size_t)bytes);
	must(memory && !MPI_Buffer_attach(memory, bytes), "memory for MPI_Bsend");
	event_code("bsend", MPI_Bsend(t->at, t->count, t->type, m->destination, m->tag, m->comm));
	MPI_Buffer_detach(&memory, &bytes);
	free(memory);
}

static void send(const struct message *m, const struct typed *t, enum send variant, int completion)
{
	struct request *request;

	if (variant == SEND) {
		event_code("send", MPI_Send(t->at, t->count, t->type, m->destination, m->tag, m->comm));
	} else if (variant == SSEND) {
		event_code("ssend", MPI_Ssend(t->at, t->count, t->type, m->destination, m->tag, m->comm));
	} else if (variant == SENDRECV) {
		event_code("sendrecv",
			MPI_Sendrecv(t->at, t->count, t->type, m->destination, m->tag, NULL, 0, MPI_BYTE, MPI_PROC_NULL,
				m->tag, m->comm, MPI_STATUS_IGNORE));
	} else if (variant == BSEND) {
		send_buffered(m, t);
	} else {
		request = begin_send(m, t, (enum begin)(variant - LATER));
		complete("sent", completion, 1, &request);
	}
}

/* A probe in one of its forms, until the message is there. */
static MPI_Message probe(const struct message *m, const struct typed *t, enum receive variant, int is_ignored)
{
	MPI_Message message = MPI_MESSAGE_NULL;
	MPI_Status own, *status = is_ignored ? MPI_STATUS_IGNORE : &own;
	int is_there = 0, code = MPI_SUCCESS;

	fresh_status(&own);
	if (variant == MPROBE || variant == MPROBE_IMRECV)
		code = MPI_Mprobe(m->source, m->tag, m->comm, &message, status);
	else if (variant == PROBE || variant == PROBE_IRECV || variant == PROBE_TWICE)
		code = MPI_Probe(m->source, m->tag, m->comm, status);
	while ((variant == IPROBE || variant == IMPROBE) && !is_there && code == MPI_SUCCESS) {
		code = variant == IPROBE ? MPI_Iprobe(m->source, m->tag, m->comm, &is_there, status)
					 : MPI_Improbe(m->source, m->tag, m->comm, &is_there, &message, status);
		sched_yield();
	}
	if (is_ignored) {
		event_code("probe", code);
	} else {
		event_status("probe", code, &own, t->type);
#if defined(OPEN_MPI) && 10000 * OMPI_MAJOR_VERSION + 100 * OMPI_MINOR_VERSION + OMPI_RELEASE_VERSION >= 40104
		/* MPI requires that it is left alone; MPICH and earlier ones change it. */
		event("probe error %d", own.MPI_ERROR);
#endif
	}
	return message;
}

static void receive_now(const struct message *m, const struct typed *t, enum receive variant, int is_ignored)
{
	MPI_Status own, *status = is_ignored ? MPI_STATUS_IGNORE : &own;
	MPI_Message message = MPI_MESSAGE_NULL;
	int code;

	if (variant >= PROBE)
		message = probe(m, t, variant, is_ignored);
	if (variant == PROBE_TWICE)
		probe(m, t, variant, is_ignored);
	fresh_status(&own);
	if (variant == RECV_SENDRECV)
		code = MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, t->at, t->count, t->type, m->source, m->tag,
			m->comm, status);
	else if (variant == MPROBE || variant == IMPROBE)
		code = MPI_Mrecv(t->at, t->count, t->type, &message, status);
	else
		code = MPI_Recv(t->at, t->count, t->type, m->source, m->tag, m->comm, status);
	if (is_ignored)
		event_code("received", code);
	else
		event_status("received", code, &own, t->type);
}

static void receive(const struct message *m, const struct typed *t, enum receive variant, int completion,
	int is_ignored)
{
	struct request *request;
	MPI_Message message;

	if (variant == MPROBE_IMRECV) {
		message = probe(m, t, variant, is_ignored);
		request = &program.requests[1][m->tag];
		request->type = t->type;
		event_code("imrecv", MPI_Imrecv(t->at, t->count, t->type, &message, &request->handle));
	} else if (variant == PROBE_IRECV) {
		probe(m, t, variant, is_ignored);
		request = begin_receive(m, t, AT_ONCE);
	} else if (variant >= RECEIVE_LATER) {
		request = begin_receive(m, t, (enum begin)(variant - RECEIVE_LATER));
	} else {
		receive_now(m, t, variant, is_ignored);
		return;
	}
	complete("received", completion, 1, &request);
}

/* Bits of a plan: from any source, with any tag. */
static void widen(struct message *m, int wild)
{
	if (wild & 1)
		m->source = MPI_ANY_SOURCE;
}

static void any_tag(struct message *m, int wild)
{
	if (wild & 2)
		m->tag = MPI_ANY_TAG;
}

/*
 * COMM FROM TO TAG, sent TYPE COUNT BUFFER AT, received TYPE COUNT BUFFER AT, SEND RECEIVE COMPLETION WILD IS_IGNORED.
 * Any tag is taken by calls that leave no request.
 */
void do_message(void)
{
	struct message m = next_message();
	struct typed sent = next_typed(), received = next_typed();
	enum send variant = (enum send)next();
	enum receive receive_variant = (enum receive)next();
	int completion = (int)next(), wild = (int)next(), is_ignored = (int)next();

	if (program.rank == m.from) {
		send(&m, &sent, variant, completion);
	} else if (program.rank == m.to) {
		widen(&m, wild);
		if (receive_variant < RECEIVE_LATER && receive_variant != MPROBE_IMRECV &&
			receive_variant != PROBE_IRECV)
			any_tag(&m, wild);
		receive(&m, &received, receive_variant, completion, is_ignored);
	}
}

/* SIDE COMM FROM TO TAG TYPE COUNT BUFFER AT BEGIN WILD; side 0 sends. */
void do_begin(void)
{
	int side = (int)next();
	struct message m = next_message();
	struct typed t = next_typed();
	enum begin variant = (enum begin)next();

	widen(&m, side ? (int)next() : 0);
	if (side == 0 && program.rank == m.from)
		begin_send(&m, &t, variant);
	else if (side == 1 && program.rank == m.to)
		begin_receive(&m, &t, variant);
}

/* RANK COMPLETION COUNT, for each SIDE TAG. */
void do_finish(void)
{
	struct request *requests[TAGS_MAX];
	long rank = next();
	int completion = (int)next(), count = (int)next();

	for (int one = 0; one < count; one++) {
		long side = next();

		requests[one] = &program.requests[side][next()];
	}
	if (program.rank == rank)
		complete("finished", completion, count, requests);
}

/* RANK TAG TYPE COUNT BUFFER AT: a receive for which no message arrives. */
void do_cancel(void)
{
	long rank = next(), tag = next();
	struct typed t = next_typed();
	MPI_Request request;
	MPI_Status status;
	int is_cancelled = 0;

	if (program.rank != rank)
		return;
	event_code("irecv", MPI_Irecv(t.at, t.count, t.type, MPI_ANY_SOURCE, (int)tag, program.comms[0], &request));
	event_code("cancel", MPI_Cancel(&request));
	event_code("wait", MPI_Wait(&request, &status));
	MPI_Test_cancelled(&status, &is_cancelled);
	event("cancelled %d", is_cancelled);
}

/* RANK WHAT TYPE COUNT BUFFER AT: calls that MPI refuses, or that move nothing. */
void do_wrong(void)
{
	long rank = next(), what = next();
	struct typed t = next_typed();
	MPI_Comm comm = program.comms[0];
	MPI_Status status;
	MPI_Request request = MPI_REQUEST_NULL;

	if (program.rank != rank)
		return;
	fresh_status(&status);
	if (what == 0)
		event_code("send to null", MPI_Send(t.at, t.count, t.type, 1000, 1, comm));
	else if (what == 1)
		event_code("send with tag -3", MPI_Send(t.at, t.count, t.type, 0, -3, comm));
	else if (what == 2)
		event_code("send of -1", MPI_Send(t.at, -1, t.type, 0, 1, comm));
	else if (what == 3)
		event_code("receive from null", MPI_Recv(t.at, t.count, t.type, 1000, 1, comm, &status));
	else if (what == 4)
		event_code("receive of -1", MPI_Recv(t.at, -1, t.type, 0, 1, comm, &status));
	else if (what == 5)
		event_status("no source", MPI_Recv(t.at, t.count, t.type, MPI_PROC_NULL, 1, comm, &status), &status,
			t.type);
	else if (what == 6)
		event_code("no destination", MPI_Send(t.at, t.count, t.type, MPI_PROC_NULL, 1, comm));
	else if (what == 7)
		event_code("isend to null", MPI_Isend(t.at, t.count, t.type, 1000, 1, comm, &request));
	else if (what == 8)
		event_code("scatter from null",
			MPI_Scatter(t.at, t.count, t.type, t.at, t.count, t.type, 1000, program.comms[0]));
	else if (what == 9)
		event_code("gather to null",
			MPI_Gather(t.at, t.count, t.type, t.at, t.count, t.type, 1000, program.comms[0]));
	else if (what == 10)
		event_code("reduce to null", MPI_Reduce(t.at, t.at, t.count, t.type, MPI_SUM, 1000, comm));
	else if (what == 11)
		event_code("allreduce by null", MPI_Allreduce(t.at, t.at, t.count, t.type, MPI_OP_NULL, comm));
	else if (what == 12)
		event_code("alltoall of null",
			MPI_Alltoall(t.at, t.count, MPI_DATATYPE_NULL, t.at, t.count, t.type, comm));
	else if (what == 13)
		event_code("allgather of null",
			MPI_Allgather(t.at, t.count, MPI_DATATYPE_NULL, t.at, t.count, t.type, comm));
}
