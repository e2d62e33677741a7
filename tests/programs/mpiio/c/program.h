/*
 * What the acceptance programs share: options, checksums, the times of a run's parts, and the line that rank 0 prints
 * at the end: `checksum=… read_s=… write_s=…`. The checksum covers the data of all ranks, in the order of the ranks.
 */
#ifndef HEADWATER_MPIIO_PROGRAM_H
#define HEADWATER_MPIIO_PROGRAM_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static double read_s, write_s;
static uint64_t checksum_own;

/* Ends the whole job: `what` could not be done. */
static inline void fail(const char *what)
{
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 3);
	abort();
}

/* The argument behind `--name`, or `otherwise`. */
static inline const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
	for (int at = 1; at + 1 < argc; at++)
		if (!strncmp(argv[at], "--", 2) && !strcmp(argv[at] + 2, name))
			return argv[at + 1];
	return otherwise;
}

static inline long number(int argc, char **argv, const char *name, long otherwise)
{
	const char *word = option(argc, argv, name, NULL);

	return word ? strtol(word, NULL, 10) : otherwise;
}

static inline int flag(int argc, char **argv, const char *name)
{
	for (int at = 1; at < argc; at++)
		if (!strncmp(argv[at], "--", 2) && !strcmp(argv[at] + 2, name))
			return 1;
	return 0;
}

/* Memory of at least one byte. */
static inline void *memory(size_t bytes)
{
	void *at = malloc(bytes ? bytes : 1);

	if (!at)
		fail("memory");
	return at;
}

/* FNV-1a over words of eight bytes, then over the bytes that are left. */
static inline uint64_t checksum(const void *data, size_t bytes, uint64_t start)
{
	const unsigned char *at = (const unsigned char *)data;
	uint64_t sum = start ^ 0xcbf29ce484222325u, word;

	for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		sum = (sum ^ word) * 0x100000001b3u;
		sum ^= sum >> 29;
	}
	for (; bytes; bytes--)
		sum = (sum ^ *at++) * 0x100000001b3u;
	return sum;
}

/* Adds this rank's bytes to its checksum. */
static inline void count(const void *data, size_t bytes)
{
	checksum_own = checksum(data, bytes, checksum_own);
}

/* The i-th of `parts` parts of n things: how many, and how many are before it. */
static inline long part(long n, int parts, int i)
{
	return n / parts + (i < n % parts);
}

static inline long before(long n, int parts, int i)
{
	return n / parts * i + (i < n % parts ? i : n % parts);
}

/* Represents the computation: every byte becomes another. */
static inline void compute(unsigned char *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		data[at] = (unsigned char)(data[at] * 3 + 1);
}

static inline void start(int *argc, char ***argv)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* The time at which all ranks begin a part of the run. */
static inline double begin(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime();
}

static inline int finish(void)
{
	uint64_t mixed = (checksum_own ^ (uint64_t)rank) * 0x9e3779b97f4a7c15u, total = 0;
	double own[2] = {read_s, write_s}, slowest[2] = {0, 0};

	MPI_Reduce(&mixed, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("checksum=%016llx read_s=%.6f write_s=%.6f\n", (unsigned long long)total, slowest[0],
			slowest[1]);
	MPI_Finalize();
	return 0;
}

#endif
