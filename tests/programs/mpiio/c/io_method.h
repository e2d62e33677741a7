/*
 * The methods by which rank 0 reads and writes a file: system calls, stdio, and MPI's own calls on one process. A file
 * is read and written from its beginning on, one piece after the other.
 */
#ifndef HEADWATER_MPIIO_IO_METHOD_H
#define HEADWATER_MPIIO_IO_METHOD_H

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "program.h"

enum method { PLAIN, AT, VECTOR, STDIO, MPI, MPI_AT };

/* An open file. `at` is the offset of the next piece. */
struct file {
	enum method method;
	int fd;
	FILE *stream;
	MPI_File mpi;
	off_t at;
};

static inline enum method method_of(const char *name)
{
	static const char *const names[] = {"plain", "at", "vector", "stdio", "mpi", "mpi_at"};

	for (int method = 0; method < 6; method++)
		if (!strcmp(name, names[method]))
			return (enum method)method;
	fprintf(stderr, "`%s` is no method: plain, at, vector, stdio, mpi, mpi_at\n", name);
	exit(2);
}

static inline struct file file_open(const char *path, enum method method, int writes)
{
	struct file file = {.method = method, .fd = -1};
	int mode = writes ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY;

	if (method == STDIO) {
		file.stream = fopen(path, writes ? "wb" : "rb");
		if (!file.stream)
			fail(path);
	} else if (method == MPI || method == MPI_AT) {
		if (MPI_File_open(MPI_COMM_SELF, path, mode, MPI_INFO_NULL, &file.mpi) != MPI_SUCCESS)
			fail(path);
		if (writes && MPI_File_set_size(file.mpi, 0) != MPI_SUCCESS)
			fail(path);
	} else {
		file.fd = writes ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : open(path, O_RDONLY);
		if (file.fd < 0)
			fail(path);
	}
	return file;
}

static inline void file_close(struct file *file)
{
	if (file->method == STDIO ? fclose(file->stream) : file->fd >= 0 ? close(file->fd) : 0)
		fail("close");
	if (file->method == MPI || file->method == MPI_AT)
		MPI_File_close(&file->mpi);
}

/* How many bytes one call reads; fewer than requested only at the file's end. */
static inline ssize_t read_once(struct file *file, char *data, size_t bytes)
{
	size_t half = bytes / 2;
	struct iovec two[2] = {{data, half}, {data + half, bytes - half}};
	MPI_Status status;
	int got = 0;

	switch (file->method) {
	case PLAIN:
		return read(file->fd, data, bytes);
	case AT:
		return pread(file->fd, data, bytes, file->at);
	case VECTOR:
		return readv(file->fd, two, 2);
	case STDIO:
		return (ssize_t)fread(data, 1, bytes, file->stream);
	case MPI:
		MPI_File_read(file->mpi, data, (int)bytes, MPI_BYTE, &status);
		break;
	case MPI_AT:
		MPI_File_read_at(file->mpi, file->at, data, (int)bytes, MPI_BYTE, &status);
		break;
	}
	MPI_Get_count(&status, MPI_BYTE, &got);
	return got;
}

static inline ssize_t write_once(struct file *file, char *data, size_t bytes)
{
	size_t half = bytes / 2;
	struct iovec two[2] = {{data, half}, {data + half, bytes - half}};
	MPI_Status status;
	int put = 0;

	switch (file->method) {
	case PLAIN:
		return write(file->fd, data, bytes);
	case AT:
		return pwrite(file->fd, data, bytes, file->at);
	case VECTOR:
		return writev(file->fd, two, 2);
	case STDIO:
		return (ssize_t)fwrite(data, 1, bytes, file->stream);
	case MPI:
		MPI_File_write(file->mpi, data, (int)bytes, MPI_BYTE, &status);
		break;
	case MPI_AT:
		MPI_File_write_at(file->mpi, file->at, data, (int)bytes, MPI_BYTE, &status);
		break;
	}
	MPI_Get_count(&status, MPI_BYTE, &put);
	return put;
}

/* The most that one call moves: below the kernel's 2 GB, and the largest int. */
#define CALL_BYTES_MAX (1UL << 30)

/* Moves all bytes, or ends the job. */
static inline void file_move(struct file *file, void *data, size_t bytes, int writes)
{
	char *at = data;

	while (bytes) {
		size_t piece = bytes < CALL_BYTES_MAX ? bytes : CALL_BYTES_MAX;
		ssize_t moved = writes ? write_once(file, at, piece) : read_once(file, at, piece);

		if (moved <= 0)
			fail(writes ? "write" : "read: the file is shorter than requested");
		file->at += moved;
		at += moved;
		bytes -= (size_t)moved;
	}
}

#endif
