/*
 * Copies of the calls that move data. The transformation judges places of a program by what follows on them; a single
 * place for all operations would be left alone soon.
 */
#define _GNU_SOURCE
#include "sequences.h"

#include <sys/uio.h>
#include <unistd.h>

/* Keeps the call from being the function's last jump, which would hide the place. */
#define RETURN(type, call) \
	{ \
		type result = call; \
		__asm__ volatile("" : "+r"(result)); \
		return result; \
	}
#define COPY_OF(type) static __attribute__((noipa)) type

/* An offset below 0 is that of the file's own pointer. */
#define SITE(n) \
	COPY_OF(long) read_##n(int fd, void *data, long bytes) RETURN(long, read(fd, data, (size_t)bytes)) \
	COPY_OF(long) pread_##n(int fd, void *data, long bytes, long at) RETURN(long, pread(fd, data, (size_t)bytes, at)) \
	COPY_OF(long) readv_##n(int fd, void *data, long bytes) \
	{ \
		struct iovec two[2] = {{data, (size_t)bytes / 3}, {(char *)data + bytes / 3, (size_t)(bytes - bytes / 3)}}; \
		RETURN(long, readv(fd, two, 2)) \
	} \
	COPY_OF(long) fread_##n(FILE *stream, void *data, long bytes) \
		RETURN(long, (long)fread(data, 1, (size_t)bytes, stream)) \
	COPY_OF(long) write_##n(int fd, const void *data, long bytes) RETURN(long, write(fd, data, (size_t)bytes)) \
	COPY_OF(long) pwrite_##n(int fd, const void *data, long bytes, long at) \
		RETURN(long, pwrite(fd, data, (size_t)bytes, at)) \
	COPY_OF(long) writev_##n(int fd, void *data, long bytes) \
	{ \
		struct iovec two[2] = {{data, (size_t)bytes / 3}, {(char *)data + bytes / 3, (size_t)(bytes - bytes / 3)}}; \
		RETURN(long, writev(fd, two, 2)) \
	} \
	COPY_OF(long) fwrite_##n(FILE *stream, const void *data, long bytes) \
		RETURN(long, (long)fwrite(data, 1, (size_t)bytes, stream)) \
	COPY_OF(int) mpi_read_##n(MPI_File file, long at, void *data, long bytes, MPI_Status *status) \
	{ \
		if (at < 0) \
			RETURN(int, MPI_File_read(file, data, (int)bytes, MPI_BYTE, status)) \
		RETURN(int, MPI_File_read_at(file, at, data, (int)bytes, MPI_BYTE, status)) \
	} \
	COPY_OF(int) mpi_write_##n(MPI_File file, long at, const void *data, long bytes, MPI_Status *status) \
	{ \
		if (at < 0) \
			RETURN(int, MPI_File_write(file, data, (int)bytes, MPI_BYTE, status)) \
		RETURN(int, MPI_File_write_at(file, at, data, (int)bytes, MPI_BYTE, status)) \
	} \
	COPY_OF(int) scatter_##n(const void *from, void *to, int bytes, int root, MPI_Comm comm) \
		RETURN(int, MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, root, comm)) \
	COPY_OF(int) gather_##n(const void *from, void *to, int bytes, int root, MPI_Comm comm) \
		RETURN(int, MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, root, comm)) \
	COPY_OF(int) send_##n(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) \
		RETURN(int, MPI_Send(data, count, type, to, tag, comm)) \
	COPY_OF(int) recv_##n(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, \
		MPI_Status *status) \
		RETURN(int, MPI_Recv(data, count, type, from, tag, comm, status))

#define ALL_SITES(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) \
	X(20) X(21) X(22) X(23)

ALL_SITES(SITE)

#define ROW(n) \
	{read_##n, pread_##n, readv_##n, fread_##n, write_##n, pwrite_##n, writev_##n, fwrite_##n, mpi_read_##n, \
		mpi_write_##n, scatter_##n, gather_##n, send_##n, recv_##n},

const struct site sites[SITES] = {ALL_SITES(ROW)};
