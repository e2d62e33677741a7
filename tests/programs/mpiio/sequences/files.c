/* Files. A rank opens a file when it first uses it, and closes it at the program's end. */
#define _GNU_SOURCE
#include "sequences.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum variant { BY_CALL, BY_PLACED_CALL, BY_VECTOR, BY_STREAM, BY_MPI, BY_PIECES };

static void event_call(const char *what, long result)
{
	event("%s %ld errno %d", what, result, result < 0 ? errno : 0);
}

static int descriptor(long file)
{
	static const int flags[] = {O_RDONLY, O_RDWR, O_WRONLY};

	if (program.fd[file] < 0)
		program.fd[file] = open(program.file_name[file], flags[program.access[file]] | O_CLOEXEC);
	must(program.fd[file] >= 0, program.file_name[file]);
	return program.fd[file];
}

static MPI_File own_file(long file)
{
	static const int modes[] = {MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY};
	MPI_File *own = &program.own_file[file];

	if (*own == MPI_FILE_NULL)
		must(!MPI_File_open(MPI_COMM_SELF, program.file_name[file], modes[program.access[file]], MPI_INFO_NULL,
			     own),
			"MPI_File_open");
	return *own;
}

void files_close(void)
{
	for (int file = 0; file < program.files; file++) {
		if (program.stream[file])
			fclose(program.stream[file]);
		if (program.fd[file] >= 0)
			close(program.fd[file]);
		if (program.own_file[file] != MPI_FILE_NULL)
			MPI_File_close(&program.own_file[file]);
	}
}

static void event_file_status(const char *what, int code, MPI_Status *status)
{
	int count = -1;

	if (event_code(what, code) == MPI_SUCCESS) {
		MPI_Get_count(status, MPI_BYTE, &count);
		event("%s count %d", what, count);
	}
}

static void read_stream(long file, char *to, long bytes, long at, int is_stale)
{
	FILE **stream = &program.stream[file];
	size_t got;

	if (*stream && is_stale) {
		fclose(*stream);
		*stream = NULL;
	}
	if (!*stream)
		*stream = fopen(program.file_name[file], "rbe");
	must(*stream != NULL, "fopen");
	if (at >= 0)
		event_call("fseek", fseek(*stream, at, SEEK_SET));
	got = fread(to, 1, (size_t)bytes, *stream);
	event("fread %zu at %ld end %d", got, ftell(*stream), feof(*stream));
}

static void read_pieces(int fd, char *to, long bytes, long at)
{
	long piece = bytes / 3 + 1, got;

	for (long done = 0; done < bytes; done += piece) {
		long part = bytes - done < piece ? bytes - done : piece;

		got = at < 0 ? read(fd, to + done, (size_t)part) : pread(fd, to + done, (size_t)part, at + done);
		event_call("read", got);
	}
}

/* RANK FILE VARIANT BUFFER AT BYTES FILE_AT IS_STALE; without an offset in the file, from its position. */
void do_read(void)
{
	long rank = next(), file = next();
	enum variant variant = (enum variant)next();
	char *to = next_location();
	long bytes = next(), at = next();
	int is_stale = (int)next();
	MPI_Status status;

	if (program.rank != rank)
		return;
	if (variant == BY_STREAM) {
		read_stream(file, to, bytes, at, is_stale);
		return;
	}
	if (variant == BY_MPI) {
		fresh_status(&status);
		if (at < 0)
			event_file_status("read", MPI_File_read(own_file(file), to, (int)bytes, MPI_BYTE, &status),
				&status);
		else
			event_file_status("read_at",
				MPI_File_read_at(own_file(file), at, to, (int)bytes, MPI_BYTE, &status), &status);
		return;
	}
	int fd = descriptor(file);

	if (variant == BY_PIECES) {
		read_pieces(fd, to, bytes, at);
	} else if (variant == BY_VECTOR) {
		struct iovec two[2] = {{to, (size_t)bytes / 3}, {to + bytes / 3, (size_t)(bytes - bytes / 3)}};

		event_call("readv", at < 0 ? readv(fd, two, 2) : preadv(fd, two, 2, at));
	} else if (at < 0) {
		event_call("read", read(fd, to, (size_t)bytes));
	} else if (variant == BY_CALL) {
		lseek(fd, at, SEEK_SET);
		event_call("read", read(fd, to, (size_t)bytes));
	} else {
		event_call("pread", pread(fd, to, (size_t)bytes, at));
	}
}

static void write_stream(long file, const char *from, long bytes, long at)
{
	FILE *stream = fopen(program.file_name[file], "r+be");
	size_t done;

	must(stream != NULL, "fopen");
	fseek(stream, at, SEEK_SET);
	done = fwrite(from, 1, (size_t)bytes, stream);
	event("fwrite %zu at %ld", done, ftell(stream));
	event_call("fclose", fclose(stream));
}

static void write_by(int fd, enum variant variant, const char *from, long bytes, long at)
{
	if (variant == BY_VECTOR) {
		struct iovec two[2] = {
			{(char *)from, (size_t)bytes / 3}, {(char *)from + bytes / 3, (size_t)(bytes - bytes / 3)}};

		event_call("writev", at < 0 ? writev(fd, two, 2) : pwritev(fd, two, 2, at));
	} else if (variant == BY_PIECES) {
		long first = bytes / 3;

		event_call("write", pwrite(fd, from, (size_t)first, at < 0 ? 0 : at));
		event_call("write", pwrite(fd, from + first, (size_t)(bytes - first), (at < 0 ? 0 : at) + first));
	} else if (variant == BY_PLACED_CALL && at >= 0) {
		event_call("pwrite", pwrite(fd, from, (size_t)bytes, at));
	} else {
		if (at >= 0)
			lseek(fd, at, SEEK_SET);
		event_call("write", write(fd, from, (size_t)bytes));
	}
}

/* RANK FILE VARIANT BUFFER AT BYTES FILE_AT; a file that is read only is opened for it. */
void do_write(void)
{
	long rank = next(), file = next();
	enum variant variant = (enum variant)next();
	const char *from = next_location();
	long bytes = next(), at = next();
	MPI_Status status;

	if (program.rank != rank)
		return;
	if (variant == BY_STREAM) {
		write_stream(file, from, bytes, at < 0 ? 0 : at);
	} else if (variant == BY_MPI && program.access[file] != READ_ONLY) {
		fresh_status(&status);
		event_file_status("write_at",
			MPI_File_write_at(own_file(file), at < 0 ? 0 : at, from, (int)bytes, MPI_BYTE, &status),
			&status);
	} else if (program.access[file] == READ_ONLY) {
		int fd = open(program.file_name[file], O_WRONLY | O_CLOEXEC);

		must(fd >= 0, "open");
		write_by(fd, variant, from, bytes, at < 0 ? 0 : at);
		close(fd);
	} else {
		write_by(descriptor(file), variant, from, bytes, at);
	}
}

/* RANK FILE AT WHENCE: 0 to an offset, 1 by so much. */
void do_seek(void)
{
	long rank = next(), file = next(), at = next(), whence = next();

	if (program.rank == rank)
		event_call("lseek", lseek(descriptor(file), at, whence ? SEEK_CUR : SEEK_SET));
}

/* RANK FILE BYTES IS_BY_NAME */
void do_truncate(void)
{
	long rank = next(), file = next(), bytes = next(), is_by_name = next();

	if (program.rank != rank)
		return;
	if (is_by_name || program.access[file] == READ_ONLY)
		event_call("truncate", truncate(program.file_name[file], bytes));
	else
		event_call("ftruncate", ftruncate(descriptor(file), bytes));
}

/* RANK FILE */
void do_size(void)
{
	long rank = next(), file = next();
	struct stat about, named;

	if (program.rank != rank)
		return;
	must(!fstat(descriptor(file), &about) && !stat(program.file_name[file], &named), "stat");
	event("size %ld %ld offset %ld", (long)about.st_size, (long)named.st_size,
		(long)lseek(descriptor(file), 0, SEEK_CUR));
}

/* RANK FILE HOW: 0 another descriptor, 1 a copy of it, 2 replaces it. */
void do_reopen(void)
{
	long rank = next(), file = next(), how = next();
	int fd, other;

	if (program.rank != rank)
		return;
	fd = descriptor(file);
	if (how == 0) {
		close(fd);
		program.fd[file] = -1;
		descriptor(file);
		return;
	}
	other = dup(fd);
	must(other >= 0, "dup");
	if (how == 1) {
		close(fd);
		program.fd[file] = other;
	} else {
		event("dup2 %d", dup2(other, fd) == fd);
		close(other);
	}
}

/* RANK FILE AT BYTES: reads the file, to its end at most, in a mapping of it. */
void do_map(void)
{
	long rank = next(), file = next(), at = next(), bytes = next();
	struct stat about;

	if (program.rank != rank)
		return;
	int fd = open(program.file_name[file], O_RDONLY | O_CLOEXEC);

	must(fd >= 0 && !fstat(fd, &about), "open");
	at -= at % 4096;
	bytes = about.st_size - at < bytes ? about.st_size - at : bytes;
	if (bytes > 0) {
		char *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, at);

		must(map != MAP_FAILED, "mmap");
		event_bytes("map", map, bytes);
		munmap(map, (size_t)bytes);
	}
	close(fd);
}

/*
 * FILE WRITES TIMES BUFFER AT BYTES FILE_AT GAP: all ranks read or write parts beside each other, by MPI's collective
 * operations. Bytes read behind a file's end are undefined.
 */
void do_together(void)
{
	long file = next(), writes = next(), times = next();
	char *at = next_location();
	long bytes = next(), file_at = next(), gap = next();
	MPI_File all;
	struct stat about;

	must(!MPI_File_open(program.comms[0], program.file_name[file], writes ? MPI_MODE_RDWR : MPI_MODE_RDONLY,
		     MPI_INFO_NULL, &all),
		"MPI_File_open");
	for (long time = 0; time < times; time++) {
		MPI_Offset offset = file_at + (time * program.size + program.rank) * (bytes + gap);
		MPI_Status status;

		fresh_status(&status);
		if (writes) {
			event_file_status("write_at_all",
				MPI_File_write_at_all(all, offset, at, (int)bytes, MPI_BYTE, &status), &status);
			continue;
		}
		must(!stat(program.file_name[file], &about), "stat");
		event_file_status("read_at_all", MPI_File_read_at_all(all, offset, at, (int)bytes, MPI_BYTE, &status),
			&status);
		long there = about.st_size > offset ? about.st_size - offset : 0;

		if (there < bytes)
			memset(at + there, 0, (size_t)(bytes - there));
		event_bytes("together", at, bytes);
	}
	MPI_File_close(&all);
}
