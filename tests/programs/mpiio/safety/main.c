/*
 * Programs that a transformation of I/O could break, each a case with a name.
 *
 *   safety DIRECTORY CASE…     runs these cases; `all` are those that don't end the job
 *     --read-write             opens inputs for writing, too
 *     --threaded               makes a thread first
 *     --old-kernel             lets the kernel lack Syscall User Dispatch, as before Linux 5.11
 *   safety --list              prints the names; of those that end the job with a `!` behind
 *
 * Rank R writes DIRECTORY/log.R, through memory: the library would see a call. Each case's files are in
 * DIRECTORY/CASE/.
 */
#define _GNU_SOURCE
#include "safety.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int rank, size, round_now, thread_level;
static const char *directory, *case_now;

enum { LOG_BYTES = 16 << 20 };

/* The offset of the next line in the file, for children, too. */
static char *log_text;
static atomic_size_t *log_end;

static const struct test *const tables[] = {patterns_tests, files_tests, changes_tests, uses_tests, kernel_tests,
	given_tests, faults_tests, leaves_tests, memory_tests, scatter_tests, broadcast_tests, message_tests,
	receive_tests, gather_tests, later_tests, ends_tests};
enum { TABLES = sizeof tables / sizeof *tables };

int input_flags = O_RDONLY;

int writable(struct work *work)
{
	if (input_flags == O_RDONLY && (fcntl(work->fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		off_t at = lseek(work->fd, 0, SEEK_CUR);

		close(work->fd);
		work->fd = open(work->path, O_RDWR);
		must(work->fd >= 0 && lseek(work->fd, at, SEEK_SET) == at, work->path);
	}
	return work->fd;
}

char *path(const char *name)
{
	static char paths[8][1024];
	static int next;
	char *at = paths[next++ % 8];

	snprintf(at, sizeof paths[0], "%s/%s/%s.%d", directory, case_now, name, round_now);
	return at;
}

void note(const char *format, ...)
{
	int error = errno;
	char line[512];
	int length = snprintf(line, sizeof line, "%s %d: ", case_now, round_now);
	va_list arguments;

	va_start(arguments, format);
	length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
	va_end(arguments);
	if ((size_t)length >= sizeof line - 1)
		length = sizeof line - 2;
	line[length++] = '\n';
	size_t at = atomic_fetch_add(log_end, (size_t)length);

	must(at + (size_t)length <= LOG_BYTES, "log");
	memcpy(log_text + at, line, (size_t)length);
	errno = error;
}

void note_result(const char *what, long long result)
{
	note("%s %lld, errno %d", what, result, result < 0 ? errno : 0);
}

void must(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "%s, round %d, rank %d: %s: %s\n", case_now, round_now, rank, what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 3);
}

uint64_t sum(const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint64_t sum = 0xcbf29ce484222325u, word;

	for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		sum = (sum ^ word) * 0x100000001b3u;
		sum ^= sum >> 29;
	}
	for (; bytes; bytes--)
		sum = (sum ^ *at++) * 0x100000001b3u;
	return sum;
}

void note_sum(const char *what, const void *data, size_t bytes)
{
	note("%s %zu bytes, %016llx", what, bytes, (unsigned long long)sum(data, bytes));
}

void fill(void *data, size_t bytes, unsigned seed)
{
	unsigned char *at = data;
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t n = 0; n < bytes; n++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		at[n] = (unsigned char)(state >> 56);
	}
}

void make(const char *name, size_t bytes, unsigned seed)
{
	char *data = memory(bytes);
	long fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	fill(data, bytes, seed);
	must(fd >= 0 && syscall(SYS_write, fd, data, bytes) == (long)bytes, name);
	syscall(SYS_close, fd);
	free(data);
}

void note_file(const char *name)
{
	int fd = open(name, O_RDONLY);
	struct stat about;

	if (fd < 0 || fstat(fd, &about)) {
		note("%s: errno %d", strrchr(name, '/') + 1, errno);
		return;
	}
	char *data = memory((size_t)about.st_size);
	must(read(fd, data, (size_t)about.st_size) == about.st_size, name);
	note_sum(strrchr(name, '/') + 1, data, (size_t)about.st_size);
	free(data);
	close(fd);
}

void *memory(size_t bytes)
{
	void *at = malloc(bytes ? bytes : 1);

	must(at != NULL, "memory");
	/* Of the data of an earlier case nothing is left. */
	memset(at, 0xa5, bytes);
	return at;
}

void *pages(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "pages");
	return at;
}

int class_of(int code)
{
	int class = -1;

	if (MPI_Error_class(code, &class) != MPI_SUCCESS)
		class = -2;
	return class;
}

static void run(const struct test *test)
{
	char name[1024];

	case_now = test->name;
	snprintf(name, sizeof name, "%s/%s", directory, test->name);
	if (rank == 0)
		must(!mkdir(name, 0755), name);
	MPI_Barrier(MPI_COMM_WORLD);
	for (round_now = 0; round_now < ROUNDS; round_now++) {
		test->run();
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

static void list(void)
{
	for (int table = 0; table < TABLES; table++)
		for (const struct test *test = tables[table]; test->name; test++)
			printf("%s%s\n", test->name, test->effect == ENDS ? "!" : "");
}

static void *shared(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	must(at != MAP_FAILED, "log");
	return at;
}

static void begin_log(void)
{
	char name[1024];

	snprintf(name, sizeof name, "%s/log.%d", directory, rank);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	must(fd >= 0 && !ftruncate(fd, LOG_BYTES), name);
	log_text = shared(fd, LOG_BYTES);
	log_end = shared(-1, sizeof *log_end);
	close(fd);
}

static void end_log(void)
{
	char name[1024];

	snprintf(name, sizeof name, "%s/log.%d", directory, rank);
	must(!truncate(name, (off_t)*log_end), name);
}

static void run_named(int effect, char **names)
{
	for (int table = 0; table < TABLES; table++)
		for (const struct test *test = tables[table]; test->name; test++) {
			int is_named = 0;

			for (char **name = names; *name; name++)
				is_named |= !strcmp(*name, test->name) || (!strcmp(*name, "all") && effect != ENDS);
			if (is_named && (int)test->effect == effect)
				run(test);
		}
}

static void *nothing(void *of)
{
	return of;
}

/* The program counts as one with threads from then on. */
static void make_a_thread(void)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, nothing, NULL) && !pthread_join(thread, NULL), "thread");
}

/* The library finds the dispatch to be unknown. */
static void forbid_dispatch(void)
{
	enum { SET_DISPATCH = 59 };
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SET_DISPATCH, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = sizeof lines / sizeof *lines, .filter = lines};

	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter),
		"seccomp");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		list();
		return 0;
	}
	if (argc < 3)
		return 2;
	for (int at = 2; at < argc; at++)
		if (!strcmp(argv[at], "--old-kernel"))
			forbid_dispatch();
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &thread_level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	directory = argv[1];
	case_now = "start";
	begin_log();
	for (int at = 2; at < argc; at++) {
		if (!strcmp(argv[at], "--read-write"))
			input_flags = O_RDWR;
		if (!strcmp(argv[at], "--threaded"))
			make_a_thread();
	}
	run_named(NO_EFFECT, argv + 2);
	run_named(LASTS, argv + 2);
	run_named(ENDS, argv + 2);
	end_log();
	MPI_Finalize();
	if (rank == 0)
		printf("done\n");
	return 0;
}
