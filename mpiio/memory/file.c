/* A fixed pool of files, so that releasing one never allocates or frees. */
#include "memory/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "memory/lease.h"
#include "real.h"

/* File systems whose content other nodes see too, by the magic number of statfs(2). */
static const uint32_t shared_file_systems[] = {
	NFS_SUPER_MAGIC, /* NFS */
	0x65735546,      /* FUSE: GlusterFS, BeeGFS and others */
	0x0bd00bd0,      /* Lustre */
	0x47504653,      /* GPFS */
	0x19830326,      /* BeeGFS */
	0x00c36400,      /* Ceph */
	0x7461636f,      /* OCFS2 */
	0x01161970,      /* GFS2 */
	0xaad7aaea,      /* PanFS */
	0x20030528,      /* OrangeFS */
	0x01021997,      /* 9P */
};

/* Not in linux/magic.h. */
#define CONFIGFS 0x62656570
#define FILES_MAX 512
/* The kernel caches up to so many pages as a unit, a folio, and drops it as a whole or not at all. */
#define LARGE_FOLIO_PAGES 512
/* Pages that are examined to find out whether a part of a file is in memory. */
#define CACHED_SAMPLES 8

static struct hwio_file pool[FILES_MAX];
static struct hwio_file *unused, *known;
static uint64_t boot;

#define BANNED_MAX 64

static struct banned {
	uint64_t device, inode;
} banned[BANNED_MAX];
static size_t banned_count;
static bool is_everything_banned;
static bool never_closes;

static uint64_t find_boot(void)
{
	char text[64];
	int descriptor = hwio_libc.open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		return 0;
	ssize_t length = hwio_libc.read(descriptor, text, sizeof(text));
	hwio_libc.close(descriptor);
	return length > 0 ? hwio_hash(HWIO_HASH_START, text, (size_t)length) : 0;
}

uint64_t hwio_file_boot(void)
{
	return boot;
}

void hwio_file_start(void)
{
	boot = find_boot();
	for (size_t i = 0; i < FILES_MAX; i++) {
		pool[i].next = unused;
		unused = &pool[i];
	}
}

static bool is_shared(uint64_t file_system)
{
	for (size_t i = 0; i < sizeof(shared_file_systems) / sizeof(*shared_file_systems); i++)
		if ((uint32_t)file_system == shared_file_systems[i])
			return true;
	return false;
}

bool hwio_identity_is_shared(const struct hwio_identity *identity)
{
	return is_shared(identity->file_system);
}

bool hwio_identity_is_nfs(const struct hwio_identity *identity)
{
	return identity->file_system == NFS_SUPER_MAGIC;
}

bool hwio_file_system_is_shared(int descriptor)
{
	struct statfs about;
	return fstatfs(descriptor, &about) == 0 && is_shared((uint64_t)about.f_type);
}

static int64_t nanoseconds(struct timespec time)
{
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void copy_status(struct hwio_identity *identity, const struct stat *status)
{
	identity->device = status->st_dev;
	identity->inode = status->st_ino;
	identity->bytes = status->st_size;
	identity->modified_ns = nanoseconds(status->st_mtim);
	identity->changed_ns = nanoseconds(status->st_ctim);
	identity->boot = boot;
}

bool hwio_identity_of(int descriptor, const struct stat *status, struct hwio_identity *identity)
{
	struct statfs system;
	/* Files of these end before the size that they show. */
	if (fstatfs(descriptor, &system) != 0 || system.f_type == SYSFS_MAGIC || system.f_type == CONFIGFS)
		return false;
	copy_status(identity, status);
	identity->file_system = (uint32_t)system.f_type;
	return true;
}

bool hwio_identity_agrees(const struct hwio_identity *a, const struct hwio_identity *b, bool is_written)
{
	bool is_here = a->boot != 0 && a->boot == b->boot && a->device == b->device;
	if (a->inode != b->inode || (!is_here && (a->file_system != b->file_system || !is_shared(a->file_system))))
		return false;
	return is_written ||
		(a->bytes == b->bytes && a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns);
}

static struct hwio_file *allocate_file(const struct hwio_identity *identity)
{
	struct hwio_file *file = unused;
	if (!file)
		return NULL;
	unused = file->next;
	memset(file, 0, sizeof(*file));
	file->identity = *identity;
	file->references = 1;
	file->next = known;
	known = file;
	return file;
}

static void find_path(struct hwio_file *file, int descriptor)
{
	char link[32];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
	ssize_t length = readlink(link, file->path, sizeof(file->path));
	/* A removed file's link reads "… (deleted)". */
	struct stat status;
	bool is_named = length > 0 && (size_t)length < sizeof(file->path) && file->path[0] == '/';
	file->path[is_named ? length : 0] = 0;
	if (is_named && (!hwio_status_untimed(AT_FDCWD, file->path, &status) || status.st_ino != file->identity.inode))
		file->path[0] = 0;
}

struct hwio_file *hwio_file_of(int descriptor, const struct stat *status)
{
	struct hwio_identity identity = {0};
	copy_status(&identity, status);
	for (struct hwio_file *file = known; file; file = file->next) {
		identity.file_system = file->identity.file_system;
		if (!file->has_changed_here && memcmp(&file->identity, &identity, sizeof(identity)) == 0) {
			file->references++;
			return file;
		}
	}
	if (never_closes || !hwio_identity_of(descriptor, status, &identity))
		return NULL;
	/* A description of the engine's own, which can have a lease. */
	char link[32];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
	int own = hwio_libc.open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int high = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 512) : fcntl(descriptor, F_DUPFD_CLOEXEC, 512);
	if (high < 0)
		high = own >= 0 ? own : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
	if (own >= 0 && own != high)
		hwio_libc.close(own);
	struct hwio_file *file = high >= 0 ? allocate_file(&identity) : NULL;
	if (!file) {
		if (high >= 0)
			hwio_libc.close(high);
		return NULL;
	}
	file->descriptor = high;
	find_path(file, descriptor);
	return file;
}

static struct hwio_file *find_or_open(const char *path, int flags, const struct hwio_identity *wanted)
{
	struct stat status;
	struct hwio_identity identity = {0};
	bool is_written = (flags & O_ACCMODE) != O_RDONLY;
	for (struct hwio_file *file = known; file && !is_written; file = file->next) {
		if (strcmp(file->path, path) == 0 && hwio_identity_agrees(&file->identity, wanted, false)) {
			file->references++;
			return file;
		}
	}
	if (never_closes) {
		errno = ENOLCK;
		return NULL;
	}
	int descriptor = hwio_libc.open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (descriptor < 0)
		return NULL;
	int high = fcntl(descriptor, F_DUPFD_CLOEXEC, 512);
	if (high >= 0)
		hwio_libc.close(descriptor);
	else
		high = descriptor;
	struct hwio_file *file = NULL;
	if (fstat(high, &status) == 0 && S_ISREG(status.st_mode) && hwio_identity_of(high, &status, &identity) &&
		hwio_identity_agrees(&identity, wanted, is_written))
		file = allocate_file(&identity);
	if (!file) {
		hwio_libc.close(high);
		return NULL;
	}
	file->descriptor = high;
	/* Readers don't find files that were opened for writing. */
	if (!is_written)
		snprintf(file->path, sizeof(file->path), "%s", path);
	else
		memset(&file->identity, 0, sizeof(file->identity));
	return file;
}

struct hwio_file *hwio_file_open(const char *path, int flags, const struct hwio_identity *wanted)
{
	hwio_enter();
	struct hwio_file *file = find_or_open(path, flags, wanted);
	int saved = errno;
	hwio_leave();
	errno = saved;
	return file;
}

struct hwio_file *hwio_file_open_now(const char *path, const struct hwio_identity *same)
{
	struct stat status;
	struct hwio_identity now = *same;
	if (stat(path, &status) != 0 || hwio_file_is_banned(&status))
		return NULL;
	copy_status(&now, &status);
	return hwio_identity_agrees(&now, same, true) ? hwio_file_open(path, O_RDONLY, &now) : NULL;
}

bool hwio_path_is_sound(const char path[HWIO_PATH_BYTES_MAX], uint32_t bytes)
{
	return bytes > 1 && bytes <= HWIO_PATH_BYTES_MAX && path[0] == '/' && strnlen(path, bytes) == bytes - 1;
}

void hwio_file_retain(struct hwio_file *file)
{
	file->references++;
}

static void free_file(struct hwio_file *file)
{
	hwio_file_unlease(file);
	if (!never_closes)
		hwio_libc.close(file->descriptor);
	struct hwio_file **link = &known;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	file->next = unused;
	unused = file;
}

void hwio_file_release(struct hwio_file *file)
{
	hwio_enter();
	if (--file->references == 0)
		free_file(file);
	hwio_leave();
}

bool hwio_file_is_unchanged(struct hwio_file *file)
{
	struct stat status;
	struct hwio_identity now = {0};
	if (fstat(file->descriptor, &status) != 0)
		return false;
	copy_status(&now, &status);
	if (file->has_changed_here) {
		copy_status(&file->identity, &status);
		file->has_changed_here = false;
	}
	return now.bytes == file->identity.bytes && now.modified_ns == file->identity.modified_ns;
}

bool hwio_file_lease(struct hwio_file *file)
{
	if (file->is_leased)
		return true;
	file->is_leased = hwio_lease_acquire(file->descriptor);
	/* A process, maybe the program itself, has the file open for writing and could change it at any time. On a
	 * shared file system no lease reports the changes of other nodes, so the answer is yes all the same. */
	return file->is_leased || errno != EAGAIN || is_shared(file->identity.file_system);
}

void hwio_file_unlease(struct hwio_file *file)
{
	if (file->is_leased)
		hwio_lease_release(file->descriptor);
	file->is_leased = false;
}

struct hwio_file *hwio_file_with_broken_lease(void)
{
	for (struct hwio_file *file = known; file; file = file->next)
		if (file->is_leased && hwio_lease_is_broken(file->descriptor))
			return file;
	return NULL;
}

struct hwio_file *hwio_file_known(uint64_t device, uint64_t inode)
{
	struct hwio_file *file;
	hwio_enter();
	for (file = known; file; file = file->next)
		if (file->identity.device == device && file->identity.inode == inode) {
			hwio_file_retain(file);
			break;
		}
	hwio_leave();
	return file;
}

static struct hwio_file *by_descriptor(int descriptor)
{
	for (struct hwio_file *file = known; file; file = file->next)
		if (file->descriptor == descriptor)
			return file;
	return NULL;
}

bool hwio_file_owns(int descriptor)
{
	hwio_enter();
	bool is_own = descriptor >= 0 && by_descriptor(descriptor);
	hwio_leave();
	return is_own;
}

void hwio_file_stop_closing(void)
{
	never_closes = true;
}

void hwio_file_refresh(int descriptor)
{
	struct stat status;
	hwio_enter();
	bool is_found = known && hwio_status_untimed(descriptor, NULL, &status) && S_ISREG(status.st_mode);
	for (struct hwio_file *file = known; file && is_found; file = file->next) {
		if (file->identity.device != status.st_dev || file->identity.inode != status.st_ino)
			continue;
		struct stat timed;
		file->has_changed_here = hwio_identity_is_nfs(&file->identity);
		if (!file->has_changed_here && fstat(descriptor, &timed) == 0)
			copy_status(&file->identity, &timed);
	}
	hwio_leave();
}

bool hwio_file_is_cached(const struct hwio_file *file, off_t offset, size_t bytes)
{
	bool is_cached = true;
	for (size_t i = 0; i < CACHED_SAMPLES && is_cached; i++) {
		unsigned char state = 0;
		off_t at = offset + (off_t)(bytes / CACHED_SAMPLES * i);
		void *page = hwio_libc.mmap(NULL, hwio_page_bytes, PROT_READ, MAP_SHARED, file->descriptor,
			(off_t)hwio_page_down((uintptr_t)at));
		is_cached = page != MAP_FAILED && hwio_libc.mincore(page, hwio_page_bytes, &state) == 0 && (state & 1);
		if (page != MAP_FAILED)
			hwio_libc.munmap(page, hwio_page_bytes);
	}
	return is_cached;
}

void hwio_file_forget(int descriptor)
{
	/* The whole file: of a range, the kernel would retain the pages at its ends. */
	posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

int hwio_file_send(int descriptor, uint64_t low, uint64_t high)
{
	off_t unit = (off_t)(LARGE_FOLIO_PAGES * hwio_page_bytes), from = (off_t)low / unit * unit;
	int flags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	int error = sync_file_range(descriptor, (off_t)low, (off_t)(high - low), flags) == 0 ? 0 : errno;
	posix_fadvise(descriptor, from, ((off_t)high + unit - 1) / unit * unit - from, POSIX_FADV_DONTNEED);
	return error;
}

void hwio_file_forget_path(const struct stat *status)
{
	hwio_enter();
	for (struct hwio_file *file = known; file; file = file->next)
		if (file->identity.device == status->st_dev && file->identity.inode == status->st_ino)
			file->path[0] = 0;
	hwio_leave();
}

void hwio_file_move(int descriptor)
{
	hwio_enter();
	struct hwio_file *file = by_descriptor(descriptor);
	int other = file ? fcntl(descriptor, F_DUPFD_CLOEXEC, descriptor + 1) : -1;
	if (other >= 0)
		file->descriptor = other;
	hwio_leave();
}

void hwio_file_ban(const struct stat *status)
{
	hwio_enter();
	/* If the table is full, reads of all files are no longer deferred. */
	if (banned_count < BANNED_MAX)
		banned[banned_count++] = (struct banned){status->st_dev, status->st_ino};
	else
		is_everything_banned = true;
	hwio_leave();
}

bool hwio_file_is_banned(const struct stat *status)
{
	for (size_t i = 0; i < banned_count; i++)
		if (banned[i].device == status->st_dev && banned[i].inode == status->st_ino)
			return true;
	return is_everything_banned;
}
