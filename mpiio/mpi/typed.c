#include "mpi/typed.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"

#define CHUNK_BYTES (1 << 20)

/* Held from the sending of a message to this rank itself until it is matched, so that no other thread receives it. */
static pthread_mutex_t to_itself = PTHREAD_MUTEX_INITIALIZER;

/* A number of bytes, as a count and a type. */
struct plain {
	int count;
	MPI_Datatype type;
	bool is_made;
};

static int make_plain_type(size_t bytes, struct plain *plain)
{
	*plain = (struct plain){(int)bytes, MPI_BYTE, false};
	MPI_Datatype chunk;
	if (bytes <= INT_MAX)
		return MPI_SUCCESS;
	int result = hwio_real.MPI_Type_contiguous(CHUNK_BYTES, MPI_BYTE, &chunk);
	if (result != MPI_SUCCESS)
		return result;
	size_t rest = bytes % CHUNK_BYTES;
	int counts[2] = {(int)(bytes / CHUNK_BYTES), (int)rest};
	MPI_Aint displacements[2] = {0, (MPI_Aint)(bytes - rest)};
	MPI_Datatype types[2] = {chunk, MPI_BYTE};
	*plain = (struct plain){.count = 1, .is_made = true};
	result = hwio_real.MPI_Type_create_struct(2, counts, displacements, types, &plain->type);
	hwio_real.MPI_Type_free(&chunk);
	return result == MPI_SUCCESS ? hwio_real.MPI_Type_commit(&plain->type) : result;
}

static void free_plain(struct plain *plain)
{
	if (plain->is_made)
		hwio_real.MPI_Type_free(&plain->type);
}

/* Copies between a typed buffer and bytes. */
static int copy(const void *from, int from_count, MPI_Datatype from_type, void *to, int to_count, MPI_Datatype to_type)
{
	pthread_mutex_lock(&to_itself);
	int result = hwio_real.MPI_Sendrecv(from, from_count, from_type, hwio_rank, HWIO_TAG_SELF, to, to_count,
		to_type, hwio_rank, HWIO_TAG_SELF, hwio_control, MPI_STATUS_IGNORE);
	pthread_mutex_unlock(&to_itself);
	return result;
}

int hwio_typed_read(const void *buffer, MPI_Count count, MPI_Datatype type, void *to, size_t bytes)
{
	struct plain plain;
	size_t element_bytes = hwio_type_bytes(1, type);
	/* As many elements as these bytes touch; the last one is copied whole. */
	MPI_Count used = element_bytes ? (MPI_Count)((bytes + element_bytes - 1) / element_bytes) : 0;
	used = used < count ? used : count;
	size_t length = element_bytes * (size_t)used;
	char *all = length > bytes ? malloc(length) : to;
	hwio_step_in();
	int result = all && used <= INT_MAX ? make_plain_type(length, &plain) : MPI_ERR_OTHER;
	if (result == MPI_SUCCESS) {
		result = copy(buffer, (int)used, type, all, plain.count, plain.type);
		free_plain(&plain);
	}
	hwio_step_out();
	if (result == MPI_SUCCESS && all != to)
		memcpy(to, all, bytes);
	if (all != to)
		free(all);
	return result;
}

int hwio_typed_write(void *buffer, MPI_Count count, MPI_Datatype type, const void *from, size_t bytes)
{
	struct plain plain;
	hwio_step_in();
	int result = make_plain_type(bytes, &plain);
	if (result == MPI_SUCCESS) {
		result = copy(from, plain.count, plain.type, buffer, (int)count, type);
		free_plain(&plain);
	}
	hwio_step_out();
	return result;
}

void hwio_typed_done(MPI_Request *request)
{
	MPI_Request sending;
	hwio_step_in();
	pthread_mutex_lock(&to_itself);
	hwio_real.MPI_Isend(NULL, 0, MPI_BYTE, hwio_rank, HWIO_TAG_SELF, hwio_control, &sending);
	hwio_real.MPI_Irecv(NULL, 0, MPI_BYTE, hwio_rank, HWIO_TAG_SELF, hwio_control, request);
	pthread_mutex_unlock(&to_itself);
	hwio_real.MPI_Wait(&sending, MPI_STATUS_IGNORE);
	hwio_step_out();
}

void hwio_typed_message(MPI_Message *message)
{
	MPI_Request sending;
	hwio_step_in();
	pthread_mutex_lock(&to_itself);
	hwio_real.MPI_Isend(NULL, 0, MPI_BYTE, hwio_rank, HWIO_TAG_SELF, hwio_control, &sending);
	hwio_real.MPI_Mprobe(hwio_rank, HWIO_TAG_SELF, hwio_control, message, MPI_STATUS_IGNORE);
	pthread_mutex_unlock(&to_itself);
	hwio_real.MPI_Request_free(&sending);
	hwio_step_out();
}
