/* Paths as text: a program's absolute path, and its path in the store. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "path.h"
#include "sys.h"

/* A memory domain's number behind the store's own path. */
#define DOMAIN_BYTES 2
/* The longest path of the store's, the longest of a program's, and a NUL. */
#define APART_BYTES (2 * (size_t)HWA_PATH_MAX)

/* ---- paths in the making ---- */

/* The longest prefix of a path. */
static size_t prefix_room(void)
{
	size_t store, mount;

	hwa_store_prefix(&store);
	hwa_mount_point(&mount);
	return store + DOMAIN_BYTES > mount ? store + DOMAIN_BYTES : mount;
}

void hwa_path_begin(struct hwa_path *path, char *near, size_t bytes)
{
	path->apart = false;
	path->memory = near ? near : path->none;
	path->memory_bytes = near ? bytes : sizeof(path->none);
	hwa_path_clear(path);
	if (!near)
		hwa_path_widen(path);
}

void hwa_path_clear(struct hwa_path *path)
{
	size_t before = path->apart ? HWA_PATH_MAX : prefix_room();

	if (before > path->memory_bytes / 2)
		before = 0;
	path->at = path->memory + before;
	path->room = path->memory_bytes - before;
	path->bytes = 0;
	*path->at = '\0';
}

void hwa_path_end(struct hwa_path *path)
{
	if (path->apart)
		hwa_sys(__NR_munmap, path->memory, path->memory_bytes);
	path->apart = false;
}

bool hwa_path_widen(struct hwa_path *path)
{
	if (path->apart)
		return false;
	char *memory = hwa_map(APART_BYTES);

	if (!memory)
		return false;
	memcpy(memory + HWA_PATH_MAX, path->at, path->room);
	path->apart = true;
	path->memory = memory;
	path->memory_bytes = APART_BYTES;
	path->at = path->memory + HWA_PATH_MAX;
	path->room = HWA_PATH_MAX;
	return true;
}

/* True once the path has room for so many bytes, the NUL among them. */
static bool fits(struct hwa_path *path, size_t bytes)
{
	return bytes <= path->room || (bytes <= HWA_PATH_MAX && hwa_path_widen(path));
}

size_t hwa_append(struct hwa_path *out, size_t length, const char *text, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		size_t start = at;

		while (at < bytes && text[at] != '/')
			at++;
		size_t name = at - start;
		if (name && !(name == 1 && text[start] == '.')) {
			if (!fits(out, length + 1 + name + 1))
				return HWA_TOO_LONG;
			out->at[length] = '/';
			for (size_t i = 0; i < name; i++)
				out->at[length + 1 + i] = text[start + i];
			length += 1 + name;
		}
		at++;
	}
	return length;
}

void hwa_finish(struct hwa_path *out, size_t length)
{
	if (length == 0)
		out->at[length++] = '/';
	out->at[length] = '\0';
	out->bytes = length;
}

bool hwa_copy(struct hwa_path *out, const char *text, size_t bytes)
{
	if (!fits(out, bytes + 1))
		return false;
	memmove(out->at, text, bytes);
	out->at[bytes] = '\0';
	out->bytes = bytes;
	return true;
}

size_t hwa_dotdot(const char *path, size_t bytes)
{
	for (size_t at = 0; at + 2 < bytes; at++)
		if (path[at + 1] == '.' && path[at] == '/' && path[at + 2] == '.' &&
			(at + 3 == bytes || path[at + 3] == '/'))
			return at;
	return bytes;
}

/* ---- from the kernel ---- */

long hwa_read_link(int dirfd, const char *link, struct hwa_path *out)
{
	long length;

	/* A result that fills the buffer may be cut off. */
	do
		length = hwa_sys(__NR_readlinkat, dirfd, link, out->at, out->room - 1);
	while (length == (long)out->room - 1 && hwa_path_widen(out));
	if (length >= 0) {
		out->bytes = (size_t)length;
		out->at[length] = '\0';
	}
	return length;
}

static long working_directory(struct hwa_path *out)
{
	long length;

	while ((length = hwa_sys(__NR_getcwd, out->at, out->room)) == -ERANGE)
		if (!hwa_path_widen(out))
			return -ENAMETOOLONG;
	out->bytes = length > 0 ? (size_t)length - 1 : 0;
	return length;
}

char *hwa_put_number(char *at, size_t number)
{
	if (number >= 10)
		at = hwa_put_number(at, number / 10);
	*at = (char)('0' + number % 10);
	return at + 1;
}

void hwa_descriptor_link(int fd, char out[HWA_LINK_BYTES])
{
	static const char directory[] = "/proc/self/fd/";

	memcpy(out, directory, sizeof(directory) - 1);
	*hwa_put_number(out + sizeof(directory) - 1, (unsigned)fd) = '\0';
}

long hwa_descriptor_path(int fd, struct hwa_path *out)
{
	char link[HWA_LINK_BYTES];

	hwa_descriptor_link(fd, link);
	return hwa_read_link(AT_FDCWD, link, out);
}

int hwa_directory_of(int dirfd, struct hwa_path *out)
{
	long length = dirfd == AT_FDCWD ? working_directory(out) : dirfd < 0 ? -EBADF : hwa_descriptor_path(dirfd, out);

	if (length < 0)
		return (int)length;
	return out->at[0] == '/' ? 0 : -ENOENT;
}

/* ---- absolute paths ---- */

/* Copies an absolute path that is clean, without components that are empty or begin with "."; false for other paths. */
static bool copy_clean(const char *path, struct hwa_path *out)
{
	char *to = out->at;
	size_t room = out->room, at = 0;

	for (char c; (c = path[at]); at++) {
		if (c == '/' && (path[at + 1] == '/' || path[at + 1] == '.' || !path[at + 1]))
			return false;
		if (at == room - 1) {
			if (!hwa_path_widen(out))
				return false;
			to = out->at;
			room = out->room;
		}
		to[at] = c;
	}
	to[at] = '\0';
	out->bytes = at;
	return at > 0;
}

static int absolute_cleaned(int dirfd, const char *path, struct hwa_path *out)
{
	size_t length = 0, given = 0;

	while (given < HWA_PATH_MAX && path[given])
		given++;
	if (given == HWA_PATH_MAX)
		return -ENAMETOOLONG;
	if (*path != '/') {
		int error = hwa_directory_of(dirfd, out);

		if (error)
			return error;
		const char *inner = hwa_strip_store(out->at);
		/* Cleaning only shortens, so it can be done in place. */
		length = hwa_append(out, 0, inner ? inner : out->at, strlen(inner ? inner : out->at));
	}
	length = hwa_append(out, length, path, given);
	if (length == HWA_TOO_LONG)
		return -ENAMETOOLONG;
	hwa_finish(out, length);
	return 0;
}

int hwa_absolute_plain(int dirfd, const char *path, struct hwa_path *out, bool *plain)
{
	hwa_path_clear(out);
	if (!hwa_attached() || !hwa_is_address(path) || !*path)
		return -ENOENT;
	*plain = false;
	if (*path == '/') {
		const char *inner = hwa_strip_store(path);

		path = inner ? inner : path;
		*plain = copy_clean(path, out);
	}
	int error = *plain ? 0 : absolute_cleaned(dirfd, path, out);
	return error ? error : hwa_in_scope(out->at, out->bytes) ? 0 : -EXDEV;
}

int hwa_absolute(int dirfd, const char *path, struct hwa_path *out)
{
	bool plain;

	return hwa_absolute_plain(dirfd, path, out, &plain);
}

/* ---- in the store ---- */

char *hwa_strip_in_place(char *path)
{
	const char *original = hwa_strip_store(path);

	if (original) {
		size_t all = strlen(path), bytes = strlen(original);

		memmove(path, original, bytes);
		memset(path + bytes, 0, all - bytes);
	}
	return path;
}

/* Returns the length of the prefix of paths in a place, 0 if there is no such place. */
static size_t prefix_bytes(enum hwa_place place)
{
	size_t bytes;

	if (place == HWA_IN_MOUNT) {
		hwa_mount_point(&bytes);
		return bytes;
	}
	hwa_store_prefix(&bytes);
	if (place == HWA_IN_DOMAIN && bytes && hwa_domain() >= 0)
		bytes += hwa_domain() < 10 ? 1 : DOMAIN_BYTES;
	return bytes;
}

/* Writes that prefix. */
static void put_prefix(enum hwa_place place, char *out)
{
	size_t bytes;
	const char *prefix = place == HWA_IN_MOUNT ? hwa_mount_point(&bytes) : hwa_store_prefix(&bytes);

	memcpy(out, prefix, bytes);
	if (place == HWA_IN_DOMAIN && hwa_domain() >= 0)
		hwa_put_number(out + bytes, (size_t)hwa_domain());
}

const char *hwa_copy_of(struct hwa_path *path, enum hwa_place place)
{
	size_t room = prefix_room(), before = prefix_bytes(place);

	if (!before || room > HWA_PATH_MAX - HWA_LINE_BYTES)
		return NULL;
	if ((size_t)(path->at - path->memory) < room && !hwa_path_widen(path))
		return NULL;
	put_prefix(place, path->at - before);
	return path->at - before;
}

int hwa_store_path(const char *path, size_t bytes, enum hwa_place place, char out[2 * HWA_PATH_MAX])
{
	size_t before = prefix_bytes(place);

	if (!before || prefix_room() + 1 > HWA_PATH_MAX || bytes >= HWA_PATH_MAX)
		return -ENAMETOOLONG;
	put_prefix(place, out);
	memcpy(out + before, path, bytes);
	out[before + bytes] = '\0';
	return (int)(before + bytes);
}
