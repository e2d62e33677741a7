/* Communicators: which can be used, kept with each as an attribute that dies with it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../generated-calls.h"
#include "../memory/private.h"
#include "control.h"
#include "real.h"

static int key = MPI_KEYVAL_INVALID;

struct hw_last_comm hw_last_comm;

static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	struct hw_comm *known = value;
	if (known == hw_last_comm.known)
		hw_last_comm.known = NULL;
	while (known->turns) {
		struct hw_turn *turn = known->turns;
		known->turns = turn->next;
		free(turn);
	}
	free(known->world_ranks);
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

void hw_comm_start(void)
{
	hw_real.MPI_Comm_create_keyval(copy_nothing, forget, &key, NULL);
}

/* Whether all members are of the world that has agreed; both sides of a merged communicator come to the same answer. */
static bool find_members(MPI_Comm comm, struct hw_comm *known)
{
	int is_inter;
	MPI_Group world, group;
	if (hw_real.MPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter ||
	    hw_real.MPI_Comm_size(comm, &known->size) != MPI_SUCCESS ||
	    hw_real.MPI_Comm_rank(comm, &known->rank) != MPI_SUCCESS || known->size < 2)
		return false;
	int *ranks = malloc((size_t)known->size * sizeof(int));
	known->world_ranks = malloc((size_t)known->size * sizeof(int));
	bool is_good = ranks && known->world_ranks;
	if (is_good && hw_real.MPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
		for (int i = 0; i < known->size; i++)
			ranks[i] = i;
		is_good = hw_real.MPI_Comm_group(comm, &group) == MPI_SUCCESS;
		if (is_good) {
			is_good = hw_real.MPI_Group_translate_ranks(group, known->size, ranks, world, known->world_ranks) ==
				  MPI_SUCCESS;
			hw_real.MPI_Group_free(&group);
		}
		hw_real.MPI_Group_free(&world);
	}
	for (int i = 0; i < known->size && is_good; i++)
		is_good = known->world_ranks[i] != MPI_UNDEFINED;
	free(ranks);
	return is_good;
}

/* None of two threads that use it for the first time throws away what the other has found. */
static struct hw_comm *make(MPI_Comm comm)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	struct hw_comm *known = NULL;
	int is_found = 0;
	pthread_mutex_lock(&making);
	if (hw_real.MPI_Comm_get_attr(comm, key, &known, &is_found) == MPI_SUCCESS && !is_found &&
	    (known = calloc(1, sizeof(*known)))) {
		known->is_usable = find_members(comm, known);
		if (hw_real.MPI_Comm_set_attr(comm, key, known) != MPI_SUCCESS) {
			forget(comm, key, known, NULL);
			known = NULL;
		}
	}
	pthread_mutex_unlock(&making);
	return known;
}

struct hw_comm *hw_comm_of(MPI_Comm comm)
{
	struct hw_comm *known = NULL;
	int is_found = 0;
	if (hw_last_comm.known && comm == hw_last_comm.comm && !hw_private_is_threaded())
		return hw_last_comm.known->is_usable ? hw_last_comm.known : NULL;
	if (comm == MPI_COMM_NULL || key == MPI_KEYVAL_INVALID)
		return NULL;
	hw_step_in();
	if (hw_real.MPI_Comm_get_attr(comm, key, &known, &is_found) == MPI_SUCCESS && !is_found)
		known = make(comm);
	hw_step_out();
	if (!hw_private_is_threaded())
		hw_last_comm = (struct hw_last_comm){comm, known};
	return known && known->is_usable ? known : NULL;
}

struct hw_turn *hw_comm_turn(struct hw_comm *comm, int root, int kind)
{
	for (struct hw_turn *turn = comm->turns; turn; turn = turn->next)
		if (turn->root == root && turn->kind == kind)
			return turn;
	struct hw_turn *turn = calloc(1, sizeof(*turn));
	if (!turn)
		abort();
	*turn = (struct hw_turn){.root = root, .kind = kind, .next = comm->turns};
	comm->turns = turn;
	return turn;
}

bool hw_comm_is_even(struct hw_comm *comm, MPI_Comm handle, int kind, size_t (*bytes)(const void *of), const void *of)
{
	struct hw_even *even = &comm->even[kind];
	if (!hw_even_is_asked(++even->operations) || even->is_uneven)
		return !even->is_uneven;
	/* A rank that is asked something meanwhile can't answer. */
	if (hw_is_busy)
		hw_communicates();
	int64_t mine = (int64_t)bytes(of), ends[2] = {mine, -mine}, least[2] = {mine, -mine};
	hw_step_in();
	hw_real.MPI_Allreduce(ends, least, 2, MPI_INT64_T, MPI_MIN, handle);
	hw_step_out();
	even->is_uneven = least[0] != -least[1];
	return !even->is_uneven;
}

int hw_error(MPI_Comm comm, int code)
{
	hw_real.MPI_Comm_call_errhandler(comm, code);
	return code;
}
