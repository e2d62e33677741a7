/* System calls without a C library, and the few functions that C itself needs.
 *
 * Everything that depends on the architecture's system call convention is in this file. A result in [-4095, -1] is
 * a negative error number. */
#ifndef HEADWATER_SYS_H
#define HEADWATER_SYS_H

#include <stddef.h>
#include <stdint.h>

#include <asm/unistd.h>

/* Newer than the oldest headers; all architectures have this number. */
#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self 446
#endif

#if defined(__x86_64__)

static inline long hwa_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/* Returns the address of the thread's own data, which differs for each thread. */
static inline uintptr_t hwa_thread_pointer(void)
{
	uintptr_t pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

#elif defined(__aarch64__)

static inline long hwa_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

static inline uintptr_t hwa_thread_pointer(void)
{
	uintptr_t pointer;

	__asm__("mrs %0, tpidr_el0" : "=r"(pointer));
	return pointer;
}

#else
#error "no system call convention is known for this architecture"
#endif

/* hwa_sys(number, up to six arguments, each an integer or a pointer). */
#define hwa_sys(...) HWA_SYS_PICK(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0, )(__VA_ARGS__)
#define HWA_SYS_PICK(n, a, b, c, d, e, f, count, ...) HWA_SYS_NAME(count)
#define HWA_SYS_NAME(count) HWA_SYS_##count
#define HWA_SYS_0(n) hwa_syscall6(n, 0, 0, 0, 0, 0, 0)
#define HWA_SYS_1(n, a) hwa_syscall6(n, (long)(a), 0, 0, 0, 0, 0)
#define HWA_SYS_2(n, a, b) hwa_syscall6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define HWA_SYS_3(n, a, b, c) hwa_syscall6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define HWA_SYS_4(n, a, b, c, d) hwa_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define HWA_SYS_5(n, a, b, c, d, e) hwa_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define HWA_SYS_6(n, a, b, c, d, e, f) hwa_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* The compiler calls the first four itself, also in freestanding code; they are sys.c's, except in
 * the tests, which are linked with a C library. That may have a macro of the last one's name. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
char *(strchr)(const char *text, int byte);

/* Returns what follows `prefix` in `text`, or NULL if `text` does not start with it. */
static inline const char *hwa_after(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return NULL;
	return text;
}

/* Returns new private memory, or NULL; munmap releases it. */
void *hwa_map(size_t bytes);
/* Maps a regular file (read-only, or shared and writable), up to bytes_max of it, and closes it again. Sets *bytes.
 * Returns NULL if that is not possible or the file is shorter than bytes_min. */
void *hwa_map_file(const char *path, int writable, size_t bytes_min, size_t bytes_max, size_t *bytes);

#endif
