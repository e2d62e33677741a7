/*
 * Threads that receive at once, by requests whose handles MPI assigns to one thread after the other: rank 0's threads
 * read and send, each of the others' receives and waits by a call of its own. Usage: requests DIR
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4
#define PART (12 * 4096)
#define ROUNDS 300

static int rank, size, input;
static atomic_int wrong;

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static unsigned char byte_at(size_t at)
{
	return (unsigned char)(at * 7 + at / 4096 + at / PART);
}

/* The offset in the file of the data for a thread of a rank. */
static size_t offset_of(int to, int number, int round)
{
	return (size_t)((to - 1) * THREADS + number) * PART + (size_t)round * 13;
}

static void make(const char *directory)
{
	char path[4096];
	size_t bytes = offset_of(size, 0, ROUNDS);
	unsigned char *all = malloc(bytes);

	must(all != NULL, "malloc");
	for (size_t at = 0; at < bytes; at++)
		all[at] = byte_at(at);
	snprintf(path, sizeof(path), "%s/in", directory);
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(file >= 0 && write(file, all, bytes) == (ssize_t)bytes && close(file) == 0, path);
	free(all);
	input = open(path, O_RDONLY);
	must(input >= 0, path);
}

static void wait_for(MPI_Request *request, int number, MPI_Status *status)
{
	int is_done = 0, index = 0;

	while (number == 1 && !is_done)
		MPI_Test(request, &is_done, status);
	if (number == 2)
		MPI_Waitall(1, request, status);
	else if (number == 3)
		MPI_Waitany(1, request, &index, status);
	else
		MPI_Wait(request, number == 1 ? MPI_STATUS_IGNORE : status);
}

static void *receives(void *argument)
{
	int number = *(const int *)argument, bytes;
	unsigned char *memory = malloc(PART);

	for (int round = 0; round < ROUNDS; round++) {
		MPI_Request request;
		MPI_Status status;
		size_t from = offset_of(rank, number, round);
		MPI_Irecv(memory, PART, MPI_BYTE, 0, number, MPI_COMM_WORLD, &request);
		wait_for(&request, number, &status);
		MPI_Get_count(&status, MPI_BYTE, &bytes);
		wrong += bytes != PART;
		for (size_t at = 0; at < PART; at++)
			wrong += memory[at] != byte_at(from + at);
	}
	free(memory);
	return NULL;
}

static void *sends(void *argument)
{
	int number = *(const int *)argument;
	unsigned char *memory = malloc((size_t)size * PART);

	for (int round = 0; round < ROUNDS; round++) {
		for (int to = 1; to < size; to++)
			must(pread(input, memory + to * PART, PART, (off_t)offset_of(to, number, round)) == PART,
				"pread");
		for (int to = 1; to < size; to++)
			MPI_Send(memory + to * PART, PART, MPI_BYTE, to, number, MPI_COMM_WORLD);
	}
	free(memory);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int numbers[THREADS], level, all;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank == 0)
		make(argc > 1 ? argv[1] : ".");
	MPI_Barrier(MPI_COMM_WORLD);
	for (int n = 0; n < THREADS && level == MPI_THREAD_MULTIPLE; n++) {
		numbers[n] = n;
		must(!pthread_create(&threads[n], NULL, rank ? receives : sends, &numbers[n]), "pthread_create");
	}
	for (int n = 0; n < THREADS && level == MPI_THREAD_MULTIPLE; n++)
		pthread_join(threads[n], NULL);
	int mine = wrong;
	MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d wrong\n", all);
	MPI_Finalize();
	return 0;
}
