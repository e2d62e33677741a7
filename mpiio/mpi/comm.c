/* Whether a communicator can be used, cached as an attribute that is freed with it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/control.h"
#include "mpi/nodes.h"
#include "real.h"

MPI_Comm hwio_control;
int hwio_rank, hwio_ranks;
bool hwio_parts_are_messages;
unsigned char hwio_cookie[HWIO_COOKIE_BYTES];

static int key = MPI_KEYVAL_INVALID;

struct hwio_last_comm hwio_last_comm;

bool hwio_is_sendable(MPI_Datatype type, int tag)
{
	/* MPICH examines the type of an element only, and its address. */
	static const char nothing;
	return hwio_real.MPI_Send(&nothing, 1, type, MPI_PROC_NULL, tag, hwio_control) == MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	struct hwio_comm *known = value;
	if (known == hwio_last_comm.known)
		hwio_last_comm.known = NULL;
	while (known->turns) {
		struct hwio_turn *turn = known->turns;
		known->turns = turn->next;
		free(turn);
	}
	free(known->world_ranks);
	hwio_nodes_free(known->ring);
	free(known);
	return MPI_SUCCESS;
}

static int copy_nothing(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *is_copied)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	(void)value;
	(void)copy;
	*is_copied = 0;
	return MPI_SUCCESS;
}

void hwio_comm_start(void)
{
	hwio_real.MPI_Comm_create_keyval(copy_nothing, forget, &key, NULL);
}

/* Returns true if all members are of this job's world; both sides of a merged communicator get the same result. */
static bool find_members(MPI_Comm comm, struct hwio_comm *known)
{
	int is_inter;
	MPI_Group world, group;
	if (hwio_real.MPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter ||
		hwio_real.MPI_Comm_size(comm, &known->size) != MPI_SUCCESS ||
		hwio_real.MPI_Comm_rank(comm, &known->rank) != MPI_SUCCESS || known->size < 2)
		return false;
	int *ranks = malloc((size_t)known->size * sizeof(int));
	known->world_ranks = malloc((size_t)known->size * sizeof(int));
	bool is_good = ranks && known->world_ranks;
	if (is_good && hwio_real.MPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
		for (int i = 0; i < known->size; i++)
			ranks[i] = i;
		is_good = hwio_real.MPI_Comm_group(comm, &group) == MPI_SUCCESS;
		if (is_good) {
			is_good = hwio_real.MPI_Group_translate_ranks(group, known->size, ranks, world,
					  known->world_ranks) == MPI_SUCCESS;
			hwio_real.MPI_Group_free(&group);
		}
		hwio_real.MPI_Group_free(&world);
	}
	for (int i = 0; i < known->size && is_good; i++)
		is_good = known->world_ranks[i] != MPI_UNDEFINED;
	free(ranks);
	return is_good;
}

/* Creates the attribute, under a mutex, so that two threads don't both do so. */
static struct hwio_comm *make_comm(MPI_Comm comm)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	struct hwio_comm *known = NULL;
	int is_found = 0;
	pthread_mutex_lock(&making);
	if (hwio_real.MPI_Comm_get_attr(comm, key, &known, &is_found) == MPI_SUCCESS && !is_found &&
		(known = calloc(1, sizeof(*known)))) {
		known->is_usable = find_members(comm, known);
		if (hwio_real.MPI_Comm_set_attr(comm, key, known) != MPI_SUCCESS) {
			forget(comm, key, known, NULL);
			known = NULL;
		}
	}
	pthread_mutex_unlock(&making);
	return known;
}

struct hwio_comm *hwio_comm_of(MPI_Comm comm)
{
	struct hwio_comm *known = NULL;
	int is_found = 0;
	if (hwio_last_comm.known && comm == hwio_last_comm.comm && !hwio_is_threaded())
		return hwio_last_comm.known->is_usable ? hwio_last_comm.known : NULL;
	if (comm == MPI_COMM_NULL || key == MPI_KEYVAL_INVALID)
		return NULL;
	hwio_step_in();
	if (hwio_real.MPI_Comm_get_attr(comm, key, &known, &is_found) == MPI_SUCCESS && !is_found)
		known = make_comm(comm);
	hwio_step_out();
	if (!hwio_is_threaded())
		hwio_last_comm = (struct hwio_last_comm){comm, known};
	return known && known->is_usable ? known : NULL;
}

struct hwio_turn *hwio_comm_turn(struct hwio_comm *comm, int root, int kind)
{
	for (struct hwio_turn *turn = comm->turns; turn; turn = turn->next)
		if (turn->root == root && turn->kind == kind)
			return turn;
	struct hwio_turn *turn = calloc(1, sizeof(*turn));
	if (!turn)
		abort();
	*turn = (struct hwio_turn){.root = root, .kind = kind, .next = comm->turns};
	comm->turns = turn;
	return turn;
}

int hwio_error(MPI_Comm comm, int code)
{
	hwio_real.MPI_Comm_call_errhandler(comm, code);
	return code;
}
