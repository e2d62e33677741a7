/* An MPI program: all of its calls reach the variant with all of their arguments, and so do those of libc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traced.h"

/* Open MPI has them since 6, MPICH since 4. */
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 6
#define HAS_LARGE 0
#else
#define HAS_LARGE 1
#endif

static void point_to_point(void)
{
	int sent = 17, received = 0;
	MPI_Request request;

	MPI_Irecv(&received, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request);
	MPI_Send(&sent, 1, MPI_INT, 0, 3, MPI_COMM_SELF);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	CHECK(received == 17 && traced("MPI_Send") == 1 && traced("MPI_Irecv") == 1 && traced("MPI_Wait") == 1);
	CHECK(traced("hwio_uses") == 2);

	/* The Fortran bindings of Open MPI call these. */
	PMPI_Irecv(&received, 1, MPI_INT, 0, 4, MPI_COMM_SELF, &request);
	PMPI_Ssend(&sent, 1, MPI_INT, 0, 4, MPI_COMM_SELF);
	PMPI_Wait(&request, MPI_STATUS_IGNORE);
	CHECK(traced("MPI_Ssend") == 1 && traced("MPI_Irecv") == 2 && traced("MPI_Wait") == 2);

	/* Twelve arguments: half of them on the stack. */
	int there = 1, back = 0;
	MPI_Status status;
	MPI_Sendrecv(&there, 1, MPI_INT, 0, 5, &back, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &status);
	CHECK(back == 1 && status.MPI_TAG == 5 && traced("MPI_Sendrecv") == 1);

	CHECK(MPI_Send_init(&sent, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &request) == MPI_SUCCESS);
	MPI_Request_free(&request);
	CHECK(traced("MPI_Send_init") == 1 && traced("MPI_Request_free") == 1);
}

static void collectives(void)
{
	int value = 3, other = 0, one = 1, none = 0;
	MPI_Datatype type = MPI_INT;

	int before = traced("hwio_uses");
	MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	CHECK(other == 3 && traced("hwio_uses") == before + 2);

	other = 0;
	MPI_Alltoallw(&value, &one, &none, &type, &other, &one, &none, &type, MPI_COMM_SELF);
	CHECK(other == 3 && traced("hwio_uses_w") == 2);
	other = 0;
	MPI_Request request;
	MPI_Ialltoallw(&value, &one, &none, &type, &other, &one, &none, &type, MPI_COMM_SELF, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	CHECK(other == 3 && traced("hwio_uses_w") == 4);
	before = traced("hwio_uses");
	MPI_Gather(&value, 1, MPI_INT, &other, 1, MPI_INT, 0, MPI_COMM_SELF);
	CHECK(other == 3 && traced("hwio_uses") == before + 2 && traced("hwio_communicates") > 0);
	MPI_Reduce_scatter(&value, &other, &one, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	CHECK(other == 3 && traced("hwio_uses_sum") == 2);
}

static void memory(void)
{
	void *base = NULL;
	MPI_Win window;

	CHECK(MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &window) == MPI_SUCCESS);
	CHECK(base != NULL && traced("hwio_allocated") == 1);
	MPI_Win_free(&window);
	CHECK(MPI_Alloc_mem(4096, MPI_INFO_NULL, &base) == MPI_SUCCESS);
	MPI_Free_mem(base);
	CHECK(traced("hwio_freed") == 1);
	free(realloc(malloc(100), 100000));
	CHECK(traced("free") > 0 && traced("realloc") > 0);
}

/* Functions of MPI 4: they exist if the MPI has them, and then reach the variant, however they are found. */
int MPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) __attribute__((weak));
int PMPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) __attribute__((weak));

static void later_functions(void)
{
	int value = 3;
	int (*found)(void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
	Dl_info where;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_library_version"), &where) != 0);
	void *libmpi = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	CHECK(libmpi != NULL);
	*(void **)&found = dlsym(libmpi, "MPI_Bcast_c");
	CHECK((found != NULL) == HAS_LARGE && (MPI_Bcast_c != NULL) == HAS_LARGE &&
		(PMPI_Bcast_c != NULL) == HAS_LARGE);
	CHECK((dlsym(RTLD_DEFAULT, "PMPI_Bcast_c") != NULL) == HAS_LARGE);
	if (HAS_LARGE) {
		CHECK(MPI_Bcast_c(&value, 1, MPI_INT, 0, MPI_COMM_SELF) == MPI_SUCCESS && traced("MPI_Bcast_c") == 1);
		CHECK(PMPI_Bcast_c(&value, 1, MPI_INT, 0, MPI_COMM_SELF) == MPI_SUCCESS && traced("MPI_Bcast_c") == 2);
		CHECK(found(&value, 1, MPI_INT, 0, MPI_COMM_SELF) == MPI_SUCCESS && traced("MPI_Bcast_c") == 3);
	}
}

/* A look-up from a handle, as in some languages, returns the variant's function. */
static void lookups(void)
{
	int (*barrier)(MPI_Comm), before = traced("MPI_Barrier"), writes = traced("write");
	ssize_t (*put)(int, const void *, size_t);
	Dl_info where;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_library_version"), &where) != 0);
	void *libmpi = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD),
	     *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	CHECK(libmpi != NULL && libc != NULL);
	*(void **)&barrier = dlsym(libmpi, "MPI_Barrier");
	CHECK(barrier(MPI_COMM_SELF) == MPI_SUCCESS && traced("MPI_Barrier") == before + 1);
	*(void **)&barrier = dlsym(libmpi, "PMPI_Barrier");
	CHECK(barrier(MPI_COMM_SELF) == MPI_SUCCESS && traced("MPI_Barrier") == before + 2);
	*(void **)&put = dlsym(libc, "write");
	CHECK(put(STDOUT_FILENO, "", 0) == 0 && traced("write") == writes + 1);
}

static bool is_of_variant(void *function)
{
	Dl_info where;
	return dladdr(function, &where) != 0 && strstr(where.dli_fname, "/mpiio-") != NULL;
}

/* Addresses as plug-ins store them: in writable memory beside read-only memory. */
static void *volatile addresses[] = {(void *)MPI_Send, (void *)MPI_Ssend, (void *)MPI_Wait, (void *)PMPI_Wait};

/* Calls by a symbol reach the variant without the front, whether they are bound before MPI_Init or after it. */
static void bindings(void)
{
	for (size_t at = 0; at < sizeof(addresses) / sizeof(addresses[0]); at++)
		CHECK(is_of_variant(addresses[at]));
	CHECK(is_of_variant((void *)MPI_Send) && is_of_variant((void *)PMPI_Wait));
	CHECK(is_of_variant(dlsym(RTLD_DEFAULT, "MPI_Recv")) && is_of_variant(dlsym(RTLD_DEFAULT, "PMPI_Probe")));
}

static void processes(void)
{
	int status, descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int before = traced("execve"), forks = traced("fork");

	CHECK(descriptor >= 0 && traced("open") > 0 && fcntl(descriptor, F_GETFD) == FD_CLOEXEC && traced("fcntl") > 0);
	pid_t child = vfork();
	if (child == 0) {
		execle("/bin/sh", "sh", "-c", "exit $X", (char *)NULL, (char *[]){"X=23", NULL});
		_exit(1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 23);
	CHECK(traced("vfork") == 1 && traced("execve") == before + 1 && traced("fork") == forks);
}

int main(int count, char **arguments)
{
	MPI_Init(&count, &arguments);
	CHECK(traced("MPI_Init") == 1);
	point_to_point();
	collectives();
	memory();
	later_functions();
	lookups();
	bindings();
	processes();
	MPI_Finalize();
	CHECK(traced("MPI_Finalize") == 1);
	return 0;
}
