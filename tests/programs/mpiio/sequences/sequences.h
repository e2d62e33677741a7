/*
 * Executes programs that a plan describes. A plan is text: lines of names and numbers, one operation a line, which
 * tests/tests/mpiio/sequences makes. Each rank does its part of every operation and logs its results.
 */
#ifndef HEADWATER_MPIIO_SEQUENCES_H
#define HEADWATER_MPIIO_SEQUENCES_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

enum { BUFFERS_MAX = 8, FILES_MAX = 4, TYPES_MAX = 256, TAGS_MAX = 256, ARGUMENTS_MAX = 4096, RANKS_MAX = 16 };
/* The first types are those that all others are made of. */
enum { BASES = 4 };
/* Buffers: inside of malloc's memory, or pages of mmap. */
enum memory { ALLOCATED, MAPPED, SHARED, OF_FILE };

/* How a file's descriptors are opened; the same numbers are in the plan. */
enum access { READ_ONLY, READ_WRITE, WRITE_ONLY };

/* Of a message's one end; a persistent one lives until the program's end. */
struct request {
	MPI_Request handle;
	MPI_Datatype type;
	int is_persistent;
};

/* The state of a program. `rank` and `size` are those of its communicators; the second has the ranks in reverse. */
struct program {
	int rank, size;
	long number;
	MPI_Comm comms[2];
	int buffers, files, has_threads;
	char *buffer[BUFFERS_MAX];
	long buffer_bytes;
	enum memory memory[BUFFERS_MAX];
	char file_name[FILES_MAX][1024];
	enum access access[FILES_MAX];
	int fd[FILES_MAX];
	FILE *stream[FILES_MAX];
	MPI_File own_file[FILES_MAX];
	MPI_Datatype types[TYPES_MAX];
	/* Sends and receives by tag. */
	struct request requests[2][TAGS_MAX];
};

extern struct program program;

/* Memory that a type lays out: the numbers TYPE COUNT BUFFER AT of a line. */
struct typed {
	MPI_Datatype type;
	int count;
	char *at;
};

/* Takes the next number of the operation, or several. */
long next(void);
char *next_location(void);
struct typed next_typed(void);
/* The next numbers: a count, and as many numbers. */
int next_list(int *numbers);

/* Something that the program has seen. */
void event(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A call of MPI's; the class of its error. */
int event_code(const char *what, int code);
void event_status(const char *what, int code, MPI_Status *status, MPI_Datatype type);
void event_bytes(const char *what, const void *data, long bytes);
/* Ends the job if `what` failed. */
void must(int is_true, const char *what);
void fill(void *data, long bytes, uint64_t seed);
/* Memory that no operation uses. */
char *scratch(long bytes);
int rank_in(int comm, int rank);

void buffer_new(int buffer, uint64_t seed);
void buffer_free(int buffer);
void files_close(void);
void requests_free(void);
void fresh_status(MPI_Status *status);
/* Completes requests by one of the variants of a plan. */
void complete(const char *what, int variant, int count, struct request **requests);
void make_type(const char *name, long id);
/* Make the type that the next numbers of the plan describe; the second one by functions with large counts, if the MPI has
 * such. Return MPI's code. */
int construct_plain(const char *name, MPI_Datatype *made);
int construct_large(const char *name, MPI_Datatype *made);
MPI_Datatype structure_type(void);

/* An operation: reads its numbers by `next`, all ranks all of them. */
typedef void operation(void);
operation *operation_named(const char *name);

/*
 * Calls it from the call site with this number. The transformation judges call sites by their gain; a single one for
 * all operations would be left alone soon.
 */
void call_from(unsigned site, operation *what);

operation do_read, do_write, do_seek, do_truncate, do_size, do_reopen, do_map, do_together;
operation do_inspect, do_set, do_store, do_copy, do_renew, do_drop;
operation do_scatter, do_scatterv, do_gather, do_gatherv, do_bcast, do_reduce, do_barrier, do_alltoall;
operation do_message, do_begin, do_finish, do_collect, do_ring, do_wrong, do_cancel;

#endif
