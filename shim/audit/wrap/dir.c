/* Directory streams from the table's listings.
 *
 * The library's streams are slots of a fixed arena, which their addresses distinguish from libc's. When the table can't
 * serve a stream any longer (the directory became a passthrough path before a rewind, or its listing is damaged), the
 * stream opens one of libc's and forwards every call to it. */
#include "wrap.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "sys.h"

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one layout serves both names");

/* Maximum of open streams; further ones are libc's. */
#define STREAMS_MAX 1024

struct stream {
	_Atomic(bool) taken;
	_Atomic(int) fd;            /* the original directory, once the program requested it; -1 */
	_Atomic(uint32_t) position; /* entries given */
	_Atomic(DIR *) successor;
	const struct hw_record *record;
	const struct hw_listing *listing;
	struct dirent64 entry;
};

static struct stream streams[STREAMS_MAX];
static _Atomic(uint32_t) next_stream;

static struct stream *ours(DIR *dir)
{
	uintptr_t at = (uintptr_t)dir, first = (uintptr_t)streams;
	return at >= first && at < first + sizeof streams ? (struct stream *)dir : NULL;
}

static struct stream *take(const struct hw_record *record, const struct hw_listing *listing, int fd)
{
	uint32_t first = atomic_load_explicit(&next_stream, memory_order_relaxed);
	for (uint32_t i = 0; i < STREAMS_MAX; i++) {
		uint32_t number = (first + i) % STREAMS_MAX;
		struct stream *stream = &streams[number];
		if (atomic_load_explicit(&stream->taken, memory_order_relaxed) ||
			atomic_exchange_explicit(&stream->taken, true, memory_order_acquire))
			continue;
		atomic_store_explicit(&next_stream, number + 1, memory_order_relaxed);
		stream->record = record;
		stream->listing = listing;
		atomic_store(&stream->fd, fd);
		atomic_store(&stream->position, 0);
		atomic_store(&stream->successor, NULL);
		return stream;
	}
	return NULL;
}

/* Returns libc's stream on the same directory after the first `skip` entries; NULL if it can't be opened. */
static DIR *hand_over(struct hwa_namespace *ns, struct stream *stream, uint32_t skip);

/* Returns a stream for the directory; UNSERVED_POINTER if the original must be called. */
static __attribute__((noinline)) DIR *serve_opendir(struct hwa_namespace *ns, int dirfd, const char *path, int fd)
{
	HWA_FOUND(found);
	int result = look_up(ns, dirfd, path, HW_WANT_LISTING, &found);
	if (result != 0)
		return pointer_for(result);
	if (HW_KIND(found.state) == HW_FILE) {
		fail(ns, ENOTDIR);
		return NULL;
	}
	if (HW_KIND(found.state) != HW_DIR || !(found.state & HW_LISTED) || found.state & HW_LISTING_PASSTHROUGH)
		return UNSERVED_POINTER;
	const struct hw_listing *listing = hwa_listing_of(found.record, found.state);
	struct stream *stream = listing ? take(found.record, listing, fd) : NULL;
	return stream ? (DIR *)stream : UNSERVED_POINTER;
}

SERVED(DIR *, opendir, (const char *path), (path), serve_opendir(ns, AT_FDCWD, path, -1))

/* Reading starts at the descriptor's position, which only libc can do if it isn't the start. */
static DIR *serve_fdopendir(struct hwa_namespace *ns, int fd)
{
	long flags = hwa_sys(__NR_fcntl, fd, F_GETFL);
	if (flags < 0 || flags & O_PATH || hwa_sys(__NR_lseek, fd, 0, SEEK_CUR) != 0)
		return UNSERVED_POINTER;
	DIR *dir = serve_opendir(ns, fd, ".", fd);
	return dir ? dir : UNSERVED_POINTER;
}

SERVED(DIR *, fdopendir, (int fd), (fd), serve_fdopendir(ns, fd))

static int release(struct stream *stream)
{
	int fd = atomic_load(&stream->fd);
	atomic_store_explicit(&stream->taken, false, memory_order_release);
	return fd < 0 ? 0 : (int)hwa_sys(__NR_close, fd);
}

WRAP(int, closedir, (DIR * dir), (dir))
{
	struct stream *stream = dir ? ours(dir) : NULL;
	if (!stream)
		return REAL(closedir)(dir);
	DIR *successor = atomic_load(&stream->successor);
	int error = release(stream);
	if (successor)
		return REAL(closedir)(successor);
	return error < 0 ? fail(ns, -error) : 0;
}

/* Opens the original directory for calls that need a descriptor. */
static int serve_dirfd(struct hwa_namespace *ns, struct stream *stream)
{
	int none = -1;
	int fd = atomic_load(&stream->fd);
	if (fd >= 0)
		return fd;
	fd = (int)hwa_sys(__NR_openat, AT_FDCWD, stream->record->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK,
		0);
	if (fd < 0)
		return fail(ns, -fd);
	if (atomic_compare_exchange_strong(&stream->fd, &none, fd))
		return fd;
	hwa_sys(__NR_close, fd);
	return none;
}

WRAP(int, dirfd, (DIR * dir), (dir))
{
	struct stream *stream = ours(dir);
	if (!stream)
		return REAL(dirfd)(dir);
	DIR *successor = atomic_load(&stream->successor);
	return successor ? REAL(dirfd)(successor) : serve_dirfd(ns, stream);
}

void hwa_give_entry(struct dirent *out, const struct hw_listing_entry *entry, const char *name, uint32_t number)
{
	out->d_ino = entry->ino;
	out->d_off = number + 1;
	out->d_reclen = (uint16_t)((offsetof(struct dirent, d_name) + entry->name_bytes + 1 + 7) & ~(size_t)7);
	out->d_type = entry->d_type;
	/* The whole record, as the kernel copies it. */
	memset(out->d_name, 0, out->d_reclen - offsetof(struct dirent, d_name));
	memcpy(out->d_name, name, entry->name_bytes + 1u);
}

/* Fills `out` with the next entry: 1, 0 at the end, -1 if the listing is damaged. */
static int next_entry(struct stream *stream, struct dirent64 *out)
{
	uint32_t number = atomic_load(&stream->position);
	do {
		if (number >= stream->listing->count)
			return 0;
	} while (!atomic_compare_exchange_weak(&stream->position, &number, number + 1));
	const char *name;
	const struct hw_listing_entry *entry = hwa_listing_name(stream->record, stream->listing, number, &name);
	if (!entry || entry->name_bytes >= sizeof out->d_name) {
		atomic_store(&stream->position, number);
		return -1;
	}
	hwa_give_entry((struct dirent *)out, entry, name, number);
	return 1;
}

static struct dirent64 *serve_readdir(struct hwa_namespace *ns, struct stream *stream, DIR **successor)
{
	*successor = atomic_load(&stream->successor);
	if (*successor)
		return NULL;
	int result = next_entry(stream, &stream->entry);
	if (result < 0) {
		*successor = hand_over(ns, stream, atomic_load(&stream->position));
		if (!*successor)
			fail(ns, EIO);
	}
	return result > 0 ? &stream->entry : NULL;
}

#define WRAP_READDIR(type, name) \
	static type *name##_ours(struct hwa_namespace *ns, struct stream *stream); \
	WRAP(type *, name, (DIR * dir), (dir)) \
	{ \
		struct stream *stream = ours(dir); \
		return stream ? name##_ours(ns, stream) : REAL(name)(dir); \
	} \
	static type *name##_ours(struct hwa_namespace *ns, struct stream *stream) \
	{ \
		DIR *successor; \
		struct dirent64 *entry = serve_readdir(ns, stream, &successor); \
		return successor ? REAL(name)(successor) : (type *)entry; \
	}
WRAP_READDIR(struct dirent, readdir)
WRAP_READDIR(struct dirent64, readdir64)

static DIR *hand_over(struct hwa_namespace *ns, struct stream *stream, uint32_t skip)
{
	int fd = atomic_load(&stream->fd);
	DIR *successor = fd < 0 ? REAL(opendir)(stream->record->path) : NULL;
	if (fd >= 0) {
		hwa_sys(__NR_lseek, fd, 0, SEEK_SET);
		successor = REAL(fdopendir)(fd);
	}
	if (!successor)
		return NULL;
	/* The successor owns the descriptor, if any. */
	atomic_store(&stream->fd, -1);
	while (skip-- > 0 && REAL(readdir64)(successor))
		;
	atomic_store(&stream->successor, successor);
	return successor;
}

#define WRAP_READDIR_R(type, name) \
	WRAP(int, name, (DIR * dir, type * entry, type * *result), (dir, entry, result)) \
	{ \
		struct stream *stream = ours(dir); \
		if (!stream) \
			return REAL(name)(dir, entry, result); \
		DIR *successor = atomic_load(&stream->successor); \
		int given = successor ? -1 : next_entry(stream, (struct dirent64 *)entry); \
		if (given >= 0) { \
			*result = given ? entry : NULL; \
			return 0; \
		} \
		if (!successor) \
			successor = hand_over(ns, stream, atomic_load(&stream->position)); \
		return successor ? REAL(name)(successor, entry, result) : EIO; \
	}
WRAP_READDIR_R(struct dirent, readdir_r)
WRAP_READDIR_R(struct dirent64, readdir64_r)

/* A rewound stream must show the directory as it is now. */
WRAP(void, rewinddir, (DIR * dir), (dir))
{
	struct stream *stream = ours(dir);
	DIR *successor = stream ? atomic_load(&stream->successor) : dir;
	if (!successor) {
		uint64_t state = __atomic_load_n(&stream->record->state, __ATOMIC_ACQUIRE);
		atomic_store(&stream->position, 0);
		if (state & (HW_LISTING_PASSTHROUGH | HW_PASSTHROUGH | HW_TREE_PASSTHROUGH) || hwa_unaudited())
			hand_over(ns, stream, 0);
		return;
	}
	REAL(rewinddir)(successor);
}

WRAP(long, telldir, (DIR * dir), (dir))
{
	struct stream *stream = ours(dir);
	DIR *successor = stream ? atomic_load(&stream->successor) : dir;
	return successor ? REAL(telldir)(successor) : (long)atomic_load(&stream->position);
}

WRAP(void, seekdir, (DIR * dir, long position), (dir, position))
{
	struct stream *stream = ours(dir);
	DIR *successor = stream ? atomic_load(&stream->successor) : dir;
	if (successor)
		REAL(seekdir)(successor, position);
	else
		atomic_store(&stream->position, position < 0 ? 0 : (uint32_t)position);
}
