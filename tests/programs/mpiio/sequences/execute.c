/* Operations on files and memory, as each rank does them. */
#define _GNU_SOURCE
#include "sequences.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void event_call(const char *what, long result)
{
	event(what, result < 0 ? -errno : result);
}

static void event_count(int code, MPI_Status *status)
{
	int count = -1, class = code;

	/* A code may number its errors. */
	MPI_Error_class(code, &class);
	event("class", class);
	if (code == MPI_SUCCESS) {
		MPI_Get_count(status, MPI_BYTE, &count);
		event("count", count);
	}
}

static void run_read(const struct op *op)
{
	const struct site *site = &sites[op->site];
	char *to = state.buffers[op->buffer] + op->at;
	int fd = state.fds[op->file];
	MPI_Status status;

	switch (op->way) {
	case BY_CALL:
		event_call("read", site->read(fd, to, op->bytes));
		break;
	case BY_PCALL:
		event_call("pread", site->pread(fd, to, op->bytes, op->file_at));
		break;
	case BY_VECTOR:
		event_call("readv", site->readv(fd, to, op->bytes));
		break;
	case BY_STREAM:
		if (op->is_stale) {
			fclose(state.streams[op->file]);
			state.streams[op->file] = fopen(file_name(op->file), "rb");
			must(state.streams[op->file] != NULL, "fopen");
		}
		if (op->file_at % 3)
			event_call("fseek", fseek(state.streams[op->file], op->file_at, SEEK_SET));
		event("fread", site->fread(state.streams[op->file], to, op->bytes));
		event("at", ftell(state.streams[op->file]));
		event("end", feof(state.streams[op->file]));
		break;
	case BY_MPI:
	case BY_MPI_AT:
		memset(&status, 0, sizeof status);
		event_count(site->mpi_read(state.files[op->file], op->way == BY_MPI ? -1 : op->file_at, to, op->bytes,
			&status), &status);
		break;
	}
}

static void run_write(const struct op *op)
{
	const struct site *site = &sites[op->site];
	char *from = state.buffers[op->buffer] + op->at;
	int fd = state.fds[op->file];
	MPI_Status status;
	FILE *stream;

	switch (op->way) {
	case BY_CALL:
		event_call("write", site->write(fd, from, op->bytes));
		break;
	case BY_PCALL:
		event_call("pwrite", site->pwrite(fd, from, op->bytes, op->file_at));
		break;
	case BY_VECTOR:
		event_call("writev", site->writev(fd, from, op->bytes));
		break;
	case BY_STREAM:
		stream = access_of(op->file) == O_WRONLY ? fdopen(open(file_name(op->file), O_WRONLY), "wb") :
			fopen(file_name(op->file), "r+b");
		must(stream != NULL, "fopen");
		fseek(stream, op->file_at, SEEK_SET);
		event("fwrite", site->fwrite(stream, from, op->bytes));
		event("at", ftell(stream));
		event_call("fclose", fclose(stream));
		break;
	case BY_MPI:
	case BY_MPI_AT:
		memset(&status, 0, sizeof status);
		event_count(site->mpi_write(state.files[op->file], op->way == BY_MPI ? -1 : op->file_at, from, op->bytes,
			&status), &status);
		break;
	}
}

static void run_reopen(const struct op *op)
{
	int fd = state.fds[op->file], other = op->way ? dup(fd) : open(file_name(op->file), access_of(op->file));

	must(other >= 0, "open");
	if (op->way == 1) {
		close(fd);
		state.fds[op->file] = other;
		return;
	}
	event_call("dup2", dup2(other, fd) - fd);
	close(other);
}

/* Another process changes the file, by calls that this one doesn't see. */
static void run_child_writes(const struct op *op)
{
	pid_t child = fork();

	if (child == 0) {
		char data[5000];

		memset(data, op->tag, sizeof data);
		_exit(pwrite(state.fds[op->file], data, (size_t)op->bytes, op->file_at) < 0);
	}
	must(child > 0 && waitpid(child, NULL, 0) == child, "child");
}

static void run_child_looks(const struct op *op)
{
	uint64_t got = 0;
	int pair[2];
	pid_t child;

	must(!pipe(pair), "pipe");
	child = fork();
	if (child == 0) {
		got = sum(state.buffers[op->buffer] + op->at, op->bytes);
		_exit(write(pair[1], &got, sizeof got) != sizeof got);
	}
	must(child > 0 && read(pair[0], &got, sizeof got) == sizeof got && waitpid(child, NULL, 0) == child, "child");
	close(pair[0]);
	close(pair[1]);
	event("child", (long long)got);
}

static int run_file(const struct op *op)
{
	int fd = state.fds[op->file];

	switch (op->kind) {
	case READ:
		run_read(op);
		break;
	case WRITE:
		run_write(op);
		break;
	case SEEK:
		event_call("seek", lseek(fd, op->way ? op->file_at : op->bytes - op->file_at, op->way ? SEEK_SET : SEEK_CUR));
		if (op->way == 2)
			MPI_File_seek(state.files[op->file], op->file_at, MPI_SEEK_SET);
		break;
	case TRUNCATE:
		if (op->way)
			event_call("ftruncate", ftruncate(fd, op->file_at));
		else
			event_call("truncate", truncate(file_name(op->file), op->file_at));
		break;
	case APPEND:
		event_call("fcntl", fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) ^ O_APPEND));
		break;
	case REOPEN:
		run_reopen(op);
		break;
	case CHILD_WRITES:
		run_child_writes(op);
		break;
	default:
		return 0;
	}
	event_call("offset", lseek(state.fds[op->file], 0, SEEK_CUR));
	return 1;
}

static int run_memory(const struct op *op)
{
	char *at = state.buffers[op->buffer] + op->at, *other = state.buffers[op->other] + op->other_at;

	switch (op->kind) {
	case SET:
		memset(at, op->tag, (size_t)op->bytes);
		break;
	case STORE:
		for (long byte = 0; byte < op->bytes; byte += 9000)
			at[byte] ^= 0x5a;
		break;
	case LOOK:
		event_sum("look", at, op->bytes);
		break;
	case COPY:
		memcpy(other, at, (size_t)op->bytes);
		break;
	case RENEW:
		buffer_free(op->buffer);
		buffer_new(op->buffer);
		memset(state.buffers[op->buffer], op->tag, BUFFER_BYTES);
		break;
	case DROP:
		if (is_mapped(op->buffer))
			event_call("madvise", madvise(at - op->at % 4096, (size_t)op->bytes, MADV_DONTNEED));
		break;
	case CHILD_LOOKS:
		run_child_looks(op);
		break;
	default:
		return 0;
	}
	return 1;
}

void execute(const struct op *op)
{
	int is_file = op->kind <= CHILD_WRITES, is_memory = !is_file && op->kind <= CHILD_LOOKS;

	if (!is_file && !is_memory)
		execute_messages(op);
	else if (state.rank == op->root)
		must(is_file ? run_file(op) : run_memory(op), "an operation of this kind");
}
