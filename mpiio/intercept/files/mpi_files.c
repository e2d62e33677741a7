/* MPI's own file calls. Those with an individual pointer, on contiguous bytes, are treated as reads and writes of
 * the file's descriptor. All others complete what is deferred first. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "intercept/files/change.h"
#include "intercept/files/instead.h"
#include "intercept/generated-calls.h"
#include "mpi/control.h"
#include "transfer/incoming.h"
#include "real.h"

/* An open file of the program. */
struct opened {
	MPI_File file;
	/* The engine's own, to the same file; -1: operations aren't examined. */
	int descriptor;
	/* True if positions are bytes. */
	bool is_plain;
	struct opened *next;
};

static struct opened *opened_list;

static struct opened *opened_of(MPI_File file)
{
	struct opened *one = opened_list;
	while (one && one->file != file)
		one = one->next;
	return one;
}

/* "ufs:/path" names the file system driver first. */
static const char *path_of(const char *name)
{
	const char *colon = strchr(name, ':'), *slash = strchr(name, '/');
	return colon && (!slash || colon < slash) && colon - name > 1 ? colon + 1 : name;
}

int hwio_MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file)
{
	if (hwio_depth > 0 || hwio_mode == HWIO_OFF)
		return hwio_real.MPI_File_open(comm, name, mode, info, file);
	if (hwio_is_busy) {
		hwio_communicates();
		if (mode & (MPI_MODE_WRONLY | MPI_MODE_RDWR))
			hwio_before_change_of(path_of(name), AT_FDCWD);
	}
	hwio_step_in();
	int result = hwio_real.MPI_File_open(comm, name, mode, info, file);
	/* Synchronizes the ranks: all complete their deferred reads before any rank writes. */
	if (hwio_comm_of(comm))
		hwio_real.MPI_Barrier(comm);
	struct opened *one = result == MPI_SUCCESS ? calloc(1, sizeof(*one)) : NULL;
	if (one) {
		int flags = mode & MPI_MODE_RDONLY ? O_RDONLY : mode & MPI_MODE_WRONLY ? O_WRONLY : O_RDWR;
		bool is_strange = mode & (MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_SEQUENTIAL);
		int low = is_strange ? -1 : hwio_libc.open(path_of(name), flags | O_CLOEXEC, 0);
		*one = (struct opened){*file, low, low >= 0, opened_list};
		opened_list = one;
	}
	hwio_step_out();
	return result;
}

void hwio_before_file_close(MPI_File file)
{
	struct opened *one = hwio_depth == 0 && hwio_mode != HWIO_OFF ? opened_of(file) : NULL;
	if (one) {
		struct opened **link = &opened_list;
		while (*link != one)
			link = &(*link)->next;
		*link = one->next;
		if (one->descriptor >= 0)
			hwio_libc.close(one->descriptor);
		free(one);
	}
}

void hwio_note_view(MPI_File file, bool is_strange)
{
	struct opened *one = hwio_depth == 0 ? opened_of(file) : NULL;
	if (one && is_strange)
		one->is_plain = false;
}

void hwio_before_file_change(MPI_File file)
{
	struct opened *one = hwio_is_busy && hwio_depth == 0 ? opened_of(file) : NULL;
	if (one && one->descriptor >= 0)
		hwio_before_change(one->descriptor, 0, INT64_MAX);
}

void hwio_after_file_change(MPI_File file)
{
	struct opened *one = hwio_is_busy && hwio_depth == 0 ? opened_of(file) : NULL;
	if (one && one->descriptor >= 0)
		hwio_after_change(one->descriptor);
}

/* Returns the buffer's one block of memory if it is large; NULL if it isn't, or has several. */
static void *contiguous(const void *buffer, int count, MPI_Datatype type, size_t *bytes)
{
	struct hwio_layout layout;
	void *memory = NULL;
	*bytes = hwio_type_bytes(count, type);
	if (!hwio_examines(*bytes))
		return NULL;
	hwio_step_in();
	if (hwio_layout_make(&layout, buffer, count, type)) {
		if (layout.count == 1)
			memory = layout.buffer + layout.blocks[0].at;
		hwio_layout_free(&layout);
	}
	hwio_step_out();
	return memory;
}

static void set_status(MPI_Status *status, size_t bytes)
{
	if (status != MPI_STATUS_IGNORE)
		hwio_real.MPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
}

static bool read_instead(MPI_File file, MPI_Offset offset, void *buffer, int count, MPI_Datatype type,
	MPI_Status *status)
{
	struct opened *one = opened_of(file);
	size_t bytes;
	ssize_t got;
	if (!one || !one->is_plain || one->descriptor < 0)
		return false;
	void *memory = contiguous(buffer, count, type, &bytes);
	if (!memory || !hwio_read_instead(one->descriptor, memory, bytes, offset, NULL, &got) || (size_t)got != bytes)
		return false;
	set_status(status, (size_t)got);
	return true;
}

static bool write_instead(MPI_File file, MPI_Offset offset, const void *buffer, int count, MPI_Datatype type,
	MPI_Status *status)
{
	struct opened *one = opened_of(file);
	size_t bytes;
	ssize_t written;
	if (!one || one->descriptor < 0 || !hwio_is_busy)
		return false;
	void *memory = one->is_plain ? contiguous(buffer, count, type, &bytes) : NULL;
	if (memory && hwio_write_instead(one->descriptor, memory, bytes, offset, &written) &&
		(size_t)written == bytes) {
		set_status(status, (size_t)written);
		return true;
	}
	hwio_uses(buffer, count, type);
	hwio_before_change(one->descriptor, 0, INT64_MAX);
	return false;
}

int hwio_MPI_File_read_at(MPI_File file, MPI_Offset offset, void *buffer, int count, MPI_Datatype type,
	MPI_Status *status)
{
	if (hwio_depth == 0 && hwio_mode != HWIO_OFF && read_instead(file, offset, buffer, count, type, status))
		return MPI_SUCCESS;
	if (hwio_is_busy && hwio_depth == 0)
		hwio_uses(buffer, count, type);
	return HWIO_INSIDE(hwio_real.MPI_File_read_at(file, offset, buffer, count, type, status));
}

int hwio_MPI_File_read(MPI_File file, void *buffer, int count, MPI_Datatype type, MPI_Status *status)
{
	MPI_Offset position = 0;
	bool is_known = hwio_depth == 0 && hwio_mode != HWIO_OFF && opened_of(file) &&
		HWIO_INSIDE(hwio_real.MPI_File_get_position(file, &position)) == MPI_SUCCESS;
	if (is_known && read_instead(file, position, buffer, count, type, status)) {
		position += (MPI_Offset)hwio_type_bytes(count, type);
		HWIO_INSIDE(hwio_real.MPI_File_seek(file, position, MPI_SEEK_SET));
		return MPI_SUCCESS;
	}
	if (hwio_is_busy && hwio_depth == 0)
		hwio_uses(buffer, count, type);
	return HWIO_INSIDE(hwio_real.MPI_File_read(file, buffer, count, type, status));
}

int hwio_MPI_File_write_at(MPI_File file, MPI_Offset offset, const void *buffer, int count, MPI_Datatype type,
	MPI_Status *status)
{
	if (hwio_depth == 0 && hwio_mode != HWIO_OFF && write_instead(file, offset, buffer, count, type, status))
		return MPI_SUCCESS;
	if (hwio_is_busy && hwio_depth == 0)
		hwio_uses(buffer, count, type);
	int result = HWIO_INSIDE(hwio_real.MPI_File_write_at(file, offset, buffer, count, type, status));
	hwio_after_file_change(file);
	return result;
}

int hwio_MPI_File_write(MPI_File file, const void *buffer, int count, MPI_Datatype type, MPI_Status *status)
{
	MPI_Offset position = 0;
	bool is_known = hwio_depth == 0 && hwio_is_busy && opened_of(file) &&
		HWIO_INSIDE(hwio_real.MPI_File_get_position(file, &position)) == MPI_SUCCESS;
	if (is_known && write_instead(file, position, buffer, count, type, status)) {
		position += (MPI_Offset)hwio_type_bytes(count, type);
		HWIO_INSIDE(hwio_real.MPI_File_seek(file, position, MPI_SEEK_SET));
		return MPI_SUCCESS;
	}
	if (hwio_is_busy && hwio_depth == 0)
		hwio_uses(buffer, count, type);
	int result = HWIO_INSIDE(hwio_real.MPI_File_write(file, buffer, count, type, status));
	hwio_after_file_change(file);
	return result;
}
