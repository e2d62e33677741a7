/* Operations with messages, as each rank does them. */
#include "sequences.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* The rank in the operation's communicator; in halves of the world, each half has its own root 0. */
static int rank_in(const struct op *op, int rank)
{
	return op->comm == 2 ? state.size - 1 - rank : op->comm == 3 ? 0 : rank;
}

static int is_root(const struct op *op)
{
	int own;

	MPI_Comm_rank(state.comms[op->comm], &own);
	return own == rank_in(op, op->root);
}

/* The parts of Scatterv and Gatherv: in another order, of other sizes. */
static void divide(const struct op *op, int many, int *counts, int *places)
{
	for (int part = 0; part < many; part++) {
		long less = op->bytes > 100 * part ? op->bytes - 100 * part : op->bytes;

		counts[part] = (int)(op->way == 1 && part == 1 ? 0 : less);
		places[part] = (int)((op->way % 2 ? many - 1 - part : part) * op->bytes);
	}
}

static void run_scatter(const struct op *op)
{
	MPI_Comm comm = state.comms[op->comm];
	char *from = state.buffers[op->buffer] + op->at;
	void *to = op->way == 2 && is_root(op) ? MPI_IN_PLACE : state.buffers[op->other] + op->other_at;
	int many, own, root = rank_in(op, op->root), bytes = (int)op->bytes;

	MPI_Comm_size(comm, &many);
	MPI_Comm_rank(comm, &own);
	if (op->kind == SCATTER) {
		event("scatter", sites[op->site].scatter(from, to, bytes, root, comm));
		return;
	}
	int counts[many], places[many];

	divide(op, many, counts, places);
	event("scatterv", MPI_Scatterv(from, counts, places, MPI_BYTE, to, counts[own], MPI_BYTE, root, comm));
}

/* In place, each rank's part must lie where it comes to be gathered. */
static void run_gather(const struct op *op)
{
	MPI_Comm comm = state.comms[op->comm];
	char *to = state.buffers[op->buffer] + op->at;
	void *from = op->way == 2 && is_root(op) ? MPI_IN_PLACE : state.buffers[op->other] + op->other_at;
	int many, own, root = rank_in(op, op->root), bytes = (int)op->bytes;

	MPI_Comm_size(comm, &many);
	MPI_Comm_rank(comm, &own);
	if (op->kind == GATHER) {
		int code = from == MPI_IN_PLACE ?
			MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, root, comm) :
			sites[op->site].gather(from, to, bytes, root, comm);
		event("gather", code);
		return;
	}
	int counts[many], places[many];

	divide(op, many, counts, places);
	event("gatherv", MPI_Gatherv(from, counts[own], MPI_BYTE, to, counts, places, MPI_BYTE, root, comm));
}

static void event_status(MPI_Status *status)
{
	int count = -1;

	MPI_Get_count(status, MPI_BYTE, &count);
	event("count", count);
	event("source", status->MPI_SOURCE);
	event("tag", status->MPI_TAG);
}

static void run_receive(const struct op *op, int from)
{
	MPI_Comm comm = state.comms[op->comm];
	char *to = state.buffers[op->other] + op->other_at;
	int bytes = (int)op->bytes, is_done = 0;
	MPI_Request request;
	MPI_Message message;
	MPI_Status status;

	switch (op->way % RECEIVE_WAYS) {
	case BY_RECV:
		event("recv", sites[op->site].recv(to, bytes, MPI_BYTE, from, op->tag, comm, &status));
		break;
	case BY_IRECV:
		MPI_Irecv(to, bytes, MPI_BYTE, from, op->tag, comm, &request);
		event("wait", MPI_Waitall(1, &request, &status));
		break;
	case BY_PROBE:
		MPI_Probe(from, op->tag, comm, &status);
		event_status(&status);
		event("recv", MPI_Recv(to, bytes, MPI_BYTE, from, op->tag, comm, &status));
		break;
	case BY_ANY:
		/* A third rank may be ahead, and its message there first. */
		from = state.size == 2 ? MPI_ANY_SOURCE : from;
		event("recv", MPI_Recv(to, bytes, MPI_BYTE, from, MPI_ANY_TAG, comm, &status));
		break;
	case BY_TEST:
		MPI_Irecv(to, bytes, MPI_BYTE, MPI_ANY_SOURCE, op->tag, comm, &request);
		while (!is_done)
			MPI_Test(&request, &is_done, &status);
		break;
	case BY_MPROBE:
		MPI_Mprobe(MPI_ANY_SOURCE, op->tag, comm, &message, &status);
		event_status(&status);
		event("mrecv", MPI_Mrecv(to, bytes, MPI_BYTE, &message, &status));
		break;
	}
	event_status(&status);
}

/* Every second word of four bytes. */
static int send_gaps(const struct op *op, const char *from, int to)
{
	MPI_Datatype gaps;
	int code;

	MPI_Type_vector((int)op->bytes / 8, 4, 8, MPI_BYTE, &gaps);
	MPI_Type_commit(&gaps);
	code = sites[op->site].send(from, 1, gaps, to, op->tag, state.comms[op->comm]);
	MPI_Type_free(&gaps);
	return code;
}

static void run_send(const struct op *op, int to)
{
	MPI_Comm comm = state.comms[op->comm];
	const char *from = state.buffers[op->buffer] + op->at;
	int bytes = (int)op->bytes;
	MPI_Request request;

	switch (op->way / RECEIVE_WAYS) {
	case 0:
		event("send", sites[op->site].send(from, bytes, MPI_BYTE, to, op->tag, comm));
		break;
	case 1:
		event("ssend", MPI_Ssend(from, bytes, MPI_BYTE, to, op->tag, comm));
		break;
	case 2:
		MPI_Isend(from, bytes, MPI_BYTE, to, op->tag, comm, &request);
		event("wait", MPI_Wait(&request, MPI_STATUS_IGNORE));
		break;
	default:
		event("send", send_gaps(op, from, to));
	}
}

/* The receive comes first: a long message to the rank itself waits for it. */
static void post_to_itself(const struct op *op)
{
	int own = rank_in(op, op->root);

	if (state.rank != op->root)
		return;
	MPI_Irecv(state.buffers[op->other] + op->other_at, (int)op->bytes, MPI_BYTE, own, op->tag, state.comms[op->comm],
		&state.pending);
	run_send(op, own);
}

static void run_post(const struct op *op)
{
	MPI_Comm comm = state.comms[op->comm];
	int bytes = (int)op->bytes;

	if (op->root == op->peer) {
		post_to_itself(op);
		return;
	}
	if (state.rank == op->root)
		MPI_Isend(state.buffers[op->buffer] + op->at, bytes, MPI_BYTE, rank_in(op, op->peer), op->tag, comm,
			&state.pending);
	if (state.rank == op->peer)
		MPI_Irecv(state.buffers[op->other] + op->other_at, bytes, MPI_BYTE, rank_in(op, op->root), op->tag, comm,
			&state.pending);
}

/* Each sends to the next one. */
static void run_ring(const struct op *op)
{
	MPI_Comm comm = state.comms[op->comm];
	MPI_Status status;
	int many, own;

	MPI_Comm_size(comm, &many);
	MPI_Comm_rank(comm, &own);
	event("sendrecv",
		MPI_Sendrecv(state.buffers[op->buffer] + op->at, (int)op->bytes, MPI_BYTE, (own + 1) % many, op->tag,
			state.buffers[op->other] + op->other_at, (int)op->bytes, MPI_BYTE, (own + many - 1) % many, op->tag, comm,
			&status));
	event_status(&status);
}

/* Ranks read parts with gaps, or write them one behind the other. What is read behind a file's end is anything. */
static void run_collective(const struct op *op)
{
	int writes = op->way % 2 && state.access != O_RDONLY, bytes = (int)op->bytes;
	MPI_Offset place = op->file_at + state.rank * (op->bytes + (writes ? 0 : op->way * 500));
	char *at = state.buffers[op->buffer] + op->at;
	MPI_File file = state.common[op->file];
	struct stat about;
	long there;

	if (writes) {
		event("write_at_all", MPI_File_write_at_all(file, place, at, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
		return;
	}
	event("read_at_all", MPI_File_read_at_all(file, place, at, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
	must(!fstat(state.fds[op->file], &about), "size");
	there = about.st_size > place ? about.st_size - place : 0;
	if (there < op->bytes)
		memset(at + there, 0, (size_t)(op->bytes - there));
}

void execute_messages(const struct op *op)
{
	char *from = state.buffers[op->buffer] + op->at, *to = state.buffers[op->other] + op->other_at;

	if (op->kind == SCATTER || op->kind == SCATTERV)
		run_scatter(op);
	else if (op->kind == GATHER || op->kind == GATHERV)
		run_gather(op);
	else if (op->kind == SEND && state.rank == op->root)
		run_send(op, rank_in(op, op->peer));
	else if (op->kind == SEND && state.rank == op->peer)
		run_receive(op, rank_in(op, op->root));
	else if (op->kind == POST)
		run_post(op);
	else if (op->kind == WAIT)
		event("wait", MPI_Wait(&state.pending, MPI_STATUS_IGNORE));
	else if (op->kind == BCAST)
		event("bcast", MPI_Bcast(from, (int)op->bytes, MPI_BYTE, rank_in(op, op->root), state.comms[op->comm]));
	else if (op->kind == REDUCE)
		event("allreduce",
			MPI_Allreduce(from, to, (int)op->bytes, MPI_BYTE, MPI_BXOR, state.comms[op->comm]));
	else if (op->kind == RING)
		run_ring(op);
	else if (op->kind == BARRIER)
		MPI_Barrier(MPI_COMM_WORLD);
	else if (op->kind == COLLECTIVE)
		run_collective(op);
}
