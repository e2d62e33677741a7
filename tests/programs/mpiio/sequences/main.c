/*
 * Executes the programs of a plan; two runs are alike if their logs are.
 *
 *   sequences DIRECTORY PLAN CHUNK SECONDS PAUSES
 *
 * Rank R writes DIRECTORY/log.R, which is mapped, so that it is whole after any end. Unless CHUNK is 0, each so many
 * bytes of an inspection have a line of their own. A program that takes more SECONDS hangs: the default of the signal
 * ends it. Unless PAUSES is 0, a rank waits before some operations, for times that follow from the number.
 */
#define _GNU_SOURCE
#include "sequences.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOG_BYTES (16L << 20)

struct program program;

static struct {
	const char *directory;
	char *log;
	long log_bytes, chunk;
	unsigned seconds;
	uint64_t pauses;
	int world_rank, line;
} state;

static long arguments[ARGUMENTS_MAX];
static int argument, argument_count;

long next(void)
{
	must(argument < argument_count, "the operation has enough numbers");
	return arguments[argument++];
}

char *next_location(void)
{
	long buffer = next(), at = next();

	return program.buffer[buffer] + at;
}

struct typed next_typed(void)
{
	struct typed typed = {.type = program.types[next()]};

	typed.count = (int)next();
	typed.at = next_location();
	return typed;
}

int next_list(int *numbers)
{
	int count = (int)next();

	for (int i = 0; i < count; i++)
		numbers[i] = (int)next();
	return count;
}

void must(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "rank %d, line %d: not so: %s: %s\n", state.world_rank, state.line, what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 3);
	_exit(3);
}

static void log_text(const char *text, int length)
{
	if (state.log_bytes + length >= LOG_BYTES)
		_exit(4);
	memcpy(state.log + state.log_bytes, text, (size_t)length);
	state.log_bytes += length;
}

void event(const char *format, ...)
{
	char line[600];
	int error = errno, length = snprintf(line, sizeof line, "%d ", state.line);
	va_list list;

	va_start(list, format);
	length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, list);
	va_end(list);
	line[length++] = '\n';
	log_text(line, length);
	errno = error;
}

static uint64_t sum(const void *data, long bytes)
{
	const unsigned char *at = data;
	uint64_t sum = 0xcbf29ce484222325u, word;

	for (; bytes >= (long)sizeof word; bytes -= (long)sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		sum = (sum ^ word) * 0x100000001b3u;
		sum ^= sum >> 29;
	}
	for (; bytes > 0; bytes--)
		sum = (sum ^ *at++) * 0x100000001b3u;
	return sum;
}

void event_bytes(const char *what, const void *data, long bytes)
{
	long step = state.chunk > 0 ? state.chunk : bytes > 0 ? bytes : 1;

	for (long at = 0; at == 0 || at < bytes; at += step) {
		long part = bytes - at < step ? bytes - at : step;

		event("%s bytes %ld to %ld are %016llx", what, at, at + part,
			(unsigned long long)sum((const char *)data + at, part));
	}
}

void fill(void *data, long bytes, uint64_t seed)
{
	unsigned char *at = data;
	uint64_t word = seed * 0x9e3779b97f4a7c15u | 1;

	for (; bytes >= (long)sizeof word; bytes -= (long)sizeof word, at += sizeof word) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		memcpy(at, &word, sizeof word);
	}
	memset(at, (int)(word >> 56), (size_t)bytes);
}

int rank_in(int comm, int rank)
{
	return comm == 1 && rank >= 0 ? program.size - 1 - rank : rank;
}

/* Waits for all ranks without taking the processor from those that work. */
static void synchronize(void)
{
	MPI_Request request;
	int is_done = 0;

	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_done)
		usleep(100);
}

static void make_file(int file, long bytes)
{
	const char *name = program.file_name[file];
	long fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	char *data = scratch(bytes);

	fill(data, bytes, (uint64_t)program.number * FILES_MAX + (uint64_t)file);
	must(fd >= 0 && syscall(SYS_write, fd, data, bytes) == bytes, name);
	syscall(SYS_close, fd);
}

/* The numbers: SIZE THREADS BUFFER_BYTES BUFFERS, for each its kind, FILES, for each its bytes and access. */
static void begin(long number)
{
	int rank, size;

	memset(&program, 0, sizeof program);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	program.number = number;
	size = (int)next();
	MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &program.comms[0]);
	program.rank = rank < size ? rank : -1;
	program.size = size;
	if (program.rank < 0)
		return;
	MPI_Comm_split(program.comms[0], 0, -rank, &program.comms[1]);
	for (int comm = 0; comm < 2; comm++)
		MPI_Comm_set_errhandler(program.comms[comm], MPI_ERRORS_RETURN);
	program.types[0] = MPI_BYTE;
	program.types[1] = MPI_INT;
	program.types[2] = MPI_DOUBLE;
	program.types[3] = structure_type();
	program.has_threads = (int)next();
	program.buffer_bytes = next();
	program.buffers = (int)next();
	for (int buffer = 0; buffer < program.buffers; buffer++) {
		program.memory[buffer] = (enum memory)next();
		buffer_new(buffer, ((uint64_t)number * RANKS_MAX + (uint64_t)rank) * BUFFERS_MAX + (uint64_t)buffer);
	}
	program.files = (int)next();
	for (int file = 0; file < program.files; file++) {
		long bytes = next();

		snprintf(program.file_name[file], sizeof program.file_name[file], "%s/file.%ld.%d", state.directory,
			number, file);
		program.access[file] = (enum access)next();
		program.fd[file] = -1;
		program.own_file[file] = MPI_FILE_NULL;
		if (rank == 0)
			make_file(file, bytes);
	}
	for (int tag = 0; tag < TAGS_MAX; tag++)
		program.requests[0][tag].handle = program.requests[1][tag].handle = MPI_REQUEST_NULL;
	MPI_Barrier(program.comms[0]);
}

/* Rank 0 checks the files, by calls that are not libc's. */
static void check_file(int file)
{
	const char *name = program.file_name[file];
	long fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC), bytes, got;
	char *data;

	must(fd >= 0, name);
	bytes = syscall(SYS_lseek, fd, 0L, SEEK_END);
	syscall(SYS_lseek, fd, 0L, SEEK_SET);
	data = scratch(bytes + 1);
	got = syscall(SYS_read, fd, data, bytes);
	must(got == bytes, "the whole file is read");
	event("file %d has %ld bytes", file, bytes);
	event_bytes("file", data, bytes);
	syscall(SYS_close, fd);
	unlink(name);
}

static void end(void)
{
	if (program.rank < 0)
		return;
	for (int buffer = 0; buffer < program.buffers; buffer++) {
		char what[20];

		snprintf(what, sizeof what, "buffer %d", buffer);
		event_bytes(what, program.buffer[buffer], program.buffer_bytes);
		buffer_free(buffer);
	}
	requests_free();
	files_close();
	for (int type = BASES; type < TYPES_MAX; type++)
		if (program.types[type] != (MPI_Datatype)0 && program.types[type] != MPI_DATATYPE_NULL)
			MPI_Type_free(&program.types[type]);
	MPI_Barrier(program.comms[0]);
	for (int file = 0; file < program.files && program.rank == 0; file++)
		check_file(file);
	MPI_Barrier(program.comms[0]);
	MPI_Comm_free(&program.comms[0]);
	MPI_Comm_free(&program.comms[1]);
}

/* The numbers behind the line's first word, and that word. */
static char *split(char *line)
{
	char *rest = NULL, *name = strtok_r(line, " ", &rest), *word;

	argument = argument_count = 0;
	while ((word = strtok_r(NULL, " ", &rest)) && argument_count < ARGUMENTS_MAX)
		arguments[argument_count++] = strtol(word, NULL, 10);
	return name;
}

/* Up to a millisecond, once in three times. */
static void pause_at_random(void)
{
	if (state.pauses == 0)
		return;
	state.pauses = state.pauses * 6364136223846793005u + 1442695040888963407u;
	if ((state.pauses >> 33) % 3 == 0)
		usleep((unsigned)(state.pauses >> 40) % 1000);
}

static void carry_out(char *line)
{
	char *name = split(line), head[60];

	state.line++;
	if (!name)
		return;
	if (!strcmp(name, "program")) {
		long number = next();

		alarm(state.seconds);
		state.line = 0;
		log_text(head, snprintf(head, sizeof head, "program %ld\n", number));
		begin(number);
	} else if (!strcmp(name, "end")) {
		end();
		synchronize();
		log_text("end\n", 4);
	} else if (program.rank >= 0 && !strncmp(name, "type_", 5)) {
		make_type(name + 5, next());
	} else if (program.rank >= 0) {
		operation *what = operation_named(name);

		must(what != NULL, name);
		event("-");
		pause_at_random();
		call_from((unsigned)next(), what);
	}
}

static char *read_plan(const char *name)
{
	long fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC), bytes, got = 0, part = 1;
	char *text;

	must(fd >= 0, name);
	bytes = syscall(SYS_lseek, fd, 0L, SEEK_END);
	syscall(SYS_lseek, fd, 0L, SEEK_SET);
	text = malloc((size_t)bytes + 1);
	must(text != NULL, "memory");
	for (; got < bytes && part > 0; got += part)
		part = syscall(SYS_read, fd, text + got, bytes - got);
	must(got == bytes, "the plan is read");
	text[bytes] = 0;
	syscall(SYS_close, fd);
	return text;
}

static void start_log(void)
{
	char name[1100];
	long fd;

	snprintf(name, sizeof name, "%s/log.%d", state.directory, state.world_rank);
	fd = syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	must(fd >= 0 && !syscall(SYS_ftruncate, fd, LOG_BYTES), name);
	state.log = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	must(state.log != MAP_FAILED, "the log is mapped");
	syscall(SYS_close, fd);
}

int main(int argc, char **argv)
{
	char *text, *rest = NULL;

	if (argc < 6)
		return 2;
	state.directory = argv[1];
	state.chunk = atol(argv[3]);
	state.seconds = (unsigned)atol(argv[4]);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &state.world_rank);
	state.pauses = (uint64_t)atol(argv[5]) * (uint64_t)(state.world_rank + 1);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	start_log();
	text = read_plan(argv[2]);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		carry_out(line);
	alarm(0);
	free(text);
	MPI_Finalize();
	if (state.world_rank == 0)
		printf("done\n");
	return 0;
}
