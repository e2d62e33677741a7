/*
 * Generated sequences of file, memory and MPI operations. All ranks derive the same list from a seed, and each does its
 * part of every operation; what it could see goes into a hash, and with --trace into the log.
 */
#ifndef HEADWATER_MPIIO_SEQUENCES_H
#define HEADWATER_MPIIO_SEQUENCES_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

enum { FILES = 3, BUFFERS = 5, COMMS = 4, SITES = 24, OPS_MAX = 200 };

/* The memory of a buffer, and the most that one operation moves. */
#define BUFFER_BYTES ((long)1 << 20)

enum kind {
	READ, WRITE, SEEK, TRUNCATE, APPEND, REOPEN, CHILD_WRITES,
	SET, STORE, LOOK, COPY, RENEW, DROP, CHILD_LOOKS,
	SCATTER, SCATTERV, GATHER, GATHERV, SEND, POST, WAIT, BCAST, REDUCE, RING, BARRIER, COLLECTIVE,
	KINDS
};

/* Ways of READ and WRITE. */
enum { BY_CALL, BY_PCALL, BY_VECTOR, BY_STREAM, BY_MPI, BY_MPI_AT, FILE_WAYS };
/* Ways of SEND's receiver. */
enum { BY_RECV, BY_IRECV, BY_PROBE, BY_ANY, BY_TEST, BY_MPROBE, RECEIVE_WAYS };

/* One operation. Ranks are those of MPI_COMM_WORLD, places and sizes are bytes. */
struct op {
	enum kind kind;
	int root, peer, file, comm, way, site, tag;
	/* The root's buffer, and that of the others. */
	int buffer, other;
	long at, other_at, bytes, file_at;
	/* The stream is opened anew: the file has changed. */
	int is_stale;
};

/*
 * The operations of a seed; how many. `is_apart`: each file is one rank's, and nobody reads the last one, so that its
 * writes may end later than the calls.
 */
int generate(uint64_t seed, int ranks, int is_apart, struct op *ops);
/* One line that says what an operation is. */
void describe(const struct op *op, char *line, size_t bytes);

/* What the operations of all sequences work on. */
struct state {
	int rank, size, trace, is_apart;
	const char *directory;
	int log;
	uint64_t hash;
	/* Of descriptors: O_RDWR, or O_RDONLY. */
	int access;
	char *buffers[BUFFERS];
	int fds[FILES];
	FILE *streams[FILES];
	MPI_File files[FILES];
	/* Of all ranks; none if each file is one rank's. */
	MPI_File common[FILES];
	MPI_Comm comms[COMMS];
	MPI_Request pending;
};

extern struct state state;

/* Something that the program has seen: it is part of the result. */
void event(const char *what, long long value);
void event_sum(const char *what, const void *data, long bytes);
uint64_t sum(const void *data, long bytes);
void fill(void *data, long bytes, uint64_t seed);
/* Ends the job if `what` went wrong. */
void must(int is_true, const char *what);
char *file_name(int file);
/* How a file's descriptors are opened. */
int access_of(int file);
void buffer_new(int buffer);
void buffer_free(int buffer);
/* True for buffers of whole pages from mmap. */
int is_mapped(int buffer);

void execute(const struct op *op);
void execute_messages(const struct op *op);

/* The calls that move data, each in SITES places of the program. */
struct site {
	long (*read)(int fd, void *data, long bytes);
	long (*pread)(int fd, void *data, long bytes, long at);
	long (*readv)(int fd, void *data, long bytes);
	long (*fread)(FILE *stream, void *data, long bytes);
	long (*write)(int fd, const void *data, long bytes);
	long (*pwrite)(int fd, const void *data, long bytes, long at);
	long (*writev)(int fd, void *data, long bytes);
	long (*fwrite)(FILE *stream, const void *data, long bytes);
	int (*mpi_read)(MPI_File file, long at, void *data, long bytes, MPI_Status *status);
	int (*mpi_write)(MPI_File file, long at, const void *data, long bytes, MPI_Status *status);
	int (*scatter)(const void *from, void *to, int bytes, int root, MPI_Comm comm);
	int (*gather)(const void *from, void *to, int bytes, int root, MPI_Comm comm);
	int (*send)(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
	int (*recv)(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status);
};

extern const struct site sites[SITES];

#endif
