/* Finds files that all ranks share: on one node, all; otherwise, those on a network file system that all ranks have
 * mounted at the same place. The file systems themselves are not accessed: one that doesn't respond would delay the
 * job's start. */
#include "mpi/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mpi/control.h"
#include "mpi/nodes.h"
#include "real.h"

#define MOUNTS_MAX 64
/* What the daemons have mounted: they fetch a file once for all nodes. */
#define SERVED_TYPE "fuse.headwater"

/* When other nodes see a write: at once; after the writer has requested the file's size, which makes GlusterFS send its
 * buffers; or after it has synchronised the file. */
enum seen { SEEN_AT_ONCE, SEEN_BY_STAT, SEEN_BY_SYNC };

/* A name that ends in a dot is a prefix; the first match counts. Of NFS, the mounted source counts, too: two servers may
 * have the same numbers of inodes. */
static const struct {
	const char *name;
	enum seen seen;
} network_types[] = {
	{SERVED_TYPE, SEEN_BY_SYNC},
	{"lustre", SEEN_AT_ONCE},
	{"gpfs", SEEN_AT_ONCE},
	{"ceph", SEEN_AT_ONCE},
	{"ocfs2", SEEN_AT_ONCE},
	{"gfs2", SEEN_AT_ONCE},
	{"panfs", SEEN_AT_ONCE},
	{"pvfs2", SEEN_BY_SYNC},
	{"beegfs", SEEN_BY_SYNC},
	{"nfs", SEEN_BY_SYNC},
	{"nfs4", SEEN_BY_SYNC},
	{"9p", SEEN_BY_SYNC},
	{"fuse.glusterfs", SEEN_BY_STAT},
	{"fuse.", SEEN_BY_SYNC},
};
#define NETWORK_TYPES (sizeof(network_types) / sizeof(*network_types))

struct mount {
	uint64_t device, hash;
	enum seen seen;
	bool is_served;
};

static struct mount mounts[MOUNTS_MAX];
static size_t mount_count;
static uint64_t common;
static bool is_one_node;

/* For nodes that are namespaces of one machine: the same device is the same file system. */
static bool is_local(const char *type)
{
	static const char *const local_types[] = {
		"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay", "zfs"};
	for (size_t i = 0; i < sizeof(local_types) / sizeof(*local_types); i++)
		if (strcmp(type, local_types[i]) == 0)
			return true;
	return false;
}

static bool is_network(const char *type, enum seen *seen)
{
	for (size_t i = 0; i < NETWORK_TYPES; i++) {
		size_t length = strlen(network_types[i].name);
		bool is_prefix = network_types[i].name[length - 1] == '.';
		if (strncmp(type, network_types[i].name, length) == 0 && (is_prefix || !type[length])) {
			*seen = network_types[i].seen;
			return true;
		}
	}
	return false;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw". Other file systems are skipped. */
void hwio_mounts_parse(FILE *file, bool is_one_machine)
{
	char *line = NULL;
	size_t capacity = 0;
	while (mount_count < MOUNTS_MAX && getline(&line, &capacity, file) > 0) {
		unsigned int major, minor;
		char point[HWIO_PATH_BYTES_MAX], type[64], source[HWIO_PATH_BYTES_MAX] = "";
		const char *rest = strstr(line, " - ");
		if (!rest || sscanf(line, "%*s %*s %9u:%9u %*s %1023s", &major, &minor, point) != 3 ||
			sscanf(rest, " - %63s %1023s", type, source) < 1)
			continue;
		enum seen seen = SEEN_AT_ONCE;
		bool is_common = is_network(type, &seen);
		if (is_common || (is_one_machine && is_local(type))) {
			uint64_t device = makedev(major, minor),
				 hash = hwio_hash(hwio_hash(HWIO_HASH_START, type, strlen(type)), point, strlen(point));
			if (strncmp(type, "nfs", 3) == 0)
				hash = hwio_hash(hash, source, strlen(source));
			mounts[mount_count++] = (struct mount){
				device, is_common ? hash : hash ^ device << 20, seen, strcmp(type, SERVED_TYPE) == 0};
		}
	}
	free(line);
}

static void find_mounts(bool is_one_machine)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	if (file) {
		hwio_mounts_parse(file, is_one_machine);
		fclose(file);
	}
}

/* Computes digests of the machine and of its mount namespace; if unknown, the rank's number + 1. */
static void find_machine(uint64_t *machine, uint64_t *view)
{
	char link[64];
	ssize_t length = readlink("/proc/self/ns/mnt", link, sizeof(link));
	bool is_known = length > 0 && hwio_file_boot() != 0;
	*machine = is_known ? hwio_file_boot() : (uint64_t)hwio_rank + 1;
	*view = is_known ? hwio_hash(*machine, link, (size_t)length) : (uint64_t)hwio_rank + 1;
}

void hwio_mounts_start(void)
{
	uint64_t mine[4], least[4], hashes[MOUNTS_MAX] = {0}, here = 0;
	find_machine(&mine[0], &mine[1]);
	mine[2] = ~mine[0];
	mine[3] = ~mine[1];
	hwio_together_reduce(mine, least, 4, MPI_UINT64_T, MPI_MIN);
	is_one_node = least[1] == ~least[3];
	hwio_nodes_start(mine[1]);
	find_mounts(least[0] == ~least[2]);
	for (size_t i = 0; i < mount_count; i++)
		hashes[i] = mounts[i].hash;
	hwio_together_broadcast(hashes, sizeof(hashes));
	for (size_t i = 0; i < MOUNTS_MAX; i++)
		for (size_t own = 0; own < mount_count; own++)
			if (hashes[i] && mounts[own].hash == hashes[i])
				here |= 1ULL << i;
	hwio_together_reduce(&here, &common, 1, MPI_UINT64_T, MPI_BAND);
	/* Mounts that not all ranks have are removed. */
	for (size_t own = 0; own < mount_count; own++) {
		bool is_common = false;
		for (size_t i = 0; i < MOUNTS_MAX; i++)
			is_common |= (common >> i & 1) && hashes[i] == mounts[own].hash;
		if (!is_common)
			mounts[own].device = 0;
	}
}

/* Returns NULL if not all ranks have it. */
static const struct mount *find_mount(uint64_t device)
{
	for (size_t i = 0; i < mount_count; i++)
		if (device && mounts[i].device == device)
			return &mounts[i];
	return NULL;
}

bool hwio_mounts_share(const struct hwio_identity *identity)
{
	return is_one_node || find_mount(identity->device);
}

bool hwio_mounts_is_near(const struct hwio_identity *identity)
{
	const struct mount *mount = find_mount(identity->device);
	return is_one_node || (mount && mount->is_served);
}

int hwio_mounts_publish(int descriptor)
{
	struct stat status;
	struct statx fresh;
	if (is_one_node)
		return 0;
	if (!hwio_status_untimed(descriptor, NULL, &status))
		return errno;
	const struct mount *mount = find_mount(status.st_dev);
	if (!mount || mount->seen == SEEN_AT_ONCE)
		return 0;
	int result = mount->seen == SEEN_BY_STAT
		? statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &fresh)
		: hwio_libc.fdatasync(descriptor);
	int error = result == 0 ? 0 : errno;
	/* A client of NFS takes a change of the file at about the same time for its own write. So no page remains that
	 * other nodes may have changed. */
	hwio_file_forget(descriptor);
	return error;
}

void hwio_mounts_forget(int descriptor)
{
	struct stat status;
	struct statx fresh;
	hwio_file_forget(descriptor);
	if (hwio_status_untimed(descriptor, NULL, &status) && find_mount(status.st_dev) &&
		find_mount(status.st_dev)->seen == SEEN_BY_SYNC)
		statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &fresh);
}

bool hwio_mounts_is_one_node(void)
{
	return is_one_node;
}
