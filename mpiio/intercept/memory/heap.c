/* Memory that the program frees, moves or remaps: nothing is deferred there any longer. */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "base/context.h"
#include "base/left.h"
#include "memory/mapped.h"
#include "memory/records.h"
#include "mpi/control.h"
#include "mpi/model.h"
#include "transfer/incoming.h"

static bool may_concern(const void *memory)
{
	return hwio_is_busy && hwio_depth == 0 && memory &&
		((uintptr_t)memory < hwio_records_high || hwio_incoming_any());
}

void hwio_free(void *memory)
{
	if (__builtin_expect(may_concern(memory), 0)) {
		int saved = errno;
		size_t bytes = malloc_usable_size(memory);
		if (hwio_may_be_recorded((uintptr_t)memory, (uintptr_t)memory + bytes) || hwio_incoming_any())
			hwio_use_out(memory, bytes);
		errno = saved;
	}
	hwio_libc.free(memory);
}

/* The memory may be moved or replaced, or stay as it is if the call fails: it is filled, and nothing known of it. */
static void before_replacement(void *memory, size_t bytes)
{
	int saved = errno;
	hwio_use_in(memory, bytes);
	hwio_forget_records(memory, bytes);
	errno = saved;
}

void hwio_before_realloc(void *memory)
{
	if (may_concern(memory))
		before_replacement(memory, malloc_usable_size(memory));
}

void hwio_before_mapping(void *address, size_t bytes, int protection, int flags, int descriptor)
{
	struct stat status;
	if (hwio_mode == HWIO_OFF || hwio_depth > 0)
		return;
	int saved = errno;
	if ((flags & MAP_TYPE) != MAP_PRIVATE || (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)))
		hwio_memory_map_forget();
	if ((flags & MAP_FIXED) && hwio_is_busy)
		before_replacement(address, bytes);
	/* Stores to the mapping change the file without a call. */
	if ((flags & MAP_TYPE) != MAP_PRIVATE && (protection & PROT_WRITE) && descriptor >= 0 &&
		hwio_status_untimed(descriptor, NULL, &status) && S_ISREG(status.st_mode)) {
		hwio_file_ban(&status);
		hwio_before_change(descriptor, 0, INT64_MAX);
	}
	errno = saved;
}

void hwio_after_mapping(void *mapped, size_t bytes, int protection, int flags, int descriptor, off_t offset,
	const void *caller)
{
	if (mapped == MAP_FAILED || descriptor < 0 || (flags & MAP_ANONYMOUS) || !(protection & PROT_READ) ||
		!hwio_examines(bytes))
		return;
	int saved = errno;
	if (hwio_model_scatter_gain(bytes, hwio_ranks) <= 0)
		hwio_left_mapped(descriptor, mapped, (ssize_t)bytes, HWIO_LEFT_SMALL_FILE);
	else if ((protection & PROT_WRITE) && (flags & MAP_TYPE) != MAP_PRIVATE)
		hwio_left_mapped(descriptor, mapped, (ssize_t)bytes, HWIO_LEFT_OPENED);
	else
		hwio_mapped_note(mapped, bytes, descriptor, offset, hwio_context_of(HWIO_OP_READ, caller));
	errno = saved;
}

void *hwio_mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
	hwio_before_mapping(address, bytes, protection, flags, descriptor);
	void *mapped = hwio_libc.mmap(address, bytes, protection, flags, descriptor, offset);
	hwio_after_mapping(mapped, bytes, protection, flags, descriptor, offset, __builtin_return_address(0));
	return mapped;
}

void *hwio_mmap64(void *address, size_t bytes, int protection, int flags, int descriptor, off64_t offset)
{
	return hwio_mmap(address, bytes, protection, flags, descriptor, offset);
}

int hwio_munmap(void *address, size_t bytes)
{
	int saved = errno;
	hwio_memory_map_forget();
	if (hwio_depth == 0) {
		/* The kernel refuses an address within a page. */
		bool is_refused = (uintptr_t)address % hwio_page_bytes != 0;
		if (hwio_is_busy && is_refused)
			hwio_use_in(address, bytes);
		else if (hwio_is_busy)
			hwio_use_out(address, bytes);
		if (!is_refused)
			hwio_memory_map_unmapped((uintptr_t)address, hwio_page_up((uintptr_t)address + bytes));
		hwio_mapped_forget((uintptr_t)address, (uintptr_t)address + bytes);
	}
	errno = saved;
	return hwio_libc.munmap(address, bytes);
}

void *hwio_mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, void *new_address)
{
	if (hwio_is_busy && hwio_depth == 0) {
		before_replacement(address, old_bytes);
		if (flags & MREMAP_FIXED)
			before_replacement(new_address, new_bytes);
	}
	hwio_memory_map_forget();
	return hwio_libc.mremap(address, old_bytes, new_bytes, flags, new_address);
}

/* Returns true for advice that neither reads the content nor changes it, here or in a child. What a newer kernel adds
 * may do either. */
static bool is_hint(int advice)
{
	static const int hints[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_MERGEABLE,
		MADV_UNMERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP};
	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++)
		if (advice == hints[i])
			return true;
	return false;
}

void hwio_before_advice(void *address, size_t bytes, int advice)
{
	if (hwio_is_busy && hwio_depth == 0 && !is_hint(advice))
		before_replacement(address, bytes);
}

void hwio_before_protection(void *address, size_t bytes)
{
	if (hwio_is_busy && hwio_depth == 0) {
		int saved = errno;
		hwio_use_in(address, bytes);
		errno = saved;
	}
	hwio_memory_map_forget();
}

void *hwio_shmat(int segment, const void *address, int flags)
{
	if ((flags & SHM_REMAP) && hwio_is_busy && hwio_depth == 0)
		hwio_in_all(address);
	hwio_memory_map_forget();
	return hwio_libc.shmat(segment, address, flags);
}

void hwio_before_persistent(const void *address, size_t bytes)
{
	if (hwio_mode == HWIO_OFF || hwio_depth > 0)
		return;
	int saved = errno;
	hwio_use_in(address, bytes);
	hwio_memory_map_exclude(address, bytes);
	errno = saved;
}

void hwio_before_request(unsigned long request, void *argument)
{
	if (hwio_is_busy && hwio_depth == 0)
		hwio_kernel_uses(argument, HWIO_UNSIZED_BYTES);
	/* Memory isn't filled from outside where its pages are missing. */
	if (request == UFFDIO_REGISTER && argument) {
		const struct uffdio_register *wanted = argument;
		hwio_before_persistent((const void *)(uintptr_t)wanted->range.start, (size_t)wanted->range.len);
	}
}

int hwio_mlockall(int flags)
{
	hwio_settle_everything();
	if (hwio_mode != HWIO_OFF && hwio_depth == 0)
		hwio_memory_map_exclude(NULL, UINTPTR_MAX);
	return hwio_libc.mlockall(flags);
}

void hwio_before_buffer(void *buffer, size_t bytes)
{
	if (buffer)
		hwio_before_persistent(buffer, bytes);
}
