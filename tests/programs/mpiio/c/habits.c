/*
 * What programs do with files beside the plain patterns. Rank 0 reads or maps the file IN and gives each rank its part,
 * or collects the parts in the file OUT, behind a header. Usage: habits --what NAME --in FILE --out FILE, with one of
 * the names below. Parts have the same size; what is left of the file is not used.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "program.h"

enum { HEADER_BYTES = 77, STEPS = 3 };

static const char *in, *out;
static size_t all, own;
static char *mine;

static int opened(int flags)
{
	int file = open(in, flags);

	if (file < 0)
		fail(in);
	return file;
}

/* The file's content, by one read. */
static char *contents(void)
{
	int file = opened(O_RDONLY);
	char *data = memory(all);

	if (read(file, data, all) != (ssize_t)all)
		fail(in);
	close(file);
	return data;
}

static char *mapped(int protection, int flags)
{
	int file = opened(O_RDONLY);
	char *data = mmap(NULL, all, protection, flags, file, 0);

	if (data == MAP_FAILED)
		fail(in);
	close(file);
	return data;
}

static void scatter(const char *data)
{
	MPI_Scatter(data, (int)own, MPI_BYTE, mine, (int)own, MPI_BYTE, 0, MPI_COMM_WORLD);
	count(mine, own);
}

/* Rank 0 copies its own part. */
static void distribute(const char *data)
{
	for (int to = 1; rank == 0 && to < size; to++)
		MPI_Send(data + own * (size_t)to, (int)own, MPI_BYTE, to, 3, MPI_COMM_WORLD);
	if (rank == 0)
		memcpy(mine, data, own);
	else
		MPI_Recv(mine, (int)own, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	count(mine, own);
}

static void map_and_give(void (*give)(const char *), int protection, int flags)
{
	for (int step = 0; step < STEPS; step++) {
		char *data = rank ? NULL : mapped(protection, flags);

		give(data);
		if (rank == 0)
			munmap(data, all);
	}
}

static void map_scatter(void)
{
	map_and_give(scatter, PROT_READ, MAP_SHARED);
}

static void map_private(void)
{
	map_and_give(scatter, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void map_send(void)
{
	map_and_give(distribute, PROT_READ, MAP_PRIVATE);
}

/* What is scattered isn't what the file has: some pages were written, one of them before the mapping was protected. */
static void map_written(void)
{
	char *data = rank ? NULL : mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE);

	if (rank == 0) {
		data[own / 2] ^= 5;
		data[own + 1] ^= 6;
	}
	scatter(data);
	if (rank == 0) {
		data[all - 1] ^= 7;
		mprotect(data, all, PROT_READ);
	}
	distribute(data);
	if (rank == 0)
		munmap(data, all);
}

/* Other memory takes the mapping's place, in part. */
static void map_replaced(void)
{
	char *data = rank ? NULL : mapped(PROT_READ, MAP_SHARED);

	if (rank == 0) {
		size_t page = (size_t)sysconf(_SC_PAGESIZE);
		char *at = data + (own + page) / page * page;

		if (mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
			fail("mmap");
		memset(at, 9, page);
	}
	scatter(data);
	distribute(data);
	if (rank == 0)
		munmap(data, all);
}

/* The file changes between its uses: the mapping shows its new content. */
static void map_changed(void)
{
	char *data = rank ? NULL : mapped(PROT_READ, MAP_SHARED);

	for (int step = 0; step < STEPS; step++) {
		int file = rank ? -1 : open(in, O_WRONLY);

		distribute(data);
		if (rank == 0 && pwrite(file, &step, sizeof step, (off_t)(own + 100)) != sizeof step)
			fail(in);
		if (rank == 0)
			close(file);
		scatter(data);
	}
	if (rank == 0)
		munmap(data, all);
}

/* Other files of the same name, or a shorter one. */
static void map_renamed(void)
{
	char *data = rank ? NULL : mapped(PROT_READ, MAP_SHARED), other[4096];

	snprintf(other, sizeof other, "%s.other", in);
	if (rank == 0 && rename(in, other) != 0)
		fail(other);
	scatter(data);
	distribute(data);
	if (rank == 0 && (rename(other, in) != 0 || munmap(data, all) != 0))
		fail(in);
}

/* Each rank passes its part on, and gets that of the rank before it. */
static void exchanged(int is_replacing)
{
	char *data = contents(), *got = memory(all);

	for (int step = 0; step < STEPS; step++) {
		int to = (rank + 1) % size, from = (rank + size - 1) % size;
		MPI_Status status;

		if (is_replacing)
			MPI_Sendrecv_replace(data, (int)all, MPI_BYTE, to, 1, from, 1, MPI_COMM_WORLD, &status);
		else
			MPI_Sendrecv(data, (int)all, MPI_BYTE, to, 1, got, (int)all, MPI_BYTE, from, 1, MPI_COMM_WORLD,
				&status);
		int bytes = 0;
		MPI_Get_count(&status, MPI_BYTE, &bytes);
		if (bytes != (int)all || status.MPI_SOURCE != from || status.MPI_TAG != 1)
			fail("status");
		count(is_replacing ? data : got, all);
		if (!is_replacing) {
			free(data);
			data = contents();
		}
	}
	free(data);
	free(got);
}

static void sendrecv(void)
{
	exchanged(0);
}

static void sendrecv_replace(void)
{
	exchanged(1);
}

/* A ring in which rank 0 has read what goes round. */
static void sendrecv_from(void)
{
	for (int step = 0; step < STEPS; step++) {
		char *data = rank ? NULL : contents();

		for (int to = 1; rank == 0 && to < size; to++)
			MPI_Sendrecv(data + own * (size_t)to, (int)own, MPI_BYTE, to, 2, mine, 1, MPI_BYTE, to, 2,
				MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank > 0)
			MPI_Sendrecv("x", 1, MPI_BYTE, 0, 2, mine, (int)own, MPI_BYTE, 0, 2, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		count(mine, rank ? own : 1);
		free(data);
	}
}

/* The same by each kind of send. */
static void kinds(void)
{
	char *attached = memory(own * 2 + MPI_BSEND_OVERHEAD);

	MPI_Buffer_attach(attached, (int)(own * 2 + MPI_BSEND_OVERHEAD));
	for (int kind = 0; kind < 7; kind++) {
		char *data = rank ? NULL : contents();

		for (int to = 1; to < size; to++) {
			const char *from = data + own * (size_t)to;
			MPI_Request request = MPI_REQUEST_NULL;

			if (rank == to)
				MPI_Irecv(mine, (int)own, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &request);
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank == 0 && kind == 0)
				MPI_Bsend(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD);
			else if (rank == 0 && kind == 1)
				MPI_Rsend(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD);
			else if (rank == 0 && kind == 2)
				MPI_Ssend(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD);
			else if (rank == 0 && kind == 3)
				MPI_Issend(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD, &request);
			else if (rank == 0 && kind == 4)
				MPI_Irsend(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD, &request);
			else if (rank == 0 && kind == 5)
				MPI_Ibsend(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD, &request);
			else if (rank == 0) {
				MPI_Send_init(from, (int)own, MPI_BYTE, to, 4, MPI_COMM_WORLD, &request);
				MPI_Start(&request);
			}
			MPI_Wait(&request, MPI_STATUS_IGNORE);
			if (kind == 6 && rank == 0)
				MPI_Request_free(&request);
		}
		count(mine, rank ? own : 0);
		free(data);
	}
	MPI_Buffer_detach(&attached, &(int){0});
	free(attached);
}

/* Packs what it has read, and sends it so. */
static void packed(void)
{
	char *data = rank ? NULL : contents(), *pack = memory(own + 64);
	int at = 0;

	for (int to = 1; rank == 0 && to < size; to++) {
		at = 0;
		MPI_Pack(data + own * (size_t)to, (int)own, MPI_BYTE, pack, (int)own + 64, &at, MPI_COMM_WORLD);
		MPI_Send(pack, at, MPI_PACKED, to, 5, MPI_COMM_WORLD);
	}
	if (rank > 0) {
		MPI_Recv(pack, (int)own + 64, MPI_PACKED, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Unpack(pack, (int)own + 64, &at, mine, (int)own, MPI_BYTE, MPI_COMM_WORLD);
		count(mine, own);
	}
	free(pack);
	free(data);
}

/* Collects what all ranks have; rank 0 has the parts behind a header, in one piece of memory or in two. */
static void gathered(const char *how)
{
	char *data = rank ? NULL : memory(HEADER_BYTES + own * (size_t)size), head[HEADER_BYTES];
	int file = rank ? -1 : open(out, O_RDWR | O_CREAT | O_TRUNC, 0644);
	size_t parts = own * (size_t)size;

	memset(head, 'h', sizeof head);
	for (int step = 0; step < STEPS; step++) {
		memset(mine, rank + step + 1, own);
		if (rank == 0)
			memset(data, 'h', HEADER_BYTES);
		MPI_Gather(mine, (int)own, MPI_BYTE, rank ? NULL : data + HEADER_BYTES, (int)own, MPI_BYTE, 0,
			MPI_COMM_WORLD);
		struct iovec pieces[] = {{head, sizeof head}, {data ? data + HEADER_BYTES : NULL, parts}};
		if (rank == 0 && !strcmp(how, "one") &&
			write(file, data, HEADER_BYTES + parts) != (ssize_t)(HEADER_BYTES + parts))
			fail(out);
		if (rank == 0 && !strcmp(how, "two") &&
			(write(file, head, sizeof head) != sizeof head ||
				write(file, pieces[1].iov_base, parts) != (ssize_t)parts))
			fail(out);
		if (rank == 0 && !strcmp(how, "vector") && writev(file, pieces, 2) != (ssize_t)(HEADER_BYTES + parts))
			fail(out);
		/* The header says what comes before it is known to be written: its number is put in at the end. */
		if (rank == 0 && !strcmp(how, "later") &&
			(pwrite(file, data, HEADER_BYTES + parts, 0) != (ssize_t)(HEADER_BYTES + parts) ||
				pwrite(file, &step, sizeof step, 4) != sizeof step))
			fail(out);
	}
	if (rank == 0)
		close(file);
	free(data);
}

static void header_one(void)
{
	gathered("one");
}

static void header_two(void)
{
	gathered("two");
}

static void header_vector(void)
{
	gathered("vector");
}

static void header_later(void)
{
	gathered("later");
}

/* Persistent receives, written as they are. */
static void persistent_write(void)
{
	MPI_Request request;
	int file = rank ? -1 : open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	memset(mine, rank + 1, own);
	for (int from = 1; from < size; from++) {
		if (rank == 0)
			MPI_Recv_init(mine, (int)own, MPI_BYTE, from, 6, MPI_COMM_WORLD, &request);
		else if (rank == from)
			MPI_Send_init(mine, (int)own, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &request);
		for (int step = 0; step < STEPS && (rank == 0 || rank == from); step++) {
			MPI_Start(&request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
			if (rank == 0 && write(file, mine, own) != (ssize_t)own)
				fail(out);
		}
		if (rank == 0 || rank == from)
			MPI_Request_free(&request);
	}
	if (rank == 0)
		close(file);
}

static const struct {
	const char *name;
	void (*run)(void);
} habits[] = {
	{"map-scatter", map_scatter},
	{"map-private", map_private},
	{"map-send", map_send},
	{"map-written", map_written},
	{"map-replaced", map_replaced},
	{"map-changed", map_changed},
	{"map-renamed", map_renamed},
	{"sendrecv", sendrecv},
	{"sendrecv-replace", sendrecv_replace},
	{"sendrecv-from", sendrecv_from},
	{"kinds", kinds},
	{"packed", packed},
	{"header-one", header_one},
	{"header-two", header_two},
	{"header-vector", header_vector},
	{"header-later", header_later},
	{"persistent-write", persistent_write},
};

int main(int argc, char **argv)
{
	struct stat status;

	start(&argc, &argv);
	in = option(argc, argv, "in", "habits.in");
	out = option(argc, argv, "out", "habits.out");
	if (stat(in, &status) != 0)
		fail(in);
	own = (size_t)status.st_size / (size_t)size;
	all = own * (size_t)size;
	mine = memory(own);
	MPI_Barrier(MPI_COMM_WORLD);
	for (size_t at = 0; at < sizeof habits / sizeof *habits; at++)
		if (!strcmp(habits[at].name, option(argc, argv, "what", "map-scatter")))
			habits[at].run();
	return finish();
}
