/* The originals that the core calls in a test. */
#include "real.h"

#define ORIGINAL(name) .name = name,

struct hwio_real hwio_real;
struct hwio_libc hwio_libc = {HWIO_STAND_LIBC(ORIGINAL)};

bool hwio_bind_real(void *libmpi, void *(*next)(const char *name))
{
	(void)libmpi;
	(void)next;
	return true;
}

/* Generated wrappers that the core calls. */
int hwio_close_range(unsigned int first, unsigned int last, int flags)
{
	return close_range(first, last, flags);
}

int hwio_dup2(int from, int to)
{
	return dup2(from, to);
}

int hwio_dup3(int from, int to, int flags)
{
	return dup3(from, to, flags);
}

int hwio_fcntl(int descriptor, int command, void *argument)
{
	return fcntl(descriptor, command, argument);
}

int hwio_pkey_mprotect(void *address, size_t bytes, int protection, int key)
{
	return pkey_mprotect(address, bytes, protection, key);
}
