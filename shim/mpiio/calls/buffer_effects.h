/* Calls of the generated wrappers that report which memory a call of MPI is about to use. NULL, MPI_BOTTOM and
 * MPI_IN_PLACE are buffers, too. hwio_in: it is read. hwio_out: all of it is overwritten. hwio_inout: it is read,
 * or partly written. They are called only while something is deferred (hwio_is_busy) or when the memory stays in
 * use (hwio_stays_in_use), and never from within MPI (hwio_depth). */
#ifndef HWIO_BUFFER_EFFECTS_H
#define HWIO_BUFFER_EFFECTS_H

#include <mpi.h>
#include <stddef.h>

/* Whether anything is deferred, pending or outstanding: otherwise wrappers only call the original. */
extern volatile int hwio_is_busy;
/* Above 0 inside an MPI call or the engine: calls from there are not intercepted. */
extern __thread int hwio_depth __attribute__((tls_model("initial-exec")));
/* The memory that is told of stays in use after the call: it is never to be deferred again. */
extern __thread int hwio_stays_in_use __attribute__((tls_model("initial-exec")));

/* Protected pages were opened for a call of this thread that is at work: they are protected again when it has
 * returned. */
extern __thread int hwio_is_exposed __attribute__((tls_model("initial-exec")));
void hwio_reprotect(void);

/* A call into MPI or the library begins, and ends: all that it makes is none of the program's. */
static inline void hwio_step_in(void)
{
	hwio_depth++;
}

static inline void hwio_step_out(void)
{
	if (--hwio_depth == 0 && __builtin_expect(hwio_is_exposed, 0))
		hwio_reprotect();
}

/* The call communicates, synchronises, or does something to a file. */
void hwio_communicates(void);
/* MPI has given this memory to the program; other processes may use it. Called after the call. */
void hwio_allocated(void *memory, MPI_Aint bytes);
/* The program gives memory back that MPI has allocated. */
void hwio_freed(void *memory);
/* Whether the caller is the root; whether the root sends to it or receives from it (of a plain communicator:
 * always). */
int hwio_is_root(int root, MPI_Comm comm);
int hwio_is_under_root(int root, MPI_Comm comm);

/*
 * A count that may be larger than an int, and its type: of a larger one, `type` becomes another one, which is so many.
 * `hwio_large_free` frees that.
 */
struct hwio_large {
	int count;
	int is_made;
};
struct hwio_large hwio_large(MPI_Count count, MPI_Datatype *type);
void hwio_large_free(struct hwio_large *large, MPI_Datatype *type);

/* The kernel looks at this memory, or writes into it, while the C library's function is at work. */
void hwio_kernel_uses(const void *memory, size_t bytes);
/* Size of memory whose length is unknown. */
#define HWIO_UNSIZED_BYTES 4096

void hwio_in(const void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_out(void *buffer, MPI_Count count, MPI_Datatype type);
void hwio_inout(void *buffer, MPI_Count count, MPI_Datatype type);

/* So much for each process of the communicator, of an inter-communicator's other group. */
void hwio_in_each(const void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);
void hwio_out_each(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);
void hwio_inout_each(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

/* So much for each process of the communicator's own group. */
void hwio_in_local(const void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);
void hwio_inout_local(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

/* So much for each neighbour: hwio_in for those to which it sends, hwio_inout for those from which it receives. */
void hwio_in_near(const void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);
void hwio_inout_near(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

/* The counts of all processes of the own group, one behind the other, and the caller's among them. */
void hwio_in_sum(const void *buffer, const int counts[], MPI_Datatype type, MPI_Comm comm);
void hwio_in_sum_c(const void *buffer, const MPI_Count counts[], MPI_Datatype type, MPI_Comm comm);
void hwio_inout_sum(void *buffer, const int counts[], MPI_Datatype type, MPI_Comm comm);
void hwio_inout_sum_c(void *buffer, const MPI_Count counts[], MPI_Datatype type, MPI_Comm comm);
void hwio_out_mine(void *buffer, const int counts[], MPI_Datatype type, MPI_Comm comm);
void hwio_out_mine_c(void *buffer, const MPI_Count counts[], MPI_Datatype type, MPI_Comm comm);

/* A count and a displacement in extents of the type for each process, as for _each. */
void hwio_in_v(const void *buffer, const int counts[], const int displacements[], MPI_Datatype type, MPI_Comm comm);
void hwio_out_v(void *buffer, const int counts[], const int displacements[], MPI_Datatype type, MPI_Comm comm);
void hwio_inout_v(void *buffer, const int counts[], const int displacements[], MPI_Datatype type, MPI_Comm comm);
void hwio_in_v_c(const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	MPI_Comm comm);
void hwio_out_v_c(void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	MPI_Comm comm);
void hwio_inout_v_c(void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	MPI_Comm comm);

/* The same with a type for each, and displacements in bytes. */
void hwio_in_w(const void *buffer, const int counts[], const int displacements[], const MPI_Datatype types[],
	MPI_Comm comm);
void hwio_out_w(void *buffer, const int counts[], const int displacements[], const MPI_Datatype types[], MPI_Comm comm);
void hwio_inout_w(void *buffer, const int counts[], const int displacements[], const MPI_Datatype types[],
	MPI_Comm comm);
void hwio_in_w_c(const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], MPI_Comm comm);
void hwio_out_w_c(void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], const MPI_Datatype types[],
	MPI_Comm comm);
void hwio_inout_w_c(void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], const MPI_Datatype types[],
	MPI_Comm comm);

/* Both for each neighbour. */
void hwio_in_near_v(const void *buffer, const int counts[], const int displacements[], MPI_Datatype type,
	MPI_Comm comm);
void hwio_inout_near_v(void *buffer, const int counts[], const int displacements[], MPI_Datatype type, MPI_Comm comm);
void hwio_in_near_v_c(const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	MPI_Comm comm);
void hwio_inout_near_v_c(void *buffer, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype type,
	MPI_Comm comm);
void hwio_in_near_w(const void *buffer, const int counts[], const MPI_Aint displacements[], const MPI_Datatype types[],
	MPI_Comm comm);
void hwio_inout_near_w(void *buffer, const int counts[], const MPI_Aint displacements[], const MPI_Datatype types[],
	MPI_Comm comm);
void hwio_in_near_w_c(const void *buffer, const MPI_Count counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], MPI_Comm comm);
void hwio_inout_near_w_c(void *buffer, const MPI_Count counts[], const MPI_Aint displacements[],
	const MPI_Datatype types[], MPI_Comm comm);

#endif
