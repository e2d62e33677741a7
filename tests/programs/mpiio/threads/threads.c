/*
 * Threads that read and scatter at once, or read and send, each a file of its own over a communicator of its own; in
 * every second round rank 0 also checks what it has read. One more thread just probes for all of it, as progress
 * threads do. Where MPI lets only one thread call it, the others are idle. Usage: threads DIR
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
#define PART (1 << 16)
#define ROUNDS 20

static int rank, size, level;
static atomic_int is_over;
static const char *directory;

struct one {
	pthread_t thread;
	int number;
	MPI_Comm comm;
	uint64_t sum;
};

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static uint64_t sum_of(const unsigned char *memory, size_t bytes, uint64_t sum)
{
	for (size_t at = 0; at < bytes; at++)
		sum = sum * 31 + memory[at];
	return sum;
}

static int made(int number)
{
	char path[4096];
	size_t bytes = (size_t)(size * PART);
	unsigned char *all = malloc(bytes);

	must(all != NULL, "malloc");
	for (size_t at = 0; at < bytes; at++)
		all[at] = (unsigned char)(at * 7 + at / 4096 + (size_t)number * 131);
	snprintf(path, sizeof(path), "%s/in.%d", directory, number);
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(file >= 0 && write(file, all, bytes) == (ssize_t)bytes && close(file) == 0, path);
	free(all);
	file = open(path, O_RDONLY);
	must(file >= 0, path);
	return file;
}

/* Each thread by a call of its own. */
static void receive(const struct one *one, void *memory, int tag)
{
	MPI_Message message;

	if (one->number == 2) {
		MPI_Mprobe(MPI_ANY_SOURCE, tag, one->comm, &message, MPI_STATUS_IGNORE);
		MPI_Mrecv(memory, PART, MPI_BYTE, &message, MPI_STATUS_IGNORE);
		return;
	}
	if (one->number == 3) {
		MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, tag, memory, PART, MPI_BYTE, 0, tag, one->comm,
			MPI_STATUS_IGNORE);
		return;
	}
	if (one->number == 1)
		MPI_Probe(0, tag, one->comm, MPI_STATUS_IGNORE);
	MPI_Recv(memory, PART, MPI_BYTE, 0, tag, one->comm, MPI_STATUS_IGNORE);
}

static void *scatters(void *argument)
{
	struct one *one = argument;
	size_t bytes = (size_t)(size * PART);
	int input = rank ? -1 : made(one->number);
	unsigned char *mine = malloc(PART), *all = rank ? NULL : malloc(bytes);

	for (int round = 0; round < ROUNDS; round++) {
		must(rank || pread(input, all, bytes, 0) == (ssize_t)bytes, "pread");
		if (round % 3 < 2) {
			MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, one->comm);
		} else if (rank == 0) {
			for (int to = 1; to < size; to++)
				MPI_Send(all + (size_t)to * PART, PART, MPI_BYTE, to, round, one->comm);
		} else {
			receive(one, mine, round);
		}
		one->sum = sum_of(mine, PART, one->sum);
		if (rank == 0 && round % 2)
			one->sum = sum_of(all, bytes, one->sum);
	}
	free(mine);
	free(all);
	return NULL;
}

static void *watches(void *argument)
{
	const struct one *all = argument;
	int is_there, bytes;
	MPI_Status status;

	for (int n = 0; !is_over; n = (n + 1) % THREADS) {
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, all[n].comm, &is_there, &status);
		if (is_there && !MPI_Get_count(&status, MPI_BYTE, &bytes))
			must(bytes == PART, "a message of another size");
		usleep(10);
	}
	return NULL;
}

static void *waits(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

int main(int argc, char **argv)
{
	struct one all[THREADS];
	pthread_t watcher;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	directory = argc > 1 ? argv[1] : ".";
	pthread_mutex_lock(&lock);
	for (int n = 0; n < THREADS; n++) {
		all[n] = (struct one){.number = n};
		MPI_Comm_dup(MPI_COMM_WORLD, &all[n].comm);
	}
	for (int n = 0; n < THREADS; n++)
		must(!pthread_create(&all[n].thread, NULL, level < MPI_THREAD_MULTIPLE ? waits : scatters,
			     level < MPI_THREAD_MULTIPLE ? (void *)&lock : (void *)&all[n]),
			"pthread_create");
	must(!pthread_create(&watcher, NULL, level < MPI_THREAD_MULTIPLE ? waits : watches,
		     level < MPI_THREAD_MULTIPLE ? (void *)&lock : (void *)all),
		"pthread_create");
	for (int n = 0; n < THREADS && level < MPI_THREAD_MULTIPLE; n++)
		scatters(&all[n]);
	pthread_mutex_unlock(&lock);
	for (int n = 0; n < THREADS; n++)
		pthread_join(all[n].thread, NULL);
	is_over = 1;
	pthread_join(watcher, NULL);
	for (int n = 0; n < THREADS; n++) {
		printf("rank %d, thread %d: %llu\n", rank, n, (unsigned long long)all[n].sum);
		MPI_Comm_free(&all[n].comm);
	}
	MPI_Finalize();
	return 0;
}
