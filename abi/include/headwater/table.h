/* The shared table, for C readers: layout only. abi/src/table/mod.rs has its meaning and the rules for reading without
 * a lock. abi/tests/mirror.rs compares every name here with Rust's. */
#ifndef HEADWATER_TABLE_H
#define HEADWATER_TABLE_H

#include <stdint.h>

#define HW_TABLE_MAGIC UINT64_C(0x00454c4241545748) /* "HWTABLE\0" */
#define HW_TABLE_VERSION 2
#define HW_PROBES_MAX 128
#define HW_PATH_BYTES_MAX 4095
#define HW_HASH_MULTIPLIER UINT64_C(0xc6a4a7935bd1e995)

struct hw_header {
	uint64_t magic, version, total_bytes, generation;
	uint64_t slots_at, slot_count, ino_slots_at, ino_slot_count;
	uint64_t heap_at, heap_used;
	uint64_t scope_at, scope_bytes; /* "+/dir\0-/dir/sub\0": the longest match decides */
	uint64_t store_at, store_bytes; /* the mirror's prefix */
	uint64_t socket_at, socket_bytes;
	uint64_t counters_at, counters_bytes;
	uint64_t store_dev; /* major | minor << 32 */
	uint64_t serving;   /* 1 while the daemon serves, 2 afterwards */
	uint64_t records;
	uint64_t domains;                         /* bit N: memory domain N has a mirror of its own, at "…/rootN" */
	uint64_t root_dev, root_ino, root_mnt_id; /* the daemon's root directory */
	uint64_t mnt_ns, user_ns;                 /* and its namespaces, by inode number; 0 if not known */
	uint64_t unaudited;                       /* 1 once programs run that do not announce their changes */
	uint64_t stored_file_bytes_max;           /* larger files are read from their source; 0: no limit */
	uint64_t mount_at, mount_bytes;           /* the mount in which large files are read; no bytes: none */
	uint64_t mount_dev;                       /* as store_dev */
	uint64_t unfollowed;                      /* 1: what processes start runs without the audit library */
	uint64_t reserved[31];
};

/* A slot: tag << 32 | record's offset / 8; zero if empty. The tag is the hash's upper half, 1 for 0. */

struct hw_attr {
	uint32_t mode, nlink;
	uint32_t uid, gid;
	uint64_t ino;
	uint32_t dev_major, dev_minor;
	uint32_t rdev_major, rdev_minor;
	uint64_t size, blocks;
	uint32_t blksize, mask;
	uint64_t attributes, attributes_mask;
	int64_t atime_s, mtime_s, ctime_s, btime_s;
	uint32_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t mnt_id;
	uint64_t store_ino; /* inode number of the store's copy, once there is one */
};

struct hw_record {
	uint64_t state; /* read once, with acquire order, before the rest */
	uint32_t path_bytes, tag;
	uint64_t aux_at, aux_bytes; /* a directory's listing, a link's target */
	struct hw_attr attr;
	uint64_t lookups; /* for the file system that a node mounts */
	uint64_t passing; /* likewise */
	char path[];      /* NUL-padded to a multiple of 8, at least one NUL */
};

/* state: kind in bits 0-7, error number in bits 8-23, then bits. */
enum hw_kind {
	HW_UNKNOWN = 0,
	HW_ABSENT = 1,
	HW_DIR = 2,
	HW_FILE = 3,
	HW_LINK = 4,
	HW_ERROR = 5,
	HW_OTHER = 6,
};
#define HW_KIND(state) ((unsigned)((state)&0xff))
#define HW_ERRNO(state) ((int)((state) >> 8 & 0xffff))
#define HW_ATTR (UINT64_C(1) << 32)
#define HW_LISTED (UINT64_C(1) << 33)
#define HW_LOADABLE (UINT64_C(1) << 34)
#define HW_WHOLE (UINT64_C(1) << 35)
#define HW_PASSTHROUGH (UINT64_C(1) << 36)
#define HW_LISTING_PASSTHROUGH (UINT64_C(1) << 37)
#define HW_UNLISTABLE (UINT64_C(1) << 38)
#define HW_NATIVE_OBJECT (UINT64_C(1) << 39)
#define HW_EXECUTABLE (UINT64_C(1) << 40)
#define HW_SCRIPT (UINT64_C(1) << 41)
#define HW_TREE_PASSTHROUGH (UINT64_C(1) << 42)
#define HW_REPLICATED (UINT64_C(1) << 43)
#define HW_REPLICATED_WHOLE (UINT64_C(1) << 44)
#define HW_DIRECT (UINT64_C(1) << 45)
#define HW_IN_MOUNT (UINT64_C(1) << 46)

/* A directory's listing: this header, index_slots words of 4 bytes (0, or an entry's number + 1; open
 * addressing from the low bits of the name's hash), count entries, then the names with their NULs. */
struct hw_listing {
	uint32_t count, index_slots;
	uint32_t index[];
};
struct hw_listing_entry {
	uint64_t ino;
	uint32_t name_at; /* from the listing's start */
	uint16_t name_bytes;
	uint8_t d_type, zero;
};

#endif
