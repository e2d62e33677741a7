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

/* Of the calls that a program makes by number, those that may change a file or begin a process. */
static bool changes_files(long number)
{
	static const long changing[] = {
		SYS_write,     SYS_pwrite64, SYS_writev,   SYS_pwritev,	      SYS_pwritev2,  SYS_ftruncate, SYS_truncate,
		SYS_fallocate, SYS_openat,   SYS_sendfile, SYS_copy_file_range, SYS_splice, SYS_clone,	    SYS_execve,
		SYS_execveat,  SYS_clone3,   SYS_exit_group, SYS_io_uring_enter, SYS_io_submit,
#ifdef SYS_open
		SYS_open,      SYS_creat,    SYS_fork,	   SYS_vfork,
#endif
	};
	for (size_t i = 0; i < sizeof(changing) / sizeof(*changing); i++)
		if (number == changing[i])
			return true;
	return false;
}

static bool is_put_off(uintptr_t low, uintptr_t high)
{
	hw_enter();
	const struct hw_record *record = hw_record_at(hw_record_find(low));
	bool is_any = low < high && ((record && record->low < high) || hw_incoming_overlaps(low, high));
	hw_leave();
	return is_any;
}

/*
 * Whether a call by number takes or changes memory of which something is put off. MPI libraries that watch the memory
 * make the calls of malloc itself so, which holds its lock, and whose memory has nothing put off any more.
 */
static bool takes_put_off(long number, const long arguments[])
{
	uintptr_t low = (uintptr_t)arguments[0], bytes = (uintptr_t)arguments[1];
	switch (number) {
	case SYS_munmap:
	case SYS_madvise:
	case SYS_mprotect:
		return is_put_off(low, low + bytes);
	case SYS_mremap:
		return is_put_off(low, low + bytes) ||
		       (arguments[3] & MREMAP_FIXED &&
			is_put_off((uintptr_t)arguments[4], (uintptr_t)arguments[4] + (uintptr_t)arguments[2]));
	case SYS_mmap:
		return !(arguments[3] & MAP_ANONYMOUS) || (arguments[3] & MAP_FIXED && is_put_off(low, low + bytes));
	default:
		return is_put_off(low, (uintptr_t)hw_libc.syscall(SYS_brk, 0, 0, 0, 0, 0, 0));
	}
}

static bool is_of_memory(long number)
{
	return number == SYS_brk || number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||
	       number == SYS_madvise || number == SYS_mprotect;
}

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

static void before_mapping(void *address, size_t bytes, int protection, int flags, int descriptor)
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
	before_mapping(address, bytes, protection, flags, descriptor);
	return hw_libc.mmap(address, bytes, protection, flags, descriptor, offset);
}

void *hw_mmap64(void *address, size_t bytes, int protection, int flags, int descriptor, off64_t offset)
{
	before_mapping(address, bytes, protection, flags, descriptor);
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

int hw_mprotect(void *address, size_t bytes, int protection)
{
	if (hw_is_busy && hw_depth == 0) {
		int saved = errno;
		hw_use_in(address, bytes);
		errno = saved;
	}
	hw_private_forget();
	return hw_libc.mprotect(address, bytes, protection);
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

/* Locked memory is to be there, and stays so. */
static void before_lock(const void *address, size_t bytes)
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
	before_lock(address, bytes);
	return hw_libc.mlock(address, bytes);
}

int hw_mlock2(const void *address, size_t bytes, unsigned int flags)
{
	before_lock(address, bytes);
	return hw_libc.mlock2(address, bytes, flags);
}

int hw_mlockall(int flags)
{
	hw_settle_everything();
	if (hw_mode != HW_OFF && hw_depth == 0)
		hw_private_exclude(NULL, UINTPTR_MAX);
	return hw_libc.mlockall(flags);
}

/* Of other calls it isn't looked at what they do: an argument may point at anything near. */
static bool points_near(const long arguments[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uintptr_t low = (uintptr_t)arguments[i];
		if (hw_may_be_recorded(hw_page_down(low), hw_page_up(low + 1)))
			return true;
	}
	return false;
}

long hw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (is_of_memory(number))
		hw_private_forget();
	if (hw_is_busy && hw_depth == 0) {
		int saved = errno;
		const long arguments[] = {a, b, c, d, e, f};
		if (is_of_memory(number) ? takes_put_off(number, arguments)
					 : changes_files(number) || points_near(arguments, 6))
			hw_settle_everything();
		errno = saved;
	}
	return hw_libc.syscall(number, a, b, c, d, e, f);
}
