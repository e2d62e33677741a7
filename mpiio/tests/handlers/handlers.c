/* Preloaded by tests beside a library that was built with HWIO_CHECK_HANDLERS: ends the program if memory is allocated
 * or freed while one of that library's handlers runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

static __thread int handlers __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) int *headwater_handlers(void)
{
	return &handlers;
}

static void check(const char *call)
{
	static const char rest[] = ": called by a signal's handler\n";
	if (__builtin_expect(handlers == 0, 1))
		return;
	handlers = 0;
	if (write(STDERR_FILENO, call, strlen(call)) < 0 || write(STDERR_FILENO, rest, sizeof(rest) - 1) < 0)
		_exit(1);
	abort();
}

#define CHECKED __attribute__((visibility("default")))

CHECKED void *malloc(size_t bytes)
{
	check("malloc");
	return __libc_malloc(bytes);
}

CHECKED void *calloc(size_t count, size_t bytes)
{
	check("calloc");
	return __libc_calloc(count, bytes);
}

CHECKED void *realloc(void *memory, size_t bytes)
{
	check("realloc");
	return __libc_realloc(memory, bytes);
}

CHECKED void *memalign(size_t alignment, size_t bytes)
{
	check("memalign");
	return __libc_memalign(alignment, bytes);
}

CHECKED void *aligned_alloc(size_t alignment, size_t bytes)
{
	check("aligned_alloc");
	return __libc_memalign(alignment, bytes);
}

CHECKED int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	check("posix_memalign");
	if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
		return EINVAL;
	void *made = __libc_memalign(alignment, bytes);
	if (!made)
		return ENOMEM;
	*memory = made;
	return 0;
}

CHECKED void free(void *memory)
{
	check("free");
	__libc_free(memory);
}
