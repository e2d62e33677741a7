/* Random numbers. Calls that return some, or that seed a generator of the C library, are recorded while a zygote's
 * imports run. All functions behave as they would without this library.
 *
 * Not recorded: the processor's instructions for random numbers, system calls that bypass the C library, and
 * generators that are seeded from a clock or an address. */
#include "zygote.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ERRNO_MAX 4095

static atomic_bool notices;
static atomic_uint count;
/* The first draw that was noticed since it was taken, or NULL. */
static _Atomic(const char *) first;

void hwsp_draws_begin(void)
{
	atomic_store(&notices, true);
}

void hwsp_draws_end(void)
{
	atomic_store(&notices, false);
}

unsigned hwsp_draws_count(void)
{
	return atomic_load(&count);
}

const char *hwsp_draws_take(void)
{
	return atomic_exchange(&first, NULL);
}

static void note_draw(const char *what)
{
	if (!atomic_load_explicit(&notices, memory_order_relaxed))
		return;
	const char *none = NULL;
	atomic_fetch_add(&count, 1);
	atomic_compare_exchange_strong(&first, &none, what);
}

static void note_file(const char *path)
{
	static const char *const files[] = {"/dev/urandom", "/dev/random", "/dev/hwrng"};

	if (!atomic_load_explicit(&notices, memory_order_relaxed) || !path)
		return;
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		if (!strcmp(path, files[i]))
			note_draw(files[i]);
	if (!strncmp(path, "/proc/sys/kernel/random/", 24))
		note_draw("/proc/sys/kernel/random");
}

/* The interposed function behind this library's; searched for once. */
static void *find_next_function(_Atomic(void *) *known, const char *name)
{
	void *found = atomic_load_explicit(known, memory_order_relaxed);
	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(known, found, memory_order_relaxed);
	}
	return found;
}

/* The function that a caller would have found: its library may be seen by that caller's object alone. NULL: none. */
static void *find_for(const void *caller, const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	Dl_info object;

	if (found || !dladdr(caller, &object) || !object.dli_fname)
		return found;
	void *handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		found = dlsym(handle, name);
		dlclose(handle);
	}
	return found;
}

EXPORT ssize_t getrandom(void *buffer, size_t bytes, unsigned flags)
{
	static _Atomic(void *) known;
	ssize_t (*original)(void *, size_t, unsigned) = find_next_function(&known, "getrandom");

	note_draw("getrandom");
	return original ? original(buffer, bytes, flags) : syscall(SYS_getrandom, buffer, bytes, flags);
}

EXPORT int getentropy(void *buffer, size_t bytes)
{
	static _Atomic(void *) known;
	int (*original)(void *, size_t) = find_next_function(&known, "getentropy");

	note_draw("getentropy");
	if (original)
		return original(buffer, bytes);
	return bytes > 256 || syscall(SYS_getrandom, buffer, bytes, 0) != (long)bytes ? -1 : 0;
}

/* Fills the buffer for functions that can't fail. */
static void fill_buffer(unsigned char *buffer, size_t bytes)
{
	while (bytes) {
		long got = syscall(SYS_getrandom, buffer, bytes, 0);
		if (got > 0) {
			buffer += got;
			bytes -= (size_t)got;
		}
	}
}

static uint32_t draw_number(void)
{
	uint32_t value;
	fill_buffer((unsigned char *)&value, sizeof value);
	return value;
}

static uint32_t draw_below(uint32_t bound)
{
	/* The numbers below this would make the small ones more frequent. */
	uint32_t left_out = bound > 1 ? -bound % bound : 0, value;
	do
		value = draw_number();
	while (value < left_out);
	return bound > 1 ? value % bound : 0;
}

static int draw_bytes(unsigned char *buffer, int bytes)
{
	fill_buffer(buffer, bytes > 0 ? (size_t)bytes : 0);
	return bytes >= 0;
}

/* A function of a library that the caller may not have, which is `instead` then. */
#define DRAWS(result, name, parameters, arguments, what, instead) \
	EXPORT result name parameters; \
	EXPORT result name parameters \
	{ \
		result(*original) parameters = find_for(__builtin_return_address(0), #name); \
		note_draw(what); \
		return original ? original arguments : instead; \
	}
DRAWS(void, arc4random_buf, (void *buffer, size_t bytes), (buffer, bytes), "arc4random", fill_buffer(buffer, bytes))
DRAWS(uint32_t, arc4random, (void), (), "arc4random", draw_number())
DRAWS(uint32_t, arc4random_uniform, (uint32_t bound), (bound), "arc4random", draw_below(bound))
/* std::random_device's operator(), which takes its numbers from the processor where it can. */
DRAWS(unsigned, _ZNSt13random_device9_M_getvalEv, (void *device), (device), "std::random_device", draw_number())
/* OpenSSL, whose generator queries the kernel now and then. */
DRAWS(int, RAND_bytes, (unsigned char *buffer, int bytes), (buffer, bytes), "RAND_bytes", draw_bytes(buffer, bytes))
DRAWS(int, RAND_priv_bytes, (unsigned char *buffer, int bytes), (buffer, bytes), "RAND_priv_bytes",
	draw_bytes(buffer, bytes))

/* The kernel's answer: a negative errno value for an error. */
static long enter_kernel(long number, const long arguments[6])
{
#if defined __x86_64__
	register long r10 __asm__("r10") = arguments[3];
	register long r8 __asm__("r8") = arguments[4];
	register long r9 __asm__("r9") = arguments[5];
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10), "r"(r8),
			 "r"(r9)
			 : "rcx", "r11", "memory");
	return answer;
#elif defined __aarch64__
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = arguments[0];
	register long x1 __asm__("x1") = arguments[1];
	register long x2 __asm__("x2") = arguments[2];
	register long x3 __asm__("x3") = arguments[3];
	register long x4 __asm__("x4") = arguments[4];
	register long x5 __asm__("x5") = arguments[5];

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "this processor's system call is to be written"
#endif
}

/* By no function of the C library: this one is called before those can be found. */
EXPORT long syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_getrandom)
		note_draw("getrandom");
	long answer = enter_kernel(number, arguments);
	if (answer >= 0 || answer < -ERRNO_MAX)
		return answer;
	errno = (int)-answer;
	return -1;
}

/* A function of the C library, after `note`. */
#define NOTES(result, name, parameters, arguments, note) \
	EXPORT result name parameters; \
	EXPORT result name parameters \
	{ \
		static _Atomic(void *) known; \
		result(*original) parameters = find_next_function(&known, #name); \
		note; \
		return original arguments; \
	}

/* Those that seed a generator of the C library's. */
NOTES(void, srand, (unsigned seed), (seed), note_draw("srand"))
NOTES(void, srandom, (unsigned seed), (seed), note_draw("srandom"))
NOTES(void, srand48, (long seed), (seed), note_draw("srand48"))
NOTES(void, lcong48, (unsigned short seed[7]), (seed), note_draw("lcong48"))
NOTES(unsigned short *, seed48, (unsigned short seed[3]), (seed), note_draw("seed48"))
NOTES(char *, initstate, (unsigned seed, char *state, size_t bytes), (seed, state, bytes), note_draw("initstate"))

/* libffi, by which ctypes calls back, finds its own file in /proc/PID/maps, and keeps it open: that is the same file in
 * each process. */
static bool is_of_libffi(const void *caller)
{
	Dl_info object;

	if (!dladdr(caller, &object) || !object.dli_fname)
		return false;
	const char *slash = strrchr(object.dli_fname, '/');
	return !strncmp(slash ? slash + 1 : object.dli_fname, "libffi", 6);
}

/* Other values that distinguish processes, and seed generators. */
EXPORT pid_t getpid(void)
{
	if (atomic_load_explicit(&notices, memory_order_relaxed) && !is_of_libffi(__builtin_return_address(0)))
		note_draw("getpid");
	return (pid_t)syscall(SYS_getpid);
}

static mode_t mode_of(int flags, va_list list)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPENS(name, parameters, arguments) \
	EXPORT int name parameters \
	{ \
		static _Atomic(void *) known; \
		int(*original) parameters = find_next_function(&known, #name); \
		va_list list; \
		va_start(list, flags); \
		mode_t mode = mode_of(flags, list); \
		va_end(list); \
		note_file(path); \
		return original arguments; \
	}
OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
OPENS(openat64, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))

/* Called by programs that were compiled with checks. */
NOTES(int, __open_2, (const char *path, int flags), (path, flags), note_file(path))
NOTES(int, __open64_2, (const char *path, int flags), (path, flags), note_file(path))
NOTES(FILE *, fopen, (const char *path, const char *mode), (path, mode), note_file(path))
NOTES(FILE *, fopen64, (const char *path, const char *mode), (path, mode), note_file(path))
