/* Memory that the program gives back, moves or maps anew: nothing is put off there any more. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "../files/change.h"
#include "../generated-calls.h"
#include "../patterns/incoming.h"
#include "private.h"
#include "real.h"
#include "records.h"

static bool may_concern(const void *memory)
{
	return hw_is_busy && hw_depth == 0 && memory &&
	       ((uintptr_t)memory < hw_records_high || hw_incoming_any());
}

void hw_free(void *memory)
{
	if (__builtin_expect(may_concern(memory), 0)) {
		int saved = errno;
		size_t bytes = malloc_usable_size(memory);
		if (hw_may_be_recorded((uintptr_t)memory, (uintptr_t)memory + bytes) || hw_incoming_any())
			hw_use_gone(memory, bytes);
		errno = saved;
	}
	hw_libc.free(memory);
}

static void before_realloc(void *memory)
{
	if (may_concern(memory)) {
		int saved = errno;
		hw_use_in(memory, malloc_usable_size(memory));
		hw_use_gone_records(memory, malloc_usable_size(memory));
		errno = saved;
	}
}

void *hw_realloc(void *memory, size_t bytes)
{
	before_realloc(memory);
	return hw_libc.realloc(memory, bytes);
}

void *hw_reallocarray(void *memory, size_t count, size_t size)
{
	before_realloc(memory);
	return hw_libc.reallocarray(memory, count, size);
}

void hw_before_mapping(void *address, size_t bytes, int protection, int flags, int descriptor)
{
	struct stat status;
	if (hw_mode == HW_OFF || hw_depth > 0)
		return;
	int saved = errno;
	if ((flags & MAP_TYPE) != MAP_PRIVATE || (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)))
		hw_private_forget();
	if ((flags & MAP_FIXED) && hw_is_busy)
		hw_use_gone(address, bytes);
	/* What is stored there changes the file without a call. */
	if ((flags & MAP_TYPE) != MAP_PRIVATE && (protection & PROT_WRITE) && descriptor >= 0 &&
	    fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
		hw_file_ban(&status);
		hw_before_change(descriptor, 0, INT64_MAX);
	}
	errno = saved;
}

void *hw_mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
	hw_before_mapping(address, bytes, protection, flags, descriptor);
	return hw_libc.mmap(address, bytes, protection, flags, descriptor, offset);
}

void *hw_mmap64(void *address, size_t bytes, int protection, int flags, int descriptor, off64_t offset)
{
	hw_before_mapping(address, bytes, protection, flags, descriptor);
	return hw_libc.mmap64(address, bytes, protection, flags, descriptor, offset);
}

static void give_pages(void *address, size_t bytes)
{
	uintptr_t low = hw_page_down((uintptr_t)address), high = hw_page_up((uintptr_t)address + bytes);
	int saved = errno;
	hw_private_forget();
	if (hw_is_busy && hw_depth == 0)
		hw_use_gone((void *)low, high - low);
	errno = saved;
}

int hw_munmap(void *address, size_t bytes)
{
	give_pages(address, bytes);
	/* Of an address within a page nothing is unmapped. */
	if (hw_depth == 0 && (uintptr_t)address % HW_PAGE_BYTES == 0)
		hw_private_gone((uintptr_t)address, hw_page_up((uintptr_t)address + bytes));
	return hw_libc.munmap(address, bytes);
}

void *hw_mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, void *new_address)
{
	if (hw_is_busy && hw_depth == 0) {
		int saved = errno;
		hw_use_in(address, old_bytes);
		hw_use_gone_records(address, old_bytes);
		if (flags & MREMAP_FIXED)
			hw_use_gone(new_address, new_bytes);
		errno = saved;
	}
	hw_private_forget();
	return hw_libc.mremap(address, old_bytes, new_bytes, flags, new_address);
}

int hw_madvise(void *address, size_t bytes, int advice)
{
	bool takes_content = advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
	if (takes_content && hw_is_busy)
		give_pages(address, bytes);
	return hw_libc.madvise(address, bytes, advice);
}

static void before_protection(void *address, size_t bytes)
{
	if (hw_is_busy && hw_depth == 0) {
		int saved = errno;
		hw_use_in(address, bytes);
		errno = saved;
	}
	hw_private_forget();
}

int hw_mprotect(void *address, size_t bytes, int protection)
{
	before_protection(address, bytes);
	return hw_libc.mprotect(address, bytes, protection);
}

int hw_pkey_mprotect(void *address, size_t bytes, int protection, int key)
{
	before_protection(address, bytes);
	return hw_libc.pkey_mprotect(address, bytes, protection, key);
}

void *hw_shmat(int segment, const void *address, int flags)
{
	hw_private_forget();
	return hw_libc.shmat(segment, address, flags);
}

int hw_shmdt(const void *address)
{
	hw_private_forget();
	return hw_libc.shmdt(address);
}

/* The kernel, or the C library, is at this memory from now on. */
static void before_lasting(const void *address, size_t bytes)
{
	if (hw_mode == HW_OFF || hw_depth > 0)
		return;
	int saved = errno;
	hw_use_in(address, bytes);
	hw_private_exclude(address, bytes);
	errno = saved;
}

int hw_mlock(const void *address, size_t bytes)
{
	before_lasting(address, bytes);
	return hw_libc.mlock(address, bytes);
}

int hw_mlock2(const void *address, size_t bytes, unsigned int flags)
{
	before_lasting(address, bytes);
	return hw_libc.mlock2(address, bytes, flags);
}

int hw_mlockall(int flags)
{
	hw_settle_everything();
	if (hw_mode != HW_OFF && hw_depth == 0)
		hw_private_exclude(NULL, UINTPTR_MAX);
	return hw_libc.mlockall(flags);
}

/* A stream's buffer: what the C library reads into it and writes from it is seen by nobody. */
static void before_buffer(void *buffer, size_t bytes)
{
	if (buffer)
		before_lasting(buffer, bytes);
}

int hw_setvbuf(FILE *stream, char *buffer, int mode, size_t bytes)
{
	before_buffer(buffer, bytes);
	return hw_libc.setvbuf(stream, buffer, mode, bytes);
}

void hw_setbuffer(FILE *stream, char *buffer, size_t bytes)
{
	before_buffer(buffer, bytes);
	hw_libc.setbuffer(stream, buffer, bytes);
}

void hw_setbuf(FILE *stream, char *buffer)
{
	before_buffer(buffer, BUFSIZ);
	hw_libc.setbuf(stream, buffer);
}
