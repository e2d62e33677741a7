/* Changes of the memory into which a file was read, and of its kind. */
#define _GNU_SOURCE
#include "safety.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define STEP(name) static inline __attribute__((always_inline)) void name(struct work *work)

STEP(one_byte_changed)
{
	if (rank == 0)
		work->data[PART + 5] ^= 0x55;
}

STEP(part_changed)
{
	if (rank == 0)
		memset(work->data + 30000, 'p', 50000);
}

STEP(all_changed)
{
	if (rank == 0)
		memset(work->data, 'a', work->bytes);
}

STEP(moved_within)
{
	if (rank == 0)
		memmove(work->data + 100, work->data + 40000, 60000);
}

STEP(pages_dropped)
{
	if (rank == 0)
		note_result("madvise", madvise(work->data + 16384, 65536, MADV_DONTNEED));
}

/* These are newer than some C libraries' headers. */
STEP(pages_advised)
{
	enum { POPULATE_READ = 22, POPULATE_WRITE = 23, DROP_LOCKED = 24 };

	if (rank == 0) {
		note_result("populate", madvise(work->data, 65536, POPULATE_READ));
		note_result("populate", madvise(work->data + 65536, 65536, POPULATE_WRITE));
		note_result("madvise", madvise(work->data + 16384, 65536, DROP_LOCKED));
	}
}

STEP(pages_replaced)
{
	if (rank == 0) {
		int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

		must(mmap(work->data + 8192, 65536, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED, "mmap");
		work->data[8192] = 'q';
	}
}

/* The file itself is mapped where it was read to. */
STEP(file_mapped_there)
{
	if (rank == 0) {
		int flags = MAP_PRIVATE | MAP_FIXED;

		must(mmap(work->data + 8192, 65536, PROT_READ | PROT_WRITE, flags, work->fd, 4096) != MAP_FAILED,
			"mmap");
	}
}

/* It grows, and has no room to grow where it is. */
STEP(remapped)
{
	if (rank == 0) {
		size_t old = (work->bytes + 4095) / 4096 * 4096, more = 64 << 20;
		char *moved = mremap(work->data, old, old + more, MREMAP_MAYMOVE);

		must(moved != MAP_FAILED, "mremap");
		work->data = moved;
		munmap(moved + old, more);
	}
}

STEP(partly_unmapped)
{
	if (rank == 0) {
		note_result("munmap", munmap(work->data, 65536));
		int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
		must(mmap(work->data, 65536, PROT_READ | PROT_WRITE, flags, -1, 0) == work->data, "mmap");
	}
}

/* What the kernel refuses changes nothing. */
STEP(refused)
{
	if (rank == 0) {
		int flags = MAP_PRIVATE | MAP_FIXED, all = PROT_READ | PROT_WRITE;

		note_result("munmap within a page", munmap(work->data + 1, 65536));
		note_result("madvise within a page", madvise(work->data + 1, 65536, MADV_DONTNEED));
		note_result("madvise of private memory", madvise(work->data, 65536, MADV_REMOVE));
		must(mmap(work->data, 65536, all, flags, -1, 0) == MAP_FAILED, "no file is mapped");
		must(mremap(work->data + 65536, 65536, 65536, MREMAP_FIXED, work->data) == MAP_FAILED, "not moved");
	}
}

STEP(scattered_once_more)
{
	char *mine = memory(PART);

	MPI_Scatter(work->data, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("first", mine, PART);
	if (rank == 0)
		work->data[PART / 2] = 'w';
	free(mine);
}

STEP(read_again)
{
	if (rank == 0) {
		note_result("pread", pread(work->fd, work->data + 20000, work->bytes - 20000, 100));
		note_result("pread", pread(work->fd, work->data, 30000, 7));
	}
}

STEP(locked)
{
	if (rank == 0) {
		note_result("mlock", mlock(work->data, 8192));
		note_result("munlock", munlock(work->data, 8192));
	}
}

/* clang-format off */
#define CHANGES(X) \
	X(one_byte_changed) X(part_changed) X(all_changed) X(moved_within) X(pages_dropped) X(pages_advised) \
	X(pages_replaced) X(file_mapped_there) X(remapped) X(partly_unmapped) X(refused) X(scattered_once_more) \
	X(read_again)
/* clang-format on */

#define BOTH(name) READ_SCATTER(name##_before, name, NULL) READ_SCATTER(name##_after, NULL, name)
CHANGES(BOTH)
BOTH(locked)

/* Rank 0 reads into this memory, and all scatter. */
static inline __attribute__((always_inline)) void read_into(char *all)
{
	char *name = path("in"), *mine = memory(PART);

	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);

		note_result("read", read(fd, all, all_bytes()));
		close(fd);
	}
	if (rank == 0 && odd())
		note("next to it %d", (all[-1] = 'x', all[all_bytes()] = 'y'));
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	if (rank == 0 && round_now >= 2)
		note_sum("all", all, all_bytes());
	free(mine);
}

static void on_the_stack(void)
{
	char all[all_bytes() + 64];

	memset(all, 0, sizeof all);
	read_into(all + 16);
}

static void in_a_static_array(void)
{
	static char all[16 * PART + 64];

	read_into(all + 32);
}

static void unaligned(void)
{
	char *all = memory(all_bytes() + 64);

	all[2] = 'x';
	read_into(all + 3);
	note("before it %d", all[2]);
	free(all);
}

static void among_others(void)
{
	char *all = memory(all_bytes() + 100000);

	memset(all, 'o', 50000);
	read_into(all + 50000);
	note_sum("before it", all, 50000);
	free(all);
}

static void of_huge_pages(void)
{
	char *all = memory(all_bytes() + (6 << 20)),
	     *at = (char *)(((uintptr_t)all + (4 << 20)) & ~(uintptr_t)0x1fffff);

	madvise(at, 2 << 20, MADV_HUGEPAGE);
	memset(at, 'h', all_bytes());
	read_into(at + 1);
	free(all);
}

static void in_shared_memory(void)
{
	char *all = mmap(NULL, all_bytes() + 100, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(all != MAP_FAILED, "mmap");
	read_into(all + 50);
	munmap(all, all_bytes() + 100);
}

/* The same memory under a second address. */
static void under_two_addresses(void)
{
	char *name = path("in"), *mine = memory(PART), *one = NULL, *two = NULL;

	if (rank == 0) {
		int memory_fd = memfd_create("two", MFD_CLOEXEC);

		make(name, all_bytes(), 1);
		must(!ftruncate(memory_fd, (off_t)all_bytes()), "memfd");
		one = mmap(NULL, all_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
		two = mmap(NULL, all_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
		int fd = open(name, O_RDONLY);
		note_result("read", read(fd, one, all_bytes()));
		close(fd);
		close(memory_fd);
		if (odd())
			note_sum("second", two, all_bytes());
		two[50000] = '2';
	}
	MPI_Scatter(one, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	if (rank == 0) {
		note_sum("second", two, all_bytes());
		munmap(one, all_bytes());
		munmap(two, all_bytes());
	}
	free(mine);
}

/* The other ranks read rank 0's memory. */
static void in_a_shared_window(void)
{
	char *name = path("in"), *all, *of_root;
	MPI_Aint bytes;
	MPI_Win window;
	int unit;

	/* Some releases of MPICH have none in a container. */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int result = MPI_Win_allocate_shared(rank ? 0 : (MPI_Aint)all_bytes(), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &all,
		&window);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	note_result("allocate", result != MPI_SUCCESS);
	if (result != MPI_SUCCESS)
		return;
	MPI_Win_shared_query(window, 0, &bytes, &unit, &of_root);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);

		note_result("read", read(fd, all, all_bytes()));
		close(fd);
	}
	MPI_Win_sync(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(window);
	note_sum("seen", of_root, all_bytes());
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

/* The buffer is freed, and its memory has another use, before the scatter. */
static void freed_before(void)
{
	char *name = path("in"), *mine = memory(PART), *all = memory(all_bytes());

	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);

		note_result("read", read(fd, all, all_bytes()));
		free(all);
		all = memory(all_bytes());
		memset(all, 'f', all_bytes());
		close(fd);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

static void reallocated(void)
{
	char *name = path("in"), *mine = memory(PART), *all = memory(all_bytes() / 2);

	if (rank == 0) {
		make(name, all_bytes(), 1);
		int fd = open(name, O_RDONLY);

		note_result("read", read(fd, all, all_bytes() / 2));
		all = realloc(all, all_bytes() + (odd() ? 1 << 20 : 0));
		must(all != NULL, "realloc");
		note_result("read", read(fd, all + all_bytes() / 2, all_bytes() - all_bytes() / 2));
		close(fd);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	free(all);
	free(mine);
}

/* The kernel reads neither into pages that the program has closed, nor as many bytes as no memory has. */
static void closed_in_part(void)
{
	const size_t page = 65536;
	char *name = path("in"), *mine = memory(PART), *all = pages(all_bytes());

	if (rank == 0) {
		make(name, all_bytes(), 1);
		memset(all, 'c', all_bytes());
		int fd = open(name, O_RDONLY);

		mprotect(all + page, page, odd() ? PROT_NONE : PROT_READ);
		note_result("read", read(fd, all, all_bytes()));
		note_result("read of any size", pread(fd, all, SIZE_MAX, 0));
		mprotect(all + page, page, PROT_READ | PROT_WRITE);
		close(fd);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	munmap(all, all_bytes());
	free(mine);
}

/* Pages that a thread of the program brings when they are missing. */
struct missing {
	int descriptor;
	char *page;
	volatile int is_over;
};

static void *bring_pages(void *of)
{
	struct missing *missing = of;
	struct uffd_msg message;

	while (!missing->is_over) {
		struct pollfd one = {missing->descriptor, POLLIN, 0};

		if (poll(&one, 1, 20) != 1 || read(one.fd, &message, sizeof message) != sizeof message)
			continue;
		struct uffdio_copy copy = {
			.dst = message.arg.pagefault.address & ~0xfffULL, .src = (uintptr_t)missing->page, .len = 4096};

		ioctl(one.fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static int begin_missing(struct missing *missing, char *of, size_t bytes, pthread_t *thread)
{
	struct uffdio_api version = {.api = UFFD_API};
	struct uffdio_register wanted = {.range = {(uintptr_t)of, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};

	missing->descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	missing->page = pages(4096);
	memset(missing->page, 'm', 4096);
	return missing->descriptor >= 0 && ioctl(missing->descriptor, UFFDIO_API, &version) == 0 &&
		ioctl(missing->descriptor, UFFDIO_REGISTER, &wanted) == 0 &&
		pthread_create(thread, NULL, bring_pages, missing) == 0;
}

static void in_missing_pages(void)
{
	const size_t bytes = (all_bytes() + 4095) & ~(size_t)4095;
	char *name = path("in"), *mine = memory(PART), *all = pages(bytes);
	struct missing missing = {.is_over = 0};
	pthread_t thread;
	int has_thread = 0;

	if (rank == 0) {
		make(name, all_bytes(), 1);
		has_thread = odd() && begin_missing(&missing, all, bytes, &thread);
		int fd = open(name, O_RDONLY);

		note_result("read", read(fd, all, all_bytes() - 20000));
		close(fd);
	}
	MPI_Scatter(all, PART, MPI_BYTE, mine, PART, MPI_BYTE, 0, MPI_COMM_WORLD);
	note_sum("mine", mine, PART);
	missing.is_over = 1;
	if (has_thread) {
		pthread_join(thread, NULL);
		close(missing.descriptor);
	}
	munmap(all, bytes);
	free(mine);
}

#define ROWS(name) {#name "_before", name##_before, 0}, {#name "_after", name##_after, 0},

const struct test memory_tests[] = {
	CHANGES(ROWS){"locked_before", locked_before, LASTS},
	{"locked_after", locked_after, LASTS},
	{"on_the_stack", on_the_stack, 0},
	{"in_a_static_array", in_a_static_array, 0},
	{"unaligned", unaligned, 0},
	{"among_others", among_others, 0},
	{"of_huge_pages", of_huge_pages, 0},
	{"in_shared_memory", in_shared_memory, 0},
	{"under_two_addresses", under_two_addresses, 0},
	{"in_a_shared_window", in_a_shared_window, LASTS},
	{"in_missing_pages", in_missing_pages, LASTS},
	{"freed_before", freed_before, 0},
	{"reallocated", reallocated, 0},
	{"closed_in_part", closed_in_part, 0},
	{NULL, NULL, 0},
};
