/*
 * Another process opens a file to change it. Rank 0 has deferred a read of that file, and other ranks write what it has
 * gathered. The process must get access soon, whatever rank 0 does, which allocates and frees memory without end; and
 * rank 0 sees the file's old bytes. Usage: leased DIR
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PART = 2 << 20, ROUNDS = 4, BLOCKS = 64 };

static int rank, size;
static char input[4096], output[4096];

/* The round whose change is requested; done when it is 0 again. */
static atomic_int *requested;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Another process, which has no MPI. */
static void change(pid_t parent)
{
	while (getppid() == parent) {
		int round = atomic_load(requested);
		char letter = (char)('A' + round);

		if (round > 0) {
			int file = open(input, O_WRONLY);

			for (off_t at = 0; at < (off_t)PART * 3; at += 5000)
				if (pwrite(file, &letter, 1, at) != 1)
					_exit(1);
			close(file);
			atomic_store(requested, 0);
		}
		pause_ms(1);
	}
	_exit(0);
}

/* The file's bytes before a round: its changes follow one another. */
static char letter_at(size_t at, int round)
{
	return at % 5000 == 0 && at < (size_t)PART * 3 && round > 1 ? (char)('A' + round - 1) : 'q';
}

static void fill(char *memory, size_t bytes, int round)
{
	for (size_t at = 0; at < bytes; at++)
		memory[at] = letter_at(at, round);
}

static void be_busy_until_changed(int round)
{
	void *blocks[BLOCKS] = {0};
	unsigned int state = (unsigned int)round;
	double begin = seconds();

	atomic_store(requested, round);
	while (atomic_load(requested) != 0 && seconds() - begin < 60) {
		state = state * 1103515245 + 12345;
		free(blocks[state >> 16 & (BLOCKS - 1)]);
		blocks[state >> 16 & (BLOCKS - 1)] = malloc(2000 + (state >> 8) % 60000);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	/* The kernel itself takes a lease away after 45 seconds. */
	printf("round %d: changed %s\n", round, seconds() - begin < 20 ? "soon" : "late");
}

static void run(int round)
{
	size_t all = (size_t)PART * (size_t)size;
	char *in = NULL, *gathered = NULL, *mine = malloc(PART), *got = malloc(PART), *expected = malloc(all);
	int from = -1, to = -1;

	memset(mine, 'a' + round + rank, PART);
	if (rank == 0) {
		in = malloc(all);
		gathered = malloc(all);
		from = open(input, O_RDONLY);
		to = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
		if (read(from, in, all) != (ssize_t)all)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Gather(mine, PART, MPI_BYTE, gathered, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		if (write(to, gathered, all) != (ssize_t)all)
			MPI_Abort(MPI_COMM_WORLD, 1);
		be_busy_until_changed(round);
		fill(expected, all, round);
		printf("round %d: %s\n", round, memcmp(in, expected, all) == 0 ? "as it was" : "another one");
		close(to);
		close(from);
	}
	MPI_Scatter(in, PART, MPI_BYTE, got, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	fill(expected, all, round);
	int is_same = memcmp(got, expected + (size_t)rank * PART, PART) == 0, all_same = 0;
	MPI_Reduce(&is_same, &all_same, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("round %d: scattered %s\n", round, all_same ? "as it was" : "another one");
	free(in);
	free(gathered);
	free(mine);
	free(got);
	free(expected);
}

int main(int count, char **argv)
{
	snprintf(input, sizeof(input), "%s/in", argv[1]);
	snprintf(output, sizeof(output), "%s/out", argv[1]);
	requested = mmap(NULL, sizeof(*requested), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child = fork();

	if (child == 0)
		change(parent);
	MPI_Init(&count, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank == 0) {
		int made = open(input, O_WRONLY | O_CREAT | O_TRUNC, 0666);
		char *part = malloc(PART);

		memset(part, 'q', PART);
		for (int i = 0; i < size; i++)
			if (write(made, part, PART) != PART)
				MPI_Abort(MPI_COMM_WORLD, 1);
		close(made);
		free(part);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int round = 1; round <= ROUNDS; round++)
		run(round);
	MPI_Finalize();
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
