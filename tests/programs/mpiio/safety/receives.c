/* Data that was read is sent, and received as few programs do. */
#define _GNU_SOURCE
#include "messages.h"

static void by_opaque_type(char *mine)
{
	MPI_Datatype type = opaque_type();
	MPI_Status status;

	MPI_Recv(mine, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, type);
	note_status(&status, MPI_BYTE);
	MPI_Type_free(&type);
}

static void by_opaque_type_in_part(char *mine)
{
	MPI_Datatype type = opaque_type();
	MPI_Request request;
	MPI_Status status;

	MPI_Irecv(mine, 1, type, 0, TAG, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	note_status(&status, MPI_BYTE);
	MPI_Type_free(&type);
}

static void by_opaque_type_after_probe(char *mine)
{
	MPI_Datatype type = opaque_type();
	MPI_Status status = {0};

	MPI_Probe(0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Recv(mine, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Type_free(&type);
}

/* Over deferred data itself. */
static void by_opaque_type_twice(char *mine)
{
	MPI_Datatype type = opaque_type();
	MPI_Status status;

	MPI_Recv(mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Recv(mine, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
	note_status(&status, MPI_BYTE);
	MPI_Type_free(&type);
}

static void by_probe_and_persistent(char *mine)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int index = -1, is_done = 0;

	/* MPICH's probes leave in it whether it was cancelled. */
	memset(statuses, 0, sizeof statuses);
	MPI_Recv_init(mine + PART, 5000, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Recv_init(mine, PART, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &requests[1]);
	MPI_Probe(0, TAG, MPI_COMM_WORLD, &statuses[0]);
	note_status(&statuses[0], MPI_BYTE);
	MPI_Startall(2, requests);
	MPI_Testall(2, requests, &is_done, statuses);
	note("all done %d", is_done);
	if (odd())
		MPI_Waitany(2, requests, &index, &statuses[0]);
	else
		MPI_Waitsome(2, requests, &is_done, &index, statuses);
	note("index %d", index);
	note_status(&statuses[0], MPI_BYTE);
	MPI_Cancel(&requests[0]);
	MPI_Waitall(2, requests, statuses);
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
static void by_isendrecv(char *mine)
{
	char own[10] = "own";
	MPI_Request request;
	MPI_Status status;

	MPI_Isendrecv(own, 0, MPI_BYTE, MPI_PROC_NULL, 3, mine, PART, MPI_BYTE, odd() ? MPI_ANY_SOURCE : 0, TAG,
		MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	note_status(&status, MPI_BYTE);
	memset(mine, 'i', PART);
	MPI_Isendrecv(mine, PART / 2, MPI_BYTE, rank, 3, mine + PART / 2, PART / 2, MPI_BYTE, rank, 3, MPI_COMM_WORLD,
		&request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A partner for each of the two messages: MPICH's status is then not the receive's. */
static void by_isendrecv_of_two(char *mine)
{
	char got[100] = "";
	MPI_Request requests[2];

	MPI_Irecv(got, 100, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &requests[0]);
	MPI_Isendrecv("what is sent", 13, MPI_BYTE, rank, 3, mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
		&requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	note("got %.99s", got);
}

static void by_isendrecv_replace_of_two(char *mine)
{
	MPI_Request requests[2];
	char *got = memory(PART);

	MPI_Irecv(got, PART, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &requests[0]);
	MPI_Isendrecv_replace(mine, PART, MPI_BYTE, rank, 3, odd() ? MPI_ANY_SOURCE : 0, TAG, MPI_COMM_WORLD,
		&requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	note_sum("got", got, PART);
	free(got);
}

static void by_isendrecv_replace(char *mine)
{
	MPI_Request request;
	MPI_Status status;

	memset(mine, 'r', 100);
	MPI_Isendrecv_replace(mine, odd() ? PART : 100, MPI_BYTE, 0, 3, 0, 3, MPI_COMM_SELF, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Isendrecv_replace(mine, PART, MPI_BYTE, MPI_PROC_NULL, 3, 0, TAG, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	note_status(&status, MPI_BYTE);
}

static void by_probe_and_isendrecv(char *mine)
{
	char got[100] = "";
	MPI_Request requests[2];
	MPI_Status statuses[2];

	memset(statuses, 0, sizeof statuses);
	MPI_Irecv(got, 100, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &requests[0]);
	MPI_Probe(0, TAG, MPI_COMM_WORLD, &statuses[1]);
	note_status(&statuses[1], MPI_BYTE);
	if (odd()) {
		MPI_Isendrecv("what is sent", 13, MPI_BYTE, rank, 3, mine, PART, MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
			&requests[1]);
		MPI_Waitall(2, requests, statuses);
	} else {
		MPI_Cancel(&requests[0]);
		MPI_Isendrecv_replace(mine, PART, MPI_BYTE, MPI_PROC_NULL, 3, 0, TAG, MPI_COMM_WORLD, &requests[1]);
		MPI_Wait(&requests[1], &statuses[1]);
		MPI_Wait(&requests[0], &statuses[0]);
		note_status(&statuses[1], MPI_BYTE);
	}
	note("got %.99s", got);
}
#else
#define by_isendrecv by_opaque_type
#define by_isendrecv_of_two by_opaque_type
#define by_isendrecv_replace_of_two by_opaque_type
#define by_isendrecv_replace by_opaque_type
#define by_probe_and_isendrecv by_opaque_type
#endif

/* Room for more bytes than an int can count. */
static void by_large_counts(char *mine)
{
#if MPI_VERSION >= 4
	MPI_Count count = (1L << 31) + PART;
	char *room = mmap(NULL, (size_t)count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		0);
	MPI_Request request;
	MPI_Status status;

	must(room != MAP_FAILED, "room");
	if (round_now == 0) {
		MPI_Recv_c(room, count, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	} else if (round_now == 1) {
		MPI_Irecv_c(room, count, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, &status);
	} else if (round_now == 2) {
		MPI_Sendrecv_c(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 3, room, count, MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
			&status);
	} else {
		MPI_Probe(0, TAG, MPI_COMM_WORLD, &status);
		MPI_Recv_c(room, count, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	}
	note_status(&status, MPI_BYTE);
	memcpy(mine, room, PART + 5000);
	munmap(room, (size_t)count);
#else
	by_opaque_type(mine);
#endif
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
static void by_status_of_requests(char *mine)
{
	MPI_Request request;
	MPI_Status status;
	int is_done = 0, index = -1;

	MPI_Irecv(mine, PART, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
	while (!is_done) {
		if (round_now == 0)
			MPI_Request_get_status_all(1, &request, &is_done, &status);
		else if (round_now == 1)
			MPI_Request_get_status_any(1, &request, &index, &is_done, &status);
		else
			MPI_Request_get_status_some(1, &request, &is_done, &index, &status);
	}
	note_status(&status, MPI_BYTE);
	note_sum("before it is waited for", mine, PART);
	note("wait %d", MPI_Wait(&request, &status));
	note_status(&status, MPI_BYTE);
}
#else
#define by_status_of_requests by_opaque_type
#endif

/* clang-format off */
#define RECEIVES(X) \
	X(opaque, plainly, by_opaque_type) X(opaque_in_part, partly, by_opaque_type_in_part) \
	X(opaque_probed, plainly, by_opaque_type_after_probe) X(opaque_twice, twice, by_opaque_type_twice) \
	X(probe_persistent, plainly, by_probe_and_persistent) X(isendrecv, plainly, by_isendrecv) \
	X(isendrecv_of_two, plainly, by_isendrecv_of_two) X(isendrecv_replace, plainly, by_isendrecv_replace) \
	X(isendrecv_replace_of_two, at_once, by_isendrecv_replace_of_two) X(probe_isendrecv, plainly, by_probe_and_isendrecv) \
	X(large_counts, plainly, by_large_counts) X(status_of_requests, plainly, by_status_of_requests)
/* clang-format on */
RECEIVES(CASE)

#define ROWS(name, send, receives) {"receive_" #name, name, 0},

const struct test receive_tests[] = {
	RECEIVES(ROWS){NULL, NULL, 0},
};
