/* The buffer is handed to the kernel, to libraries and to other processes after the file was read into it. */
#define _GNU_SOURCE
#include "safety.h"

#include <aio.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define STEP(name) static inline __attribute__((always_inline)) void name(struct work *work)

/* A file of this case that rank 0 writes. */
static int target(void)
{
	int fd = open(path("copy"), O_RDWR | O_CREAT | O_TRUNC, 0644);

	must(fd >= 0, "copy");
	return fd;
}

static void check_target(int fd)
{
	close(fd);
	note_file(path("copy"));
}

STEP(written)
{
	if (rank == 0) {
		int fd = target();

		note_result("write", write(fd, work->data + 4097, 90000));
		note_result("pwrite", pwrite(fd, work->data, 50000, 5));
		check_target(fd);
	}
}

STEP(written_in_pieces)
{
	if (rank == 0) {
		struct iovec two[2] = {{work->data + 50001, 40000}, {work->data, 30000}};
		int fd = target();

		note_result("writev", writev(fd, two, 2));
		note_result("pwritev", pwritev(fd, two, 2, 100));
		check_target(fd);
	}
}

STEP(written_raw)
{
	if (rank == 0) {
		int fd = target();

		note_result("syscall", syscall(SYS_write, fd, work->data, 90000));
		check_target(fd);
	}
}

STEP(written_by_a_stream)
{
	if (rank == 0) {
		FILE *to = fopen(path("copy"), "w");

		note("fwrite %zu", fwrite(work->data, 3, 30000, to));
		note("byte %d", fputc(work->data[90000], to));
		note_result("close", fclose(to));
		note_file(path("copy"));
	}
}

STEP(written_aside)
{
	if (rank == 0) {
		int fd = target();
		struct aiocb block = {.aio_fildes = fd, .aio_buf = work->data + 3, .aio_nbytes = 80000};
		const struct aiocb *blocks[1] = {&block};

		note_result("aio_write", aio_write(&block));
		while (aio_error(&block) == EINPROGRESS)
			aio_suspend(blocks, 1, NULL);
		note("error %d", aio_error(&block));
		note_result("returned", aio_return(&block));
		check_target(fd);
	}
}

STEP(sent)
{
	if (rank == 0) {
		char got[9000] = "";
		int pair[2];

		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		struct iovec two[2] = {{work->data + 70000, 2000}, {work->data, 1000}};
		struct msghdr message = {.msg_iov = two, .msg_iovlen = 2};

		note_result("send", send(pair[0], work->data + 40000, 5000, 0));
		note_result("sendmsg", sendmsg(pair[0], &message, 0));
		note_result("sendto", sendto(pair[0], work->data, 1000, 0, NULL, 0));
		note_result("recv", recv(pair[1], got, 9000, MSG_WAITALL));
		note_sum("got", got, sizeof got);
		close(pair[0]);
		close(pair[1]);
	}
}

STEP(received_into)
{
	if (rank == 0) {
		int pair[2];

		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		note_result("send", send(pair[0], TEXT, 10, 0));
		note_result("recv", recv(pair[1], work->data + 40000, 100, 0));
		note_result("send", send(pair[0], TEXT, 10, 0));
		note_result("read", read(pair[1], work->data + 80000, 100));
		close(pair[0]);
		close(pair[1]);
	}
}

STEP(copied_by_the_kernel)
{
	if (rank == 0) {
		char *copy = memory(work->bytes);
		struct iovec from = {work->data, work->bytes}, to = {copy, work->bytes};
		struct iovec back = {copy, 5000}, middle = {work->data + 60000, 5000};

		note_result("process_vm_readv", process_vm_readv(getpid(), &to, 1, &from, 1, 0));
		note_sum("copy", copy, work->bytes);
		note_result("process_vm_writev", process_vm_writev(getpid(), &back, 1, &middle, 1, 0));
		free(copy);
	}
}

STEP(read_by_proc)
{
	if (rank == 0) {
		char *copy = memory(50000);
		int fd = open("/proc/self/mem", O_RDWR);

		note_result("pread", pread(fd, copy, 50000, (off_t)(uintptr_t)(work->data + 20000)));
		note_sum("copy", copy, 50000);
		note_result("pwrite", pwrite(fd, TEXT, sizeof TEXT, (off_t)(uintptr_t)(work->data + 80000)));
		close(fd);
		free(copy);
	}
}

STEP(spliced)
{
	if (rank == 0) {
		struct iovec one = {work->data + 50000, 8192};
		char got[8192] = "";
		int pair[2];

		must(!pipe(pair), "pipe");
		note_result("vmsplice", vmsplice(pair[1], &one, 1, 0));
		note_result("read", read(pair[0], got, sizeof got));
		note_sum("got", got, sizeof got);
		close(pair[0]);
		close(pair[1]);
	}
}

STEP(in_a_child)
{
	if (rank == 0) {
		int pair[2];
		uint64_t got = 0;

		must(!pipe(pair), "pipe");
		pid_t child = fork();

		if (child == 0) {
			got = sum(work->data, work->bytes);
			memset(work->data, 'x', work->bytes);
			_exit(write(pair[1], &got, sizeof got) != sizeof got);
		}
		note_result("read", read(pair[0], &got, sizeof got));
		note("child's %016llx", (unsigned long long)got);
		waitpid(child, NULL, 0);
		close(pair[0]);
		close(pair[1]);
	}
}

/* The child sees the data also when the parent has changed it and the file is removed. */
STEP(in_a_late_child)
{
	if (rank == 0) {
		int go[2], back[2];
		uint64_t got = 0;

		must(!pipe(go) && !pipe(back), "pipe");
		pid_t child = fork();

		if (child == 0) {
			must(read(go[0], &got, 1) == 1, "go");
			got = sum(work->data, work->bytes);
			_exit(write(back[1], &got, sizeof got) != sizeof got);
		}
		memset(work->data + 50000, 'y', 5000);
		note_result("truncate", ftruncate(writable(work), 0));
		note_result("write", write(go[1], "g", 1));
		note_result("read", read(back[0], &got, sizeof got));
		note("child's %016llx", (unsigned long long)got);
		waitpid(child, NULL, 0);
		close(go[0]);
		close(go[1]);
		close(back[0]);
		close(back[1]);
	}
}

static void *thread_sums(void *of)
{
	struct work *work = of;

	note_sum("thread", work->data, work->bytes);
	work->data[77777] = 't';
	return NULL;
}

STEP(in_a_thread)
{
	if (rank == 0) {
		pthread_t thread;

		must(!pthread_create(&thread, NULL, thread_sums, work), "thread");
		pthread_join(thread, NULL);
	}
}

static void *thread_touches(void *at)
{
	volatile char *byte = at;

	return (void *)(uintptr_t)(unsigned char)*byte;
}

/* Several threads touch the same page at once, and others. */
STEP(in_many_threads)
{
	if (rank == 0) {
		pthread_t threads[8];
		uintptr_t total = 0;
		void *got;

		for (int n = 0; n < 8; n++)
			must(!pthread_create(&threads[n], NULL, thread_touches, work->data + (n / 4) * 50000 + n),
				"thread");
		for (int n = 0; n < 8; n++) {
			pthread_join(threads[n], &got);
			total = total * 256 + (uintptr_t)got;
		}
		note("touched %lx", total);
	}
}

STEP(broadcast)
{
	char *copy = memory(50000);

	if (rank == 0)
		memcpy(copy, work->data + 20000, 50000);
	MPI_Bcast(rank ? copy : work->data + 20000, 50000, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("broadcast", rank ? copy : work->data + 20000, 50000);
	free(copy);
}

STEP(sent_by_mpi)
{
	char *copy = memory(90000);
	MPI_Request requests[2];

	if (rank == 0 && size > 1) {
		MPI_Isend(work->data + 1000, 90000, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Issend(work->data + 2000, 30000, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[1]);
		note("wait %d", MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	} else if (rank == 1) {
		MPI_Recv(copy, 90000, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		note_sum("got", copy, 90000);
		MPI_Recv(copy, 90000, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		note_sum("got", copy, 30000);
	}
	free(copy);
}

STEP(packed)
{
	if (rank == 0) {
		char *copy = memory(90000), *from = work->data + 1000;
		int at = 0;

		note("pack %d", MPI_Pack(from, 90000, MPI_BYTE, copy, 90000, &at, MPI_COMM_SELF));
		note_sum("packed", copy, 90000);
		note("reduce %d", MPI_Reduce_local(from, copy, 90000, MPI_BYTE, MPI_BXOR));
		note_sum("zeros", copy, 90000);
		note("send to self %d",
			MPI_Sendrecv(from, 9000, MPI_BYTE, 0, 1, copy, 9000, MPI_BYTE, 0, 1, MPI_COMM_SELF,
				MPI_STATUS_IGNORE));
		note_sum("sent", copy, 9000);
		free(copy);
	}
}

STEP(reduced)
{
	char *own = memory(50000), *all = memory(50000);

	fill(own, 50000, (unsigned)rank);
	MPI_Reduce(rank ? own : work->data + 5000, all, 50000, MPI_BYTE, MPI_BXOR, 0, MPI_COMM_WORLD);
	if (rank == 0)
		note_sum("reduced", all, 50000);
	MPI_Allreduce(rank ? own : work->data, all, 50000, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
	note_sum("reduced by all", all, 50000);
	free(own);
	free(all);
}

/* Another rank gets from the buffer through a window. */
STEP(in_a_window)
{
	char *copy = memory(60000);
	MPI_Win window;

	/* Open MPI 4.1.0 has no windows for a process with threads. */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int result = MPI_Win_create(work->data, rank ? 0 : (MPI_Aint)work->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
		&window);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	note_result("create", result != MPI_SUCCESS);
	if (result == MPI_SUCCESS) {
		MPI_Win_fence(0, window);
		MPI_Get(copy, 60000, MPI_BYTE, 0, 30000, 60000, MPI_BYTE, window);
		MPI_Win_fence(0, window);
		note_sum("window", copy, 60000);
		MPI_Win_free(&window);
	}
	free(copy);
}

STEP(written_by_mpi)
{
	if (rank == 0) {
		MPI_File file;

		int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;

		must(!MPI_File_open(MPI_COMM_SELF, path("copy"), mode, MPI_INFO_NULL, &file), "copy");
		note("write %d", MPI_File_write(file, work->data + 1, 90000, MPI_BYTE, MPI_STATUS_IGNORE));
		note("write %d", MPI_File_write_at(file, 20, work->data, 30000, MPI_BYTE, MPI_STATUS_IGNORE));
		MPI_File_close(&file);
		note_file(path("copy"));
	}
}

/* clang-format off */
#define USES(X) \
	X(written) X(written_in_pieces) X(written_raw) X(written_by_a_stream) X(sent) X(received_into) \
	X(copied_by_the_kernel) X(read_by_proc) X(spliced) X(in_a_child) X(in_a_late_child) X(broadcast) \
	X(sent_by_mpi) X(packed) X(reduced) X(written_by_mpi)
/* clang-format on */
#define PERSISTENT(X) X(written_aside) X(in_a_window) X(in_a_thread) X(in_many_threads)

#define BOTH(name) READ_SCATTER(name##_before, name, NULL) READ_SCATTER(name##_after, NULL, name)
USES(BOTH)
PERSISTENT(BOTH)

#define ROWS(name) {#name "_before", name##_before, 0}, {#name "_after", name##_after, 0},
#define LATER(name) {#name "_before", name##_before, LASTS}, {#name "_after", name##_after, LASTS},

const struct test uses_tests[] = {
	USES(ROWS) PERSISTENT(LATER){NULL, NULL, 0},
};
