/* The patterns themselves, where they should be transformed, by each method of reading and writing. */
#define _GNU_SOURCE
#include "safety.h"

#include <sys/uio.h>

READ_SCATTER(plain_scatter, NULL, NULL)
GATHER_WRITE(plain_gather, NULL, NULL)

/* Rank 0 reads by this method and scatters. */
static inline __attribute__((always_inline)) void scatter_by(ssize_t (*method)(const char *, char *, size_t))
{
	char *name = path("in"), *all = NULL, *mine = memory(PART);

	if (rank == 0) {
		make(name, all_bytes() + 77, 2);
		all = memory(all_bytes());
		note("got %zd", method(name, all, all_bytes()));
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

static inline __attribute__((always_inline)) ssize_t by_pread(const char *name, char *all, size_t bytes)
{
	int fd = open(name, O_RDONLY);
	ssize_t got = pread(fd, all, bytes, 77);

	close(fd);
	return got;
}

static inline __attribute__((always_inline)) ssize_t by_readv(const char *name, char *all, size_t bytes)
{
	struct iovec three[3] = {{all, 10}, {all + 10, bytes / 2}, {all + 10 + bytes / 2, bytes - 10 - bytes / 2}};
	int fd = open(name, O_RDONLY);
	ssize_t got = readv(fd, three, 3);

	close(fd);
	return got;
}

static inline __attribute__((always_inline)) ssize_t by_fread(const char *name, char *all, size_t bytes)
{
	FILE *stream = fopen(name, "rb");
	ssize_t got = (ssize_t)fread(all, 1, bytes, stream);

	note("at %ld", ftell(stream));
	note("next %d", fgetc(stream));
	fclose(stream);
	return got;
}

static inline __attribute__((always_inline)) ssize_t by_pieces(const char *name, char *all, size_t bytes)
{
	int fd = open(name, O_RDONLY);
	size_t at = 0;

	while (at < bytes) {
		ssize_t got = read(fd, all + at, bytes - at < 10007 ? bytes - at : 10007);

		must(got > 0, name);
		at += (size_t)got;
	}
	close(fd);
	return (ssize_t)at;
}

static inline __attribute__((always_inline)) ssize_t by_mpi(const char *name, char *all, size_t bytes)
{
	MPI_Status status;
	MPI_File file;
	MPI_Offset at;
	int got;

	must(!MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), name);
	MPI_File_seek(file, 33, MPI_SEEK_SET);
	MPI_File_read(file, all, (int)bytes, MPI_BYTE, &status);
	MPI_File_get_position(file, &at);
	MPI_Get_count(&status, MPI_BYTE, &got);
	MPI_File_close(&file);
	note("position %lld", (long long)at);
	return got;
}

static void pread_scatter(void)
{
	scatter_by(by_pread);
}

static void readv_scatter(void)
{
	scatter_by(by_readv);
}

static void fread_scatter(void)
{
	scatter_by(by_fread);
}

static void pieces_scatter(void)
{
	scatter_by(by_pieces);
}

static void mpi_scatter(void)
{
	scatter_by(by_mpi);
}

/* Rank 0 reads one part after the other into the same buffer and sends it. */
static void read_send(void)
{
	char *name = path("in"), *mine = memory(PART);

	if (rank == 0) {
		make(name, all_bytes(), 3);
		int fd = open(name, O_RDONLY);

		for (int to = 1; to < size; to++) {
			note_result("read", read(fd, mine, PART));
			note("send %d", MPI_Send(mine, PART, MPI_BYTE, to, 5, MPI_COMM_WORLD));
		}
		note_result("read", read(fd, mine, PART));
		close(fd);
	} else {
		MPI_Recv(mine, PART, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	note_sum("mine", mine, PART);
	free(mine);
}

static void receive_write(void)
{
	char *name = path("out"), *mine = memory(PART);

	fill(mine, PART, (unsigned)rank);
	if (rank == 0) {
		int fd = open(name, O_WRONLY | O_CREAT, 0644);

		note_result("write", write(fd, mine, PART));
		for (int from = 1; from < size; from++) {
			MPI_Recv(mine, PART, MPI_BYTE, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			note_result("write", write(fd, mine, PART));
		}
		note("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
		note_result("close", close(fd));
		note_file(name);
	} else {
		MPI_Send(mine, PART, MPI_BYTE, 0, 6, MPI_COMM_WORLD);
	}
	note_sum("mine", mine, PART);
	free(mine);
}

const struct test patterns_tests[] = {
	{"plain_scatter", plain_scatter, 0},
	{"plain_gather", plain_gather, 0},
	{"pread_scatter", pread_scatter, 0},
	{"readv_scatter", readv_scatter, 0},
	{"fread_scatter", fread_scatter, 0},
	{"pieces_scatter", pieces_scatter, 0},
	{"mpi_scatter", mpi_scatter, 0},
	{"read_send", read_send, 0},
	{"receive_write", receive_write, 0},
	{NULL, NULL, 0},
};
