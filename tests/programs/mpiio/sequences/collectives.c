/* Messages of all ranks. */
#include "sequences.h"

#include <sched.h>
#include <string.h>

/* Bits of a plan; from COMPLETION on, how what is LATER is completed, and whether all ranks meet before that. */
enum { LATER = 1, IN_PLACE = 2, LARGE = 4, COMPLETION = 8, COMPLETIONS = 16, MEETING = 128 };

static MPI_Comm next_comm(int *number)
{
	*number = (int)next();
	return program.comms[*number];
}

static int next_root(int comm)
{
	return rank_in(comm, (int)next());
}

static int own_rank(int comm)
{
	return rank_in(comm, program.rank);
}

/* The operation that a call began, which returned at once. */
static void finish(const char *what, int variant, int code, MPI_Request *request)
{
	struct request one = {.handle = *request, .type = MPI_DATATYPE_NULL}, *only = &one;

	if (event_code(what, code) != MPI_SUCCESS)
		return;
	if (variant & MEETING)
		MPI_Barrier(program.comms[0]);
	complete(what, variant / COMPLETION % COMPLETIONS, 1, &only);
}

static void scatter_or_gather(int is_gather)
{
	int number;
	MPI_Comm comm = next_comm(&number);
	int root = next_root(number), variant = (int)next();
	struct typed send = next_typed(), receive = next_typed();
	int is_root = own_rank(number) == root;
	void *from = is_gather && is_root && (variant & IN_PLACE) ? MPI_IN_PLACE : send.at;
	void *to = !is_gather && is_root && (variant & IN_PLACE) ? MPI_IN_PLACE : receive.at;
	MPI_Request request = MPI_REQUEST_NULL;

	if (is_gather && (variant & LATER))
		finish("igather", variant,
			MPI_Igather(from, send.count, send.type, to, receive.count, receive.type, root, comm, &request),
			&request);
	else if (is_gather)
		event_code("gather",
			MPI_Gather(from, send.count, send.type, to, receive.count, receive.type, root, comm));
	else if (variant & LATER)
		finish("iscatter", variant,
			MPI_Iscatter(from, send.count, send.type, to, receive.count, receive.type, root, comm,
				&request),
			&request);
	else
		event_code("scatter",
			MPI_Scatter(from, send.count, send.type, to, receive.count, receive.type, root, comm));
}

/* COMM ROOT VARIANT, sent TYPE COUNT BUFFER AT, received TYPE COUNT BUFFER AT */
void do_scatter(void)
{
	scatter_or_gather(0);
}

/* The same. */
void do_gather(void)
{
	scatter_or_gather(1);
}

/* Counts and displacements are those of the root's memory; of another rank's, a count there is `unit` of its own
 * type. */
struct parts {
	int number, root, variant, counts[RANKS_MAX], displs[RANKS_MAX], is_root, own;
	MPI_Comm comm;
	MPI_Datatype type;
	char *at;
	struct typed each;
};

static struct parts next_parts(void)
{
	struct parts p;

	p.comm = next_comm(&p.number);
	p.root = next_root(p.number);
	p.variant = (int)next();
	p.type = program.types[next()];
	p.at = next_location();
	next_list(p.counts);
	next_list(p.displs);
	p.each = next_typed();
	p.own = own_rank(p.number);
	p.is_root = p.own == p.root;
	p.each.count *= p.counts[p.own];
	return p;
}

#if MPI_VERSION >= 4
/* Valid until the operation is complete. */
static MPI_Count large_counts[RANKS_MAX];
static MPI_Aint large_displs[RANKS_MAX];

static void widen(const struct parts *p)
{
	for (int rank = 0; rank < program.size; rank++) {
		large_counts[rank] = p->counts[rank];
		large_displs[rank] = p->displs[rank];
	}
}

static int scatterv_large(const struct parts *p, void *to)
{
	widen(p);
	return MPI_Scatterv_c(p->at, large_counts, large_displs, p->type, to, p->each.count, p->each.type, p->root,
		p->comm);
}

static int gatherv_large(const struct parts *p, const void *from)
{
	widen(p);
	return MPI_Gatherv_c(from, p->each.count, p->each.type, p->at, large_counts, large_displs, p->type, p->root,
		p->comm);
}

static int iscatterv_large(const struct parts *p, void *to, MPI_Request *request)
{
	widen(p);
	return MPI_Iscatterv_c(p->at, large_counts, large_displs, p->type, to, p->each.count, p->each.type, p->root,
		p->comm, request);
}

static int igatherv_large(const struct parts *p, const void *from, MPI_Request *request)
{
	widen(p);
	return MPI_Igatherv_c(from, p->each.count, p->each.type, p->at, large_counts, large_displs, p->type, p->root,
		p->comm, request);
}
#else
static int scatterv_large(const struct parts *p, void *to)
{
	return MPI_Scatterv(p->at, p->counts, p->displs, p->type, to, p->each.count, p->each.type, p->root, p->comm);
}

static int gatherv_large(const struct parts *p, const void *from)
{
	return MPI_Gatherv(from, p->each.count, p->each.type, p->at, p->counts, p->displs, p->type, p->root, p->comm);
}

static int iscatterv_large(const struct parts *p, void *to, MPI_Request *request)
{
	return MPI_Iscatterv(p->at, p->counts, p->displs, p->type, to, p->each.count, p->each.type, p->root, p->comm,
		request);
}

static int igatherv_large(const struct parts *p, const void *from, MPI_Request *request)
{
	return MPI_Igatherv(from, p->each.count, p->each.type, p->at, p->counts, p->displs, p->type, p->root, p->comm,
		request);
}
#endif

/* COMM ROOT VARIANT TYPE BUFFER AT, counts, displacements, each TYPE UNIT BUFFER AT */
void do_scatterv(void)
{
	struct parts p = next_parts();
	void *to = p.is_root && (p.variant & IN_PLACE) ? MPI_IN_PLACE : p.each.at;
	MPI_Request request = MPI_REQUEST_NULL;

	if ((p.variant & LARGE) && (p.variant & LATER))
		finish("iscatterv", p.variant, iscatterv_large(&p, to, &request), &request);
	else if (p.variant & LARGE)
		event_code("scatterv", scatterv_large(&p, to));
	else if (p.variant & LATER)
		finish("iscatterv", p.variant,
			MPI_Iscatterv(p.at, p.counts, p.displs, p.type, to, p.each.count, p.each.type, p.root, p.comm,
				&request),
			&request);
	else
		event_code("scatterv",
			MPI_Scatterv(p.at, p.counts, p.displs, p.type, to, p.each.count, p.each.type, p.root, p.comm));
}

/* The same. */
void do_gatherv(void)
{
	struct parts p = next_parts();
	const void *from = p.is_root && (p.variant & IN_PLACE) ? MPI_IN_PLACE : p.each.at;
	MPI_Request request = MPI_REQUEST_NULL;

	if ((p.variant & LARGE) && (p.variant & LATER))
		finish("igatherv", p.variant, igatherv_large(&p, from, &request), &request);
	else if (p.variant & LARGE)
		event_code("gatherv", gatherv_large(&p, from));
	else if (p.variant & LATER)
		finish("igatherv", p.variant,
			MPI_Igatherv(from, p.each.count, p.each.type, p.at, p.counts, p.displs, p.type, p.root, p.comm,
				&request),
			&request);
	else
		event_code("gatherv",
			MPI_Gatherv(from, p.each.count, p.each.type, p.at, p.counts, p.displs, p.type, p.root, p.comm));
}

/* COMM ROOT VARIANT, the root's TYPE COUNT BUFFER AT, the others' TYPE COUNT BUFFER AT */
void do_bcast(void)
{
	int number;
	MPI_Comm comm = next_comm(&number);
	int root = next_root(number), variant = (int)next();
	struct typed from = next_typed(), to = next_typed(), own = own_rank(number) == root ? from : to;
	MPI_Request request = MPI_REQUEST_NULL;

	if (variant & LATER)
		finish("ibcast", variant, MPI_Ibcast(own.at, own.count, own.type, root, comm, &request), &request);
	else
		event_code("bcast", MPI_Bcast(own.at, own.count, own.type, root, comm));
}

/* COMM BUFFER AT BUFFER AT BYTES */
void do_reduce(void)
{
	int number;
	MPI_Comm comm = next_comm(&number);
	const char *from = next_location();
	char *to = next_location();
	int bytes = (int)next();

	event_code("allreduce", MPI_Allreduce(from, to, bytes, MPI_BYTE, MPI_BXOR, comm));
}

/* COMM BUFFER AT BUFFER AT BYTES, of each rank for each */
void do_alltoall(void)
{
	int number;
	MPI_Comm comm = next_comm(&number);
	const char *from = next_location();
	char *to = next_location();
	int bytes = (int)next();

	event_code("alltoall", MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm));
}

void do_barrier(void)
{
	MPI_Barrier(program.comms[0]);
}

/* COMM VARIANT TAG SHIFT, sent TYPE COUNT BUFFER AT, received TYPE COUNT BUFFER AT: each sends to another. */
void do_ring(void)
{
	int number;
	MPI_Comm comm = next_comm(&number);
	int variant = (int)next(), tag = (int)next(), shift = (int)next(), own = own_rank(number);
	struct typed send = next_typed(), receive = next_typed();
	int to = (own + shift) % program.size, from = (own + program.size - shift) % program.size, code;
	MPI_Status status;

	fresh_status(&status);
	if (variant == 0) {
		code = MPI_Sendrecv(send.at, send.count, send.type, to, tag, receive.at, receive.count, receive.type,
			from, tag, comm, &status);
		event_status("sendrecv", code, &status, receive.type);
	} else if (variant == 1) {
		code = MPI_Sendrecv_replace(receive.at, receive.count, receive.type, to, tag, from, tag, comm, &status);
		event_status("sendrecv_replace", code, &status, receive.type);
	} else {
		struct request two[2] = {{.type = MPI_DATATYPE_NULL}, {.type = receive.type}},
			       *both[2] = {&two[0], &two[1]};

		MPI_Irecv(receive.at, receive.count, receive.type, from, tag, comm, &two[1].handle);
		MPI_Isend(send.at, send.count, send.type, to, tag, comm, &two[0].handle);
		complete("ring", variant - 2, 2, both);
	}
}

/* The part received from any rank, in the order of the ranks. */
static void collected(int count, const MPI_Status *statuses, MPI_Datatype type)
{
	for (int source = 0; source < program.size; source++)
		for (int one = 0; one < count; one++)
			if (statuses[one].MPI_SOURCE == source) {
				MPI_Status status = statuses[one];

				event_status("collected", MPI_SUCCESS, &status, type);
			}
}

/* Pieces lie in the order of their arrival; then they lie in the order of their sources. */
static void sort(char *at, long step, int count, const MPI_Status *statuses, int own)
{
	char *copy = scratch(step * count);

	memcpy(copy, at, (size_t)(step * count));
	for (int one = 0; one < count; one++) {
		int source = statuses[one].MPI_SOURCE;

		memcpy(at + step * (source > own ? source - 1 : source), copy + step * one, (size_t)step);
	}
}

/*
 * COMM ROOT TAG VARIANT STEP, sent TYPE COUNT BUFFER AT, received TYPE COUNT BUFFER AT: the root receives from all in
 * the order of arrival. VARIANT: 0 MPI_Recv, 1 MPI_Irecv, 2 MPI_Probe, 3 MPI_Mprobe, 4 MPI_Iprobe, 5 MPI_Improbe.
 */
void do_collect(void)
{
	int number;
	MPI_Comm comm = next_comm(&number);
	int root = next_root(number), tag = (int)next(), variant = (int)next(), own = own_rank(number);
	long step = next();
	struct typed send = next_typed(), receive = next_typed();
	int count = program.size - 1;
	MPI_Status statuses[RANKS_MAX];
	MPI_Request requests[RANKS_MAX];

	if (own != root) {
		event_code("send", MPI_Send(send.at, send.count, send.type, root, tag, comm));
		return;
	}
	for (int one = 0; one < count; one++) {
		char *at = receive.at + step * one;
		MPI_Message message = MPI_MESSAGE_NULL;
		int is_there = variant < 4;

		if (variant == 1)
			MPI_Irecv(at, receive.count, receive.type, MPI_ANY_SOURCE, tag, comm, &requests[one]);
		if (variant == 0)
			MPI_Recv(at, receive.count, receive.type, MPI_ANY_SOURCE, tag, comm, &statuses[one]);
		if (variant < 2)
			continue;
		if (variant == 2)
			MPI_Probe(MPI_ANY_SOURCE, tag, comm, &statuses[one]);
		if (variant == 3)
			MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &message, &statuses[one]);
		while (!is_there) {
			if (variant == 4)
				MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &is_there, &statuses[one]);
			else
				MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &is_there, &message, &statuses[one]);
			sched_yield();
		}
		int source = statuses[one].MPI_SOURCE;

		at = receive.at + step * (source > own ? source - 1 : source);
		if (variant == 2 || variant == 4)
			MPI_Recv(at, receive.count, receive.type, source, tag, comm, &statuses[one]);
		else
			MPI_Mrecv(at, receive.count, receive.type, &message, &statuses[one]);
	}
	if (variant == 1)
		event_code("waitall", MPI_Waitall(count, requests, statuses));
	if (variant < 2)
		sort(receive.at, step, count, statuses, own);
	collected(count, statuses, receive.type);
}
