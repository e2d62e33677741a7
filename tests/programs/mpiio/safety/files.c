/* Kinds of files and descriptors: what reading them returns, and where they are then. */
#define _GNU_SOURCE
#include "safety.h"

#include <sys/socket.h>

/* Rank 0 opens and reads by the case's statements; all scatter what is in the buffer then. */
static inline __attribute__((always_inline)) void with(void (*reads)(char *all, char *name))
{
	char *name = path("in"), *all = NULL, *mine = memory(PART);

	if (rank == 0) {
		all = pages(all_bytes());
		memset(all, 'b', all_bytes());
		reads(all, name);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	if (rank == 0) {
		note_sum("all", all, all_bytes());
		munmap(all, all_bytes());
	}
	free(mine);
}

/* A case whose reads are these statements. */
#define WITH(case_name, ...) \
	static inline __attribute__((always_inline)) void case_name##_read(char *all, char *name) \
		__VA_ARGS__ static void \
		case_name(void) \
	{ \
		with(case_name##_read); \
	}

static inline __attribute__((always_inline)) void read_note(int fd, char *at, size_t bytes)
{
	note_result("read", read(fd, at, bytes));
	note("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
}

WITH(short_read, {
	make(name, all_bytes() - 5000, 1);
	int fd = open(name, O_RDONLY);
	read_note(fd, all, all_bytes());
	read_note(fd, all, all_bytes());
	close(fd);
})

WITH(read_behind_end, {
	make(name, all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	note_result("pread", pread(fd, all, all_bytes(), (off_t)all_bytes() - 60000));
	note_result("pread", pread(fd, all, all_bytes(), (off_t)all_bytes()));
	note_result("pread", pread(fd, all, all_bytes(), 1LL << 40));
	close(fd);
})

WITH(short_fread, {
	make(name, all_bytes() - 5000, 1);
	FILE *stream = fopen(name, "rb");
	note("fread %zu of items of 7", fread(all, 7, all_bytes() / 7, stream));
	note("end %d, error %d, at %ld", feof(stream), ferror(stream), ftell(stream));
	fseek(stream, 11, SEEK_SET);
	note("fread %zu, end %d", fread(all, 1, all_bytes() / 2, stream), feof(stream));
	note("ungetc %d", ungetc('q', stream));
	note("get %d", fgetc(stream));
	note("get %d", fgetc(stream));
	fclose(stream);
})

WITH(sparse, {
	int fd = open(name, O_RDWR | O_CREAT, 0644);
	note_result("truncate", ftruncate(fd, (off_t)all_bytes() + 5));
	note_result("write", pwrite(fd, "data", 4, 70000));
	read_note(fd, all, all_bytes());
	close(fd);
})

WITH(behind_4_gb, {
	int fd = open(name, O_RDWR | O_CREAT, 0644);
	off_t far = 5LL << 30;
	note_result("truncate", ftruncate(fd, far + (off_t)all_bytes()));
	note_result("write", pwrite(fd, "data", 4, far + 70000));
	lseek(fd, far, SEEK_SET);
	read_note(fd, all, all_bytes());
	close(fd);
	unlink(name);
})

WITH(seek_between, {
	make(name, 2 * all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	read_note(fd, all, all_bytes() / 2);
	note("seek %lld", (long long)lseek(fd, -40000, SEEK_CUR));
	read_note(fd, all + all_bytes() / 2, all_bytes() / 2);
	note("seek %lld", (long long)lseek(fd, -100, SEEK_END));
	read_note(fd, all, 100);
	note_result("seek", lseek(fd, -1, SEEK_SET));
	close(fd);
})

WITH(shared_offset, {
	make(name, 2 * all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	int other = dup(fd);
	int third = fcntl(fd, F_DUPFD_CLOEXEC, 200);
	read_note(fd, all, all_bytes() / 2);
	read_note(other, all + all_bytes() / 2, 5000);
	close(fd);
	read_note(third, all + all_bytes() / 2 + 5000, 50000);
	note("dup2 %d", dup2(third, other) == other);
	read_note(other, all + 100, 50000);
	close(other);
	close(third);
})

WITH(offset_of_child, {
	make(name, 2 * all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	read_note(fd, all, all_bytes() / 2);
	pid_t child = fork();
	if (child == 0) {
		lseek(fd, 17, SEEK_CUR);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	read_note(fd, all + all_bytes() / 2, all_bytes() / 2);
	close(fd);
})

WITH(fifo, {
	must(!mkfifo(name, 0644), name);
	pid_t child = fork();
	if (child == 0) {
		int to = open(name, O_WRONLY);
		char data[100];
		fill(data, sizeof data, 4);
		_exit(write(to, data, sizeof data) != sizeof data);
	}
	int fd = open(name, O_RDONLY);
	read_note(fd, all, all_bytes());
	read_note(fd, all, all_bytes());
	close(fd);
	waitpid(child, NULL, 0);
	unlink(name);
})

WITH(sockets, {
	int pair[2];
	char data[5000];
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), name);
	fill(data, sizeof data, 5);
	note_result("send", send(pair[0], data, sizeof data, 0));
	read_note(pair[1], all, all_bytes());
	close(pair[0]);
	read_note(pair[1], all, all_bytes());
	close(pair[1]);
})

WITH(pipes, {
	int pair[2];
	must(!pipe(pair), name);
	note_result("write", write(pair[1], TEXT, 3));
	read_note(pair[0], all, all_bytes());
	close(pair[1]);
	read_note(pair[0], all, all_bytes());
	close(pair[0]);
})

WITH(dev_zero, {
	int fd = open("/dev/zero", O_RDONLY);
	note_result("read", read(fd, all, all_bytes()));
	close(fd);
	fd = open("/dev/null", O_RDWR);
	note_result("read", read(fd, all, all_bytes()));
	note_result("write", write(fd, all, all_bytes()));
	close(fd);
	(void)name;
})

WITH(proc_file, {
	int fd = open("/proc/self/comm", O_RDONLY);
	note_result("read", read(fd, all, all_bytes()));
	close(fd);
	(void)name;
})

/* It shows the size of a page, whatever it contains. */
WITH(sys_file, {
	int fd = open("/sys/devices/system/cpu/online", O_RDONLY);
	char *whole = pages(all_bytes());
	note_result("read", read(fd, whole, all_bytes()));
	note_sum("whole", whole, all_bytes());
	munmap(whole, all_bytes());
	close(fd);
	(void)name;
	(void)all;
})

WITH(directory_read, {
	int fd = open("/", O_RDONLY);
	read_note(fd, all, all_bytes());
	close(fd);
	(void)name;
})

WITH(bad_descriptors, {
	make(name, all_bytes(), 1);
	note_result("read", read(-1, all, all_bytes()));
	note_result("read", read(1023, all, all_bytes()));
	int fd = open(name, O_WRONLY);
	note_result("read", read(fd, all, all_bytes()));
	close(fd);
	note_result("read", read(fd, all, all_bytes()));
	fd = open(name, O_RDONLY);
	note_result("pread", pread(fd, all, all_bytes(), -5));
	note_result("write", write(fd, all, all_bytes()));
	note_result("none", read(fd, all, 0));
	fd = (close(fd), open(name, O_PATH));
	note_result("read", read(fd, all, all_bytes()));
	close(fd);
})

/* Memory that can't be written, in whole and from some offset on. */
WITH(bad_memory, {
	make(name, all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	char *hole = pages(40 * 4096);
	munmap(hole + 20 * 4096, 20 * 4096);
	note_result("read", read(fd, (char *)8, all_bytes()));
	ssize_t got = read(fd, hole, 40 * 4096);
	note_result("read", got);
	note("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
	note_sum("part", hole, got > 0 ? (size_t)got : 0);
	mprotect(hole, 20 * 4096, PROT_READ);
	got = pread(fd, hole, 20 * 4096, 100);
	note_result("pread", got);
	munmap(hole, 20 * 4096);
	memset(all, 'c', all_bytes());
	close(fd);
})

WITH(read_twice_overlapping, {
	make(name, 2 * all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	read_note(fd, all, all_bytes());
	read_note(fd, all + 30000, all_bytes() / 2);
	note_result("pread", pread(fd, all + 10, 40000, 3));
	note_result("pread", pread(fd, all, 20000, 100));
	close(fd);
})

WITH(close_then_reuse, {
	make(name, all_bytes(), 1);
	char *second = path("second");
	make(second, all_bytes(), 2);
	int fd = open(name, O_RDONLY);
	read_note(fd, all, all_bytes());
	close(fd);
	int other = open(second, O_RDONLY);
	note("the same number: %d", fd == other);
	read_note(other, all, 50000);
	close(other);
})

/* Which lock another process would find, and whether it is this one's. */
static void note_lock(const char *name)
{
	struct flock met = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	pid_t own = getpid(), child = fork();
	int status = 0;

	if (child == 0) {
		int fd = open(name, O_RDWR);

		_exit(fd < 0 || fcntl(fd, F_GETLK, &met) ? 99 : met.l_type * 2 + (met.l_pid == own));
	}
	waitpid(child, &status, 0);
	note("lock %d", WEXITSTATUS(status));
}

/* The process loses its locks of a file as soon as it closes any descriptor of it. */
WITH(locked_by_fcntl, {
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	make(name, all_bytes(), 1);
	int fd = open(name, O_RDONLY);
	note_result("lock", fcntl(fd, F_SETLK, &lock));
	read_note(fd, all, all_bytes());
	note_lock(name);
	close(fd);
	note_lock(name);
})

WITH(locked_by_lockf, {
	make(name, all_bytes(), 1);
	int fd = open(name, O_RDWR);
	note_result("lock", lockf(fd, F_TLOCK, 0));
	read_note(fd, all, all_bytes());
	note_lock(name);
	close(fd);
	note_lock(name);
})

/* The ranks that would read and write parts of the files have locks themselves. */
static void locked_by_others(void)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	char name[32];
	int fd = -1;

	snprintf(name, sizeof name, "own.%d", rank);
	if (rank > 0) {
		make(path(name), 5000, 3);
		fd = open(path(name), O_RDONLY);
		note_result("lock", fcntl(fd, F_SETLK, &lock));
	}
	read_scatter(NULL, NULL);
	gather_write(NULL, NULL);
	if (rank > 0) {
		note_lock(path(name));
		close(fd);
	}
}

const struct test files_tests[] = {
	{"short_read", short_read, 0},
	{"read_behind_end", read_behind_end, 0},
	{"short_fread", short_fread, 0},
	{"sparse", sparse, 0},
	{"behind_4_gb", behind_4_gb, 0},
	{"seek_between", seek_between, 0},
	{"shared_offset", shared_offset, 0},
	{"offset_of_child", offset_of_child, 0},
	{"fifo", fifo, 0},
	{"sockets", sockets, 0},
	{"pipes", pipes, 0},
	{"dev_zero", dev_zero, 0},
	{"proc_file", proc_file, 0},
	{"sys_file", sys_file, 0},
	{"directory_read", directory_read, 0},
	{"bad_descriptors", bad_descriptors, 0},
	{"bad_memory", bad_memory, 0},
	{"read_twice_overlapping", read_twice_overlapping, 0},
	{"close_then_reuse", close_then_reuse, 0},
	{"locked_by_fcntl", locked_by_fcntl, LASTS},
	{"locked_by_lockf", locked_by_lockf, LASTS},
	{"locked_by_others", locked_by_others, LASTS},
	{NULL, NULL, 0},
};
