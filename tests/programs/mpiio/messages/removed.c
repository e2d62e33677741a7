/*
 * Rank 0 reads a file, sends it and removes it by one of several functions; then it waits for the other rank's answer
 * without a call of any library. Usage: removed DIR
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (48 << 10)

static int rank;
static char path[4096], directory[4000], elsewhere[4096], shared[64];

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void by_unlink(void)
{
	must(!unlink(path), "unlink");
}

static void by_remove(void)
{
	must(!remove(path), "remove");
}

static void by_name(void)
{
	must(!shm_unlink(shared), "shm_unlink");
}

static void by_directory(void)
{
	must(!rename(directory, elsewhere), "rename");
}

static int opened(int is_shared, int flags)
{
	int file = is_shared ? shm_open(shared, flags, 0600) : open(path, flags, 0600);

	must(file >= 0, path);
	return file;
}

static void sent_and_removed(int round, void (*remove_it)(void), volatile int *answer)
{
	int is_shared = remove_it == by_name;
	unsigned char *memory = malloc(BYTES);

	for (size_t at = 0; at < BYTES; at++)
		memory[at] = (unsigned char)(at * 7 + (size_t)round);
	int file = opened(is_shared, O_RDWR | O_CREAT | O_TRUNC);
	must(write(file, memory, BYTES) == BYTES && !close(file), "write");
	file = opened(is_shared, O_RDONLY);
	must(read(file, memory, BYTES) == BYTES && !close(file), "read");
	MPI_Send(memory, BYTES, MPI_BYTE, 1, round, MPI_COMM_WORLD);
	remove_it();
	while (*answer < round)
		;
	free(memory);
}

static void received(int round, volatile int *answer)
{
	unsigned char *memory = malloc(BYTES);
	uint64_t sum = 0;

	/* By then the file is gone. */
	usleep(100000);
	MPI_Recv(memory, BYTES, MPI_BYTE, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (size_t at = 0; at < BYTES; at++)
		sum = sum * 31 + memory[at];
	printf("%d: %lx\n", round, (unsigned long)sum);
	*answer = round;
	free(memory);
}

int main(int argc, char **argv)
{
	static void (*const ways[])(void) = {by_unlink, by_remove, by_name, by_directory};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	must(argc == 2, "arguments");
	snprintf(directory, sizeof(directory), "%s/here", argv[1]);
	snprintf(elsewhere, sizeof(elsewhere), "%s/there", argv[1]);
	snprintf(path, sizeof(path), "%s/in", directory);
	snprintf(shared, sizeof(shared), "/removed.%d", getpid());
	must(rank || !mkdir(directory, 0700), directory);
	snprintf(elsewhere, sizeof(elsewhere), "%s/answer", argv[1]);
	int file = open(elsewhere, O_RDWR | O_CREAT, 0600);
	must(file >= 0 && !ftruncate(file, sizeof(int)), elsewhere);
	volatile int *answer = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	must(answer != MAP_FAILED && !close(file), "mmap");
	snprintf(elsewhere, sizeof(elsewhere), "%s/there", argv[1]);
	MPI_Barrier(MPI_COMM_WORLD);
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		if (rank == 0)
			sent_and_removed((int)way + 1, ways[way], answer);
		else
			received((int)way + 1, answer);
	MPI_Finalize();
	return 0;
}
