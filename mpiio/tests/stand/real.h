/* Replaces the header that is generated for each MPI: the originals behind the core. MPI's are NULL until a test sets
 * them; the C library's are its own. */
#ifndef HWIO_REAL_H
#define HWIO_REAL_H

#include <aio.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

/* clang-format off */
#define HWIO_STAND_MPI(X) \
	X(MPI_Abort) X(MPI_Allreduce) X(MPI_Barrier) X(MPI_Bcast) X(MPI_Bsend_init) X(MPI_Cancel) \
	X(MPI_Cartdim_get) X(MPI_Comm_call_errhandler) X(MPI_Comm_copy_attr_function) \
	X(MPI_Comm_create_errhandler) X(MPI_Comm_create_keyval) X(MPI_Comm_delete_attr_function) \
	X(MPI_Comm_disconnect) X(MPI_Comm_dup) X(MPI_Comm_free) X(MPI_Comm_get_attr) X(MPI_Comm_group) \
	X(MPI_Comm_rank) X(MPI_Comm_remote_size) X(MPI_Comm_set_attr) X(MPI_Comm_set_errhandler) \
	X(MPI_Comm_size) X(MPI_Comm_test_inter) X(MPI_Dist_graph_neighbors_count) \
	X(MPI_Error_class) X(MPI_File_close) X(MPI_File_create_errhandler) \
	X(MPI_File_get_position) X(MPI_File_open) \
	X(MPI_File_read) X(MPI_File_read_at) X(MPI_File_seek) \
	X(MPI_File_set_atomicity) X(MPI_File_set_size) X(MPI_File_set_view) \
	X(MPI_File_write) X(MPI_File_write_all) X(MPI_File_write_at) X(MPI_File_write_at_all) \
	X(MPI_Finalize) X(MPI_Gather) X(MPI_Gatherv) X(MPI_Get_count) X(MPI_Graph_neighbors_count) \
	X(MPI_Group_free) X(MPI_Group_translate_ranks) X(MPI_Iallreduce) X(MPI_Ibarrier) X(MPI_Ibcast) X(MPI_Igather) X(MPI_Igatherv) X(MPI_Improbe) X(MPI_Imrecv) \
	X(MPI_Init) X(MPI_Init_thread) X(MPI_Iprobe) X(MPI_Irecv) X(MPI_Isend) X(MPI_Isendrecv) \
	X(MPI_Iscatter) X(MPI_Iscatterv) X(MPI_Isendrecv_replace) X(MPI_Issend) X(MPI_Mprobe) \
	X(MPI_Mrecv) X(MPI_Pack) X(MPI_Probe) X(MPI_Query_thread) X(MPI_Recv) X(MPI_Recv_init) \
	X(MPI_Reduce) X(MPI_Request_free) X(MPI_Request_get_status) X(MPI_Request_get_status_all) \
	X(MPI_Request_get_status_any) X(MPI_Request_get_status_some) X(MPI_Rsend_init) X(MPI_Scatter) \
	X(MPI_Bsend) X(MPI_Ibsend) X(MPI_Irsend) X(MPI_Rsend) \
	X(MPI_Scatterv) X(MPI_Send) X(MPI_Send_init) X(MPI_Sendrecv) X(MPI_Sendrecv_replace) X(MPI_Ssend) \
	X(MPI_Ssend_init) X(MPI_Start) X(MPI_Startall) X(MPI_Status_set_elements_x) X(MPI_Test) \
	X(MPI_Test_cancelled) X(MPI_Testall) X(MPI_Testany) X(MPI_Testsome) X(MPI_Topo_test) \
	X(MPI_Type_commit) X(MPI_Type_contiguous) X(MPI_Type_create_struct) \
	X(MPI_Type_dup) X(MPI_Type_free) X(MPI_Type_get_contents) X(MPI_Type_get_envelope) \
	X(MPI_Type_get_extent) X(MPI_Type_get_true_extent) X(MPI_Type_size_x) X(MPI_Wait) X(MPI_Waitall) \
	X(MPI_Waitany) X(MPI_Waitsome) X(MPI_Win_create_errhandler)

#define HWIO_STAND_LIBC(X) \
	X(__fread_chk) X(__fread_unlocked_chk) X(__pread64_chk) X(__pread_chk) X(__read_chk) X(__sysv_signal) \
	X(close) X(fclose) X(fdatasync) X(flock) X(fopen) X(fread) X(free) X(fsync) X(ftruncate) X(fwrite) X(mincore) X(mlockall) \
	X(mmap) X(mprotect) X(mremap) X(munmap) X(open) X(pread) X(preadv) X(preadv2) X(process_vm_readv) \
	X(pthread_create) X(pthread_exit) X(pthread_sigmask) X(pwrite) X(pwritev) X(read) X(readv) X(recv) \
	X(recvmmsg) X(recvmsg) X(send) X(sendmmsg) X(sendmsg) X(setcontext) X(shmat) X(sigaction) X(signal) X(sigprocmask) \
	X(swapcontext) X(syscall) X(write) X(writev)
/* clang-format on */

/* Functions of the C library that are in none of its headers. */
ssize_t __read_chk(int descriptor, void *buffer, size_t bytes, size_t room);
ssize_t __pread_chk(int descriptor, void *buffer, size_t bytes, off_t offset, size_t room);
ssize_t __pread64_chk(int descriptor, void *buffer, size_t bytes, off64_t offset, size_t room);
size_t __fread_chk(void *buffer, size_t room, size_t size, size_t count, FILE *stream);
size_t __fread_unlocked_chk(void *buffer, size_t room, size_t size, size_t count, FILE *stream);

#define HWIO_STAND_FIELD(name) __typeof__(name) *name;

struct hwio_real {
	HWIO_STAND_MPI(HWIO_STAND_FIELD)
};
extern struct hwio_real hwio_real;

struct hwio_libc {
	HWIO_STAND_LIBC(HWIO_STAND_FIELD)
};
extern struct hwio_libc hwio_libc;

int hwio_close(int descriptor);
int hwio_dup2(int from, int to);
int hwio_dup3(int from, int to, int flags);
int hwio_fcntl(int descriptor, int command, void *argument);
int hwio_pkey_mprotect(void *address, size_t bytes, int protection, int key);
sighandler_t hwio___sysv_signal(int number, sighandler_t handler);
bool hwio_bind_real(void *libmpi, void *(*next)(const char *name));

#endif
