/* System calls by number. Those of syscall() reach its wrapper. Those that the program or another library makes by
 * its own instructions raise SIGSYS while something is deferred, by the kernel's Syscall User Dispatch (Linux 5.11
 * and later). Without it, the kernel can't read deferred memory, and returns EFAULT. */
#include "intercept/memory/kernel.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "intercept/effects.h"
#include "intercept/generated-calls.h"
#include "transfer/incoming.h"
#include "base/aside.h"
#include "base/handler.h"
#include "memory/mapped.h"
#include "memory/records.h"
#include "base/signals.h"

/* Newer than the oldest headers; all architectures have these numbers. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* Returns true for calls that may change a file or start a process, and for those whose arguments lead to memory by way
 * of other memory. */
static bool is_far_reaching(long number)
{
	static const long numbers[] = {
		SYS_write,
		SYS_pwrite64,
		SYS_writev,
		SYS_pwritev,
		SYS_pwritev2,
		SYS_ftruncate,
		SYS_truncate,
		SYS_fallocate,
		SYS_openat,
		SYS_openat2,
		SYS_sendfile,
		SYS_splice,
		SYS_clone,
		SYS_clone3,
		SYS_execve,
		SYS_execveat,
		SYS_exit_group,
		SYS_readv,
		SYS_preadv,
		SYS_preadv2,
		SYS_vmsplice,
		SYS_sendmsg,
		SYS_sendmmsg,
		SYS_recvmsg,
		SYS_recvmmsg,
		SYS_io_submit,
		SYS_io_uring_enter,
		SYS_io_uring_register,
		SYS_copy_file_range,
		SYS_process_vm_readv,
		SYS_process_vm_writev,
#ifdef SYS_open
		SYS_open,
		SYS_creat,
		SYS_fork,
		SYS_vfork,
#endif
	};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (number == numbers[i])
			return true;
	return false;
}

static bool is_deferred(uintptr_t low, uintptr_t high)
{
	hwio_enter();
	const struct hwio_record *record = hwio_record_at(hwio_record_find(low));
	bool is_any = low < high && ((record && record->low < high) || hwio_incoming_overlaps(low, high));
	hwio_leave();
	return is_any;
}

/* Returns true if the call releases or changes memory in which something is deferred. MPI libraries that track memory
 * make malloc's calls this way; malloc holds its lock then, and nothing is deferred in its memory. */
static bool releases_deferred(long number, const long arguments[])
{
	uintptr_t low = (uintptr_t)arguments[0], bytes = (uintptr_t)arguments[1];
	switch (number) {
	case SYS_munmap:
	case SYS_madvise:
	case SYS_mprotect:
		return is_deferred(low, low + bytes);
	case SYS_mremap:
		return is_deferred(low, low + bytes) ||
			(arguments[3] & MREMAP_FIXED &&
				is_deferred((uintptr_t)arguments[4],
					(uintptr_t)arguments[4] + (uintptr_t)arguments[2]));
	case SYS_mmap:
		return !(arguments[3] & MAP_ANONYMOUS) || (arguments[3] & MAP_FIXED && is_deferred(low, low + bytes));
	default:
		return is_deferred(low, (uintptr_t)hwio_libc.syscall(SYS_brk, 0, 0, 0, 0, 0, 0));
	}
}

static bool is_of_memory(long number)
{
	return number == SYS_brk || number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||
		number == SYS_madvise || number == SYS_mprotect;
}

/* Other system calls are not decoded: any argument may be a pointer, and the next one its length. A futex is excluded:
 * the engine's thread, which has the lock, may wait for this thread. */
static bool points_at_deferred(long number, const long arguments[], size_t count)
{
	if (number == SYS_futex || (hwio_records_high == 0 && !hwio_incoming_any()))
		return false;
	for (size_t i = 0; i < count; i++) {
		uintptr_t low = (uintptr_t)arguments[i], bytes = i + 1 < count ? (uintptr_t)arguments[i + 1] : 0;
		if (low < hwio_page_bytes || low >= UINTPTR_MAX / 2)
			continue;
		bytes = bytes > HWIO_CALL_BYTES_MAX ? HWIO_CALL_BYTES_MAX : bytes;
		if (is_deferred(hwio_page_down(low), hwio_page_up(low + bytes + 1)))
			return true;
	}
	return false;
}

/* Runs the wrapper of calls that affect more than memory, and sets `result`. False: it is no such call. */
static bool runs_wrapper(long number, const long arguments[], long *result)
{
	int first = (int)arguments[0], second = (int)arguments[1], third = (int)arguments[2];
	switch (number) {
	case SYS_close:
		*result = hwio_close(first);
		return true;
	/* Before glibc 2.34, the C library has no such function. */
	case SYS_close_range:
		hwio_descriptor_changed();
		hwio_settle_everything();
		return false;
#ifdef SYS_dup2
	case SYS_dup2:
		*result = hwio_dup2(first, second);
		return true;
#endif
	case SYS_dup3:
		*result = hwio_dup3(first, second, third);
		return true;
	case SYS_fcntl:
		*result = hwio_fcntl(first, second, (void *)arguments[2]);
		return true;
	case SYS_rt_sigprocmask:
		if (arguments[3] != HWIO_KERNEL_MASK_BYTES)
			return false;
		*result = hwio_mask_by_number(first, (const void *)arguments[1], (void *)arguments[2]);
		return true;
	case SYS_pkey_mprotect:
		*result = hwio_pkey_mprotect((void *)arguments[0], (size_t)arguments[1], third, (int)arguments[3]);
		return true;
	default:
		return false;
	}
}

long hwio_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	const long arguments[] = {a, b, c, d, e, f};
	long result;
	if (runs_wrapper(number, arguments, &result))
		return result;
	if (is_of_memory(number))
		hwio_memory_map_forget();
	if (number == SYS_mmap)
		hwio_before_mapping((void *)a, (size_t)b, (int)c, (int)d, (int)e);
	if (hwio_is_busy && hwio_depth == 0) {
		int saved = errno;
		if (is_of_memory(number) ? releases_deferred(number, arguments)
					 : is_far_reaching(number) || points_at_deferred(number, arguments, 6))
			hwio_settle_everything();
		errno = saved;
	}
	result = hwio_libc.syscall(number, a, b, c, d, e, f);
	if (number == SYS_mmap)
		hwio_after_mapping((void *)result, (size_t)b, (int)c, (int)d, (int)e, f, NULL);
	else if (number == SYS_munmap)
		hwio_mapped_forget((uintptr_t)a, (uintptr_t)a + (uintptr_t)b);
	return result;
}

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#define INSTRUCTION_BYTES 2
#define REGISTERS(context) ((context)->uc_mcontext.gregs)
#define INSTRUCTION_POINTER(context) REGISTERS(context)[REG_RIP]
#define RESULT(context) REGISTERS(context)[REG_RAX]
#define ARGUMENTS(context) \
	{ \
		(long)REGISTERS(context)[REG_RDI], (long)REGISTERS(context)[REG_RSI], \
			(long)REGISTERS(context)[REG_RDX], (long)REGISTERS(context)[REG_R10], \
			(long)REGISTERS(context)[REG_R8], (long)REGISTERS(context)[REG_R9], \
	}
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#define INSTRUCTION_BYTES 4
#define REGISTERS(context) ((context)->uc_mcontext.regs)
#define INSTRUCTION_POINTER(context) ((context)->uc_mcontext.pc)
#define RESULT(context) REGISTERS(context)[0]
#define ARGUMENTS(context) \
	{ \
		(long)REGISTERS(context)[0], (long)REGISTERS(context)[1], (long)REGISTERS(context)[2], \
			(long)REGISTERS(context)[3], (long)REGISTERS(context)[4], (long)REGISTERS(context)[5], \
	}
#endif

#ifdef MACHINE

/* linux/prctl.h and asm-generic/siginfo.h, of which older ones lack these. */
enum { SET_DISPATCH = 59, DISPATCH_OFF = 0, DISPATCH_ON = 1, PASS = 0, RAISE = 1, RAISED = 2 };

/* The addresses of the C library's code, whose calls are not intercepted. */
static struct {
	uintptr_t low, high;
} text;
/* The kernel reads this at each other call of a thread that has enabled dispatch. */
static volatile char selector = PASS;
static __thread bool is_watched __attribute__((tls_model("initial-exec")));
static __thread bool is_executing __attribute__((tls_model("initial-exec")));

/* Returns true for calls about the caller's own stack, signals or registers, which a handler can't make for it. */
static bool needs_callers_context(long number)
{
	switch (number) {
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
	case SYS_arch_prctl:
#endif
	case SYS_clone:
	case SYS_clone3:
	case SYS_execve:
	case SYS_execveat:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_rt_sigreturn:
	case SYS_rt_sigprocmask:
	case SYS_sigaltstack:
	case SYS_prctl:
	case SYS_seccomp:
		return true;
	default:
		return false;
	}
}

static void execute_call(struct hwio_aside *of)
{
	const long *a = of->arguments;
	is_executing = true;
	long result = hwio_syscall(of->number, a[0], a[1], a[2], a[3], a[4], a[5]);
	of->result = result == -1 ? -errno : result;
	is_executing = false;
}

/* The same for a call of MPI or of this library, which need not be examined. */
static void pass_call(struct hwio_aside *of)
{
	const long *a = of->arguments;
	hwio_descriptor_changed();
	if (is_of_memory(of->number) || of->number == SYS_pkey_mprotect)
		hwio_memory_map_forget();
	is_executing = true;
	long result = hwio_libc.syscall(of->number, a[0], a[1], a[2], a[3], a[4], a[5]);
	of->result = result == -1 ? -errno : result;
	is_executing = false;
}

static void settle_call(struct hwio_aside *of)
{
	(void)of;
	hwio_settle_everything();
	/* Until something is deferred again. */
	selector = PASS;
}

static void on_call(int signal, siginfo_t *info, void *of)
{
	ucontext_t *context = of;
	int saved = errno, before = hwio_handler_begins();
	/* Calls of MPI and of the library need nothing that a handler may not do. */
	bool is_of_program = hwio_depth == 0 && !hwio_is_inside();

	if (info->si_code != RAISED) {
		hwio_signal_forward(signal, info, of);
	} else if (is_executing || info->si_arch != MACHINE || needs_callers_context(info->si_syscall)) {
		/* A call from within a call occurs where other code has patched libc's instructions, as some file
		 * systems do. */
		struct hwio_aside aside = {.work = settle_call};
		INSTRUCTION_POINTER(context) -= INSTRUCTION_BYTES;
		if (!is_of_program)
			selector = PASS;
		else if (!hwio_aside(context, &aside))
			settle_call(&aside);
	} else {
		struct hwio_aside aside = {.work = execute_call,
			.is_call = true,
			.number = info->si_syscall,
			.arguments = ARGUMENTS(context)};
		if (!is_of_program) {
			pass_call(&aside);
			RESULT(context) = aside.result;
		} else if (!hwio_aside(context, &aside)) {
			execute_call(&aside);
			RESULT(context) = aside.result;
		}
	}
	errno = saved;
	hwio_handler_ends(before);
}

/* The objects of the C library that make system calls on behalf of a program. Since glibc 2.34, the first is all. */
static const char *const objects[] = {"libc.so.6", "libpthread.so.0", "librt.so.1"};

static bool is_of_libc(const char *path, size_t objects_count)
{
	const char *slash = strrchr(path, '/');
	for (size_t at = 0; at < objects_count; at++)
		if (!strcmp(slash ? slash + 1 : path, objects[at]))
			return true;
	return false;
}

/* Adds an object of the C library. What is mapped between two of them counts as its code. */
static int add_text(struct dl_phdr_info *info, size_t size, void *of)
{
	(void)size;
	if (!is_of_libc(info->dlpi_name, *(const size_t *)of))
		return 0;
	for (unsigned int at = 0; at < info->dlpi_phnum; at++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		text.low = text.high == 0 || start < text.low ? start : text.low;
		text.high = end > text.high ? end : text.high;
	}
	return 0;
}

static bool is_single_object(void)
{
	const char *version = gnu_get_libc_version();
	return version[0] > '2' || (version[0] == '2' && atoi(version + 2) >= 34);
}

static void watch(bool is_wanted)
{
	if (is_wanted && !is_watched && text.high > 0) {
		is_watched = true;
		prctl(SET_DISPATCH, DISPATCH_ON, text.low, text.high - text.low, &selector);
	}
	selector = is_wanted ? RAISE : PASS;
}

void hwio_kernel_start(void)
{
	struct sigaction action = {
		.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};

	size_t objects_count = is_single_object() ? 1 : sizeof(objects) / sizeof(*objects);
	if (prctl(SET_DISPATCH, DISPATCH_OFF, 0, 0, 0) != 0)
		return;
	dl_iterate_phdr(add_text, &objects_count);
	if (text.high > 0 && !hwio_signal_intercept(SIGSYS, &action))
		text.high = 0;
	hwio_busy_watch(watch);
}

#else

void hwio_kernel_start(void)
{
}

#endif
