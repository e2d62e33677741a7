/* Replacements for the C library: memory and string functions, and mapping a file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sys.h"

#ifndef HWA_HOSTED

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	for (; bytes >= 8; bytes -= 8, t += 8, f += 8)
		__builtin_memcpy(t, f, 8);
	while (bytes--)
		*t++ = *f++;
	return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t <= f || t >= f + bytes) {
		for (; bytes >= 8; bytes -= 8, t += 8, f += 8) {
			uint64_t word;

			__builtin_memcpy(&word, f, 8);
			__builtin_memcpy(t, &word, 8);
		}
		while (bytes--)
			*t++ = *f++;
	} else {
		while (bytes--)
			t[bytes] = f[bytes];
	}
	return to;
}

void *memset(void *to, int byte, size_t bytes)
{
	unsigned char *t = to;
	uint64_t word = (unsigned char)byte * UINT64_C(0x0101010101010101);

	for (; bytes >= 8; bytes -= 8, t += 8)
		__builtin_memcpy(t, &word, 8);
	while (bytes--)
		*t++ = (unsigned char)byte;
	return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
	const unsigned char *x = a, *y = b;

	for (; bytes >= 8; bytes -= 8, x += 8, y += 8) {
		uint64_t v, w;

		__builtin_memcpy(&v, x, 8);
		__builtin_memcpy(&w, y, 8);
		if (v != w)
			break;
	}
	for (; bytes; bytes--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

size_t strlen(const char *text)
{
	const char *end = text;

	while (*end)
		end++;
	return (size_t)(end - text);
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}

char *(strchr)(const char *text, int byte)
{
	for (; *text != (char)byte; text++)
		if (!*text)
			return NULL;
	return (char *)text;
}

#endif

void *hwa_map_file(const char *path, int writable, size_t bytes_min, size_t bytes_max, size_t *bytes)
{
	int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC;
	long fd = hwa_sys(__NR_openat, AT_FDCWD, path, flags);
	long map = -1;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (hwa_sys(__NR_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= bytes_min) {
		*bytes = (size_t)st.st_size < bytes_max ? (size_t)st.st_size : bytes_max;
		map = hwa_sys(__NR_mmap, NULL, *bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	}
	hwa_sys(__NR_close, fd);
	return map < 0 && map > -4096 ? NULL : (void *)map;
}

void *hwa_map(size_t bytes)
{
	long memory = hwa_sys(__NR_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory < 0 && memory > -4096 ? NULL : (void *)memory;
}
