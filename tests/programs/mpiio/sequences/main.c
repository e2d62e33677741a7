/*
 * Runs generated sequences; two runs are alike if their logs are.
 *
 *   sequences DIRECTORY [--seed S] [--count N] [--read-only] [--apart] [--trace]
 *
 * Rank R writes DIRECTORY/sequences.R: a line for each seed, `SEED HASH`. --trace writes every operation and everything
 * that was seen, too.
 */
#define _GNU_SOURCE
#include "sequences.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct state state;

/* What files begin with. */
static const long file_bytes[FILES] = {2000001, 1200000, 400000};

void must(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "rank %d: %s: %s\n", state.rank, what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* System calls directly: what is tested is not also the witness. */
static void log_line(const char *line, int length)
{
	must(syscall(SYS_write, state.log, line, length) == length, "log");
}

uint64_t sum(const void *data, long bytes)
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

void event(const char *what, long long value)
{
	int error = errno;

	state.hash = (state.hash ^ (uint64_t)value) * 0x100000001b3u;
	state.hash ^= state.hash >> 29;
	if (state.trace) {
		char line[200];

		log_line(line, snprintf(line, sizeof line, "    %s %lld\n", what, value));
	}
	errno = error;
}

void event_sum(const char *what, const void *data, long bytes)
{
	event(what, (long long)sum(data, bytes));
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

char *file_name(int file)
{
	static char name[1024];

	snprintf(name, sizeof name, "%s/file.%d", state.directory, file);
	return name;
}

int is_mapped(int buffer)
{
	return buffer % 2 == 0;
}

void buffer_new(int buffer)
{
	char *at = is_mapped(buffer) ?
		mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
		malloc(BUFFER_BYTES + 100);

	must(at && at != MAP_FAILED, "memory");
	state.buffers[buffer] = is_mapped(buffer) ? at : at + 7 + buffer;
}

int access_of(int file)
{
	return state.is_apart && file == FILES - 1 ? O_WRONLY : state.access;
}

void buffer_free(int buffer)
{
	if (is_mapped(buffer))
		munmap(state.buffers[buffer], BUFFER_BYTES);
	else
		free(state.buffers[buffer] - 7 - buffer);
	state.buffers[buffer] = NULL;
}

static void prepare(uint64_t seed)
{
	static char data[2 << 20];

	for (int file = 0; file < FILES && state.rank == 0; file++) {
		long fd = syscall(SYS_openat, AT_FDCWD, file_name(file), O_WRONLY | O_CREAT | O_TRUNC, 0644);

		fill(data, file_bytes[file], seed + (uint64_t)file);
		must(fd >= 0 && syscall(SYS_write, fd, data, file_bytes[file]) == file_bytes[file], "file");
		syscall(SYS_close, fd);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int file = 0; file < FILES; file++) {
		state.fds[file] = open(file_name(file), access_of(file) | O_CLOEXEC);
		state.streams[file] = access_of(file) == O_WRONLY ? NULL : fopen(file_name(file), "rbe");
		must(state.fds[file] >= 0 && (access_of(file) == O_WRONLY || state.streams[file]), "open");
		if (access_of(file) != O_WRONLY)
			MPI_File_seek(state.files[file], 0, MPI_SEEK_SET);
	}
	for (int buffer = 0; buffer < BUFFERS; buffer++) {
		buffer_new(buffer);
		fill(state.buffers[buffer], BUFFER_BYTES, seed * 64 + (uint64_t)(state.rank * BUFFERS + buffer));
	}
	state.hash = seed;
	state.pending = MPI_REQUEST_NULL;
}

/* Rank 0 looks at the files, every second time by calls that are not libc's. */
static void look_at_files(uint64_t seed)
{
	for (int file = 0; file < FILES; file++) {
		struct stat about;
		const char *name = file_name(file);
		int fd = seed % 2 ? open(name, O_RDONLY) : (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY);

		must(fd >= 0 && !fstat(fd, &about), "file");
		char *data = malloc((size_t)about.st_size + 1);
		long got = seed % 2 ? read(fd, data, (size_t)about.st_size) : syscall(SYS_read, fd, data, about.st_size);
		must(got == about.st_size, "the whole file");
		event_sum("file", data, got);
		event("bytes", got);
		free(data);
		close(fd);
	}
}

static void finish(uint64_t seed)
{
	MPI_Wait(&state.pending, MPI_STATUS_IGNORE);
	for (int buffer = 0; buffer < BUFFERS; buffer++) {
		event_sum("buffer", state.buffers[buffer], BUFFER_BYTES);
		buffer_free(buffer);
	}
	for (int file = 0; file < FILES; file++) {
		if (state.streams[file])
			fclose(state.streams[file]);
		close(state.fds[file]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (state.rank == 0)
		look_at_files(seed);
	MPI_Barrier(MPI_COMM_WORLD);
	char line[100];
	log_line(line,
		snprintf(line, sizeof line, "%llu %016llx\n", (unsigned long long)seed, (unsigned long long)state.hash));
}

static void run(uint64_t seed)
{
	static struct op ops[OPS_MAX];
	int count = generate(seed, state.size, state.is_apart, ops);
	char line[400];

	prepare(seed);
	for (int at = 0; at < count; at++) {
		if (state.trace) {
			describe(&ops[at], line, sizeof line - 1);
			strcat(line, "\n");
			log_line(line, (int)strlen(line));
		}
		execute(&ops[at]);
	}
	finish(seed);
}

static void start(void)
{
	char name[1024];

	MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &state.size);
	snprintf(name, sizeof name, "%s/sequences.%d", state.directory, state.rank);
	state.log = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	must(state.log >= 0, name);
	state.comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &state.comms[1]);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -state.rank, &state.comms[2]);
	MPI_Comm_split(MPI_COMM_WORLD, state.rank % 2, state.rank, &state.comms[3]);
	for (int file = 0; file < FILES && state.rank == 0; file++)
		syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, file_name(file), O_WRONLY | O_CREAT, 0644));
	MPI_Barrier(MPI_COMM_WORLD);
	for (int file = 0; file < FILES; file++) {
		int mode = access_of(file) == O_RDONLY ? MPI_MODE_RDONLY : MPI_MODE_RDWR;

		must(access_of(file) == O_WRONLY || !MPI_File_open(MPI_COMM_SELF, file_name(file), mode, MPI_INFO_NULL, &state.files[file]), "MPI_File_open");
		if (!state.is_apart)
			must(!MPI_File_open(MPI_COMM_WORLD, file_name(file), mode, MPI_INFO_NULL, &state.common[file]), "MPI_File_open");
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = 0, count = 1;

	if (argc < 2)
		return 2;
	state.directory = argv[1];
	state.access = O_RDWR;
	for (int at = 2; at < argc; at++) {
		if (!strcmp(argv[at], "--trace"))
			state.trace = 1;
		else if (!strcmp(argv[at], "--apart"))
			state.is_apart = 1;
		else if (!strcmp(argv[at], "--read-only"))
			state.access = O_RDONLY;
		else if (!strcmp(argv[at], "--seed") && at + 1 < argc)
			seed = strtoull(argv[++at], NULL, 10);
		else if (!strcmp(argv[at], "--count") && at + 1 < argc)
			count = strtoull(argv[++at], NULL, 10);
	}
	MPI_Init(&argc, &argv);
	start();
	for (uint64_t n = 0; n < count; n++)
		run(seed + n);
	for (int comm = 1; comm < COMMS; comm++)
		MPI_Comm_free(&state.comms[comm]);
	for (int file = 0; file < FILES; file++) {
		if (access_of(file) != O_WRONLY)
			MPI_File_close(&state.files[file]);
		if (!state.is_apart)
			MPI_File_close(&state.common[file]);
	}
	MPI_Finalize();
	if (state.rank == 0)
		printf("done\n");
	return 0;
}
