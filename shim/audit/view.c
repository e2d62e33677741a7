/* Finds out whether this process sees the same files as the daemon.
 *
 * With another root directory or mount namespace, the table's paths may name other files, as in a container whose image
 * has a /usr of its own. With another user namespace, the same files have other owners. What can't be determined counts
 * as different. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>

#include "shim.h"
#include "sys.h"

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

long hwa_handing_on;

/* The namespace's inode number; 0 if unknown. */
static uint64_t namespace(const char *link)
{
	struct stat st;

	return hwa_sys(__NR_newfstatat, AT_FDCWD, link, &st, 0) < 0 ? 0 : st.st_ino;
}

bool hwa_has_same_view(const struct hw_header *header)
{
	struct statx root;

	if (!header->mnt_ns || namespace("/proc/self/ns/mnt") != header->mnt_ns || !header->user_ns ||
		namespace("/proc/self/ns/user") != header->user_ns ||
		hwa_sys(__NR_statx, AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &root) < 0)
		return false;
	uint64_t mount = root.stx_mask & STATX_MNT_ID ? root.stx_mnt_id : 0;
	return root.stx_ino == header->root_ino && mount == header->root_mnt_id &&
		header->root_dev == ((uint64_t)root.stx_dev_major | (uint64_t)root.stx_dev_minor << 32);
}
