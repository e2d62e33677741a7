/* Paths as text: what a program's path is called absolutely, and what it is called in the store. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "path.h"
#include "sys.h"

size_t hw_append(char out[HW_PATH_MAX], size_t length, const char *text, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		size_t start = at;

		while (at < bytes && text[at] != '/')
			at++;
		size_t name = at - start;
		if (name && !(name == 1 && text[start] == '.')) {
			if (length + 1 + name >= HW_PATH_MAX)
				return HW_TOO_LONG;
			out[length] = '/';
			for (size_t i = 0; i < name; i++)
				out[length + 1 + i] = text[start + i];
			length += 1 + name;
		}
		at++;
	}
	return length;
}

size_t hw_finish(char out[HW_PATH_MAX], size_t length)
{
	if (length == 0)
		out[length++] = '/';
	out[length] = '\0';
	return length;
}

size_t hw_dotdot(const char *path, size_t bytes)
{
	for (size_t at = 0; at + 2 < bytes; at++)
		if (path[at + 1] == '.' && path[at] == '/' && path[at + 2] == '.' &&
		    (at + 3 == bytes || path[at + 3] == '/'))
			return at;
	return bytes;
}

long hw_directory_of(int dirfd, char out[HW_PATH_MAX])
{
	char link[32] = "/proc/self/fd/";
	size_t end = strlen(link);
	long length;

	if (dirfd == AT_FDCWD) {
		length = hw_sys(__NR_getcwd, out, HW_PATH_MAX);
		length = length > 0 ? length - 1 : length;
	} else {
		char digits[12];
		size_t count = 0;

		if (dirfd < 0)
			return -EBADF;
		for (unsigned rest = (unsigned)dirfd; rest || !count; rest /= 10)
			digits[count++] = (char)('0' + rest % 10);
		while (count)
			link[end++] = digits[--count];
		length = hw_sys(__NR_readlinkat, AT_FDCWD, link, out, HW_PATH_MAX - 1);
	}
	if (length < 0)
		return length;
	if (length == 0 || length >= HW_PATH_MAX - 1 || out[0] != '/')
		return -ENOENT;
	out[length] = '\0';
	return length;
}

/* Copies an absolute path that is clean as it stands, without components that are empty or begin with
 * "."; its length, or 0 if it is not of that kind. */
static size_t copy_clean(const char *path, char out[HW_PATH_MAX])
{
	size_t at = 0;

	for (char c; (c = path[at]); at++) {
		if (at == HW_PATH_MAX - 1 ||
		    (c == '/' && (path[at + 1] == '/' || path[at + 1] == '.' || !path[at + 1])))
			return 0;
		out[at] = c;
	}
	out[at] = '\0';
	return at;
}

static int absolute_cleaned(int dirfd, const char *path, char out[HW_PATH_MAX], size_t *bytes)
{
	size_t length = 0, given = 0;

	while (given < HW_PATH_MAX && path[given])
		given++;
	if (given == HW_PATH_MAX)
		return -ENAMETOOLONG;
	if (*path != '/') {
		long start = hw_directory_of(dirfd, out);

		if (start < 0)
			return (int)start;
		const char *inner = hw_strip_store(out);
		/* Cleaning only shortens, so it can be done in place. */
		length = hw_append(out, 0, inner ? inner : out, strlen(inner ? inner : out));
	}
	length = hw_append(out, length, path, given);
	if (length == HW_TOO_LONG)
		return -ENAMETOOLONG;
	*bytes = hw_finish(out, length);
	return 0;
}

int hw_absolute_plain(int dirfd, const char *path, char out[HW_PATH_MAX], size_t *bytes, bool *plain)
{
	/* What can't be a pointer is the kernel's to refuse. */
	if (!hw_attached() || (uintptr_t)path < HW_ADDRESS_MIN || !*path)
		return -ENOENT;
	if (*path == '/') {
		const char *inner = hw_strip_store(path);

		path = inner ? inner : path;
		*bytes = copy_clean(path, out);
	} else {
		*bytes = 0;
	}
	*plain = *bytes != 0;
	int error = *plain ? 0 : absolute_cleaned(dirfd, path, out, bytes);
	return error ? error : hw_in_scope(out, *bytes) ? 0 : -EXDEV;
}

int hw_absolute(int dirfd, const char *path, char out[HW_PATH_MAX], size_t *bytes)
{
	bool plain;

	return hw_absolute_plain(dirfd, path, out, bytes, &plain);
}

/* Puts the path behind the prefix of a mirror, that of a domain unless it is -1. */
static int mirror_path(int domain, const char *path, size_t bytes, char out[2 * HW_PATH_MAX])
{
	size_t prefix;
	const char *store = hw_store_prefix(&prefix);

	/* Beside the two there is room for a domain's two digits and a NUL. */
	if (prefix == 0 || prefix + 3 > HW_PATH_MAX || bytes >= HW_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(out, store, prefix);
	if (domain >= 10)
		out[prefix++] = (char)('0' + domain / 10);
	if (domain >= 0)
		out[prefix++] = (char)('0' + domain % 10);
	memcpy(out + prefix, path, bytes);
	out[prefix + bytes] = '\0';
	return (int)(prefix + bytes);
}

int hw_store_path(const char *path, size_t bytes, char out[2 * HW_PATH_MAX])
{
	return mirror_path(-1, path, bytes, out);
}

int hw_replica_path(const char *path, size_t bytes, char out[2 * HW_PATH_MAX])
{
	return mirror_path(hw_domain(), path, bytes, out);
}
