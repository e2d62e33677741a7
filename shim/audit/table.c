/* The node's table: a read-only mapping whose content is not trusted. Every offset and length is checked against the
 * mapping, every loop has a limit, and damage reads as "not known". Attaching is all or nothing: without a usable table
 * no path is in the scope. */
#include <sys/mman.h>
#include <sys/resource.h>

#include "shim.h"
#include "sys.h"

#define SCOPE_MAX 256
/* The table may use this fraction of a limited address space. */
#define SHARE_OF_LIMIT 16
#define STRINGS_BYTES ((size_t)64 << 10)
/* Memory domains that the header can name. */
#define DOMAINS_MAX 64

struct text {
	const char *at;
	size_t bytes;
};

struct scope_entry {
	const char *directory;
	uint32_t bytes;
	bool included;
};

static struct {
	const char *base; /* NULL until attached, then constant */
	size_t bytes;
	uint64_t slots_at, slot_mask, ino_slots_at, ino_slot_mask;
	bool given_up;
	bool left;
	bool away; /* for as long as it makes a child that sees other files */
	struct text store, socket, mount;
	size_t node_bytes; /* of the store's path: without the generation */
	size_t way_bytes;  /* of the store's path: the directory of a disk that is mounted nowhere */
	struct scope_entry scope[SCOPE_MAX];
	size_t scope_count;
	int domain;                   /* -1: no mirror of its own */
	struct hw_counters *counters; /* this process's slot, NULL without a counters file */
} table;

/* The header's strings are copied when they have been checked: whatever happens to the table, paths
 * in the store are still mapped back. */
static char strings[STRINGS_BYTES];
static size_t strings_used;

static const struct hw_header *header(void)
{
	return (const struct hw_header *)table.base;
}

static bool within(uint64_t at, uint64_t bytes, uint64_t limit)
{
	return at <= limit && bytes <= limit - at;
}

/* ---- hashes: abi/src/hash.rs ---- */

static uint64_t fold(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * HW_HASH_MULTIPLIER;
	return hash ^ hash >> 32;
}

static uint64_t finish(uint64_t hash)
{
	hash = (hash ^ hash >> 47) * HW_HASH_MULTIPLIER;
	return hash ^ hash >> 32;
}

uint64_t hwa_hash(const char *data, size_t bytes)
{
	uint64_t hash = (uint64_t)bytes * HW_HASH_MULTIPLIER;
	uint64_t word;

	for (; bytes >= 8; bytes -= 8, data += 8) {
		__builtin_memcpy(&word, data, 8);
		hash = fold(hash, word);
	}
	if (bytes) {
		word = 0;
		for (size_t i = 0; i < bytes; i++)
			word |= (uint64_t)(unsigned char)data[i] << 8 * i;
		hash = fold(hash, word);
	}
	return finish(hash);
}

/* ---- attaching ---- */

/* Copies a part of the header's heap, with a NUL; NULL if it is not inside the table or too long. */
static const char *copy(const char *base, size_t limit, uint64_t at, uint64_t bytes)
{
	char *text = strings + strings_used;

	if (!within(at, bytes, limit) || bytes >= STRINGS_BYTES - strings_used)
		return NULL;
	memcpy(text, base + at, bytes);
	text[bytes] = '\0';
	strings_used += bytes + 1;
	return text;
}

/* An absolute path of the header. */
static bool copy_path(const char *base, size_t limit, uint64_t at, uint64_t bytes, struct text *text)
{
	const char *path = copy(base, limit, at, bytes);

	if (!path || path[0] != '/' || bytes >= HWA_PATH_MAX || strlen(path) != bytes)
		return false;
	*text = (struct text){path, bytes};
	return true;
}

static bool slots_fit(uint64_t at, uint64_t count, size_t limit)
{
	return at % 8 == 0 && count && !(count & (count - 1)) && count <= limit / 8 && within(at, count * 8, limit);
}

/* False if the scope does not fit: a part of it must not be mistaken for the whole. */
static bool read_scope(const char *base, size_t limit, const struct hw_header *h)
{
	uint64_t left = h->scope_bytes;
	const char *entry = copy(base, limit, h->scope_at, left);

	while (entry && left) {
		size_t bytes = strlen(entry);

		if (bytes >= left || bytes < 2 || entry[1] != '/' || (entry[0] != '+' && entry[0] != '-') ||
			table.scope_count == SCOPE_MAX)
			return false;
		table.scope[table.scope_count++] = (struct scope_entry){
			.directory = entry + 1,
			.bytes = bytes == 2 ? 0 : (uint32_t)bytes - 1,
			.included = entry[0] == '+',
		};
		entry += bytes + 1;
		left -= bytes + 1;
	}
	return entry != NULL;
}

static void attach_counters(const char *path)
{
	size_t bytes;
	struct hw_counters *slots = hwa_map_file(path, 1, HW_COUNTER_SLOTS * sizeof(*slots), SIZE_MAX, &bytes);

	if (slots)
		table.counters = &slots[hwa_sys(__NR_getpid) % HW_COUNTER_SLOTS];
	hwa_count(HWA_COUNT_PROCESSES);
}

/* Returns how much of the store's path, "NODE/GENERATION/root", is "NODE"; all if it has another form. */
static size_t node_prefix(const struct text *store)
{
	for (size_t bytes = 1; bytes < store->bytes; bytes++) {
		const char *rest = hwa_after_mirror(store->at + bytes);

		if (rest && *rest == '\0')
			return bytes;
	}
	return store->bytes;
}

static const char *skip_digits(const char *text)
{
	while (*text >= '0' && *text <= '9')
		text++;
	return text;
}

/* A path through /proc/PID/fd/N reaches a disk that is mounted nowhere. The kernel's own names of its files are the
 * rest. */
const char *hwa_after_proc_fd(const char *path)
{
	const char *rest = hwa_after(path, "/proc/");

	rest = rest ? hwa_after(skip_digits(rest), "/fd/") : NULL;
	rest = rest ? skip_digits(rest) : NULL;
	return rest && *rest == '/' ? rest : path;
}

/* A process retains its first domain: an object must always be found in the same mirror. */
static int own_domain(uint64_t domains)
{
	unsigned domain;

	if (!domains || hwa_sys(__NR_getcpu, NULL, &domain, NULL) < 0 || domain >= DOMAINS_MAX)
		return -1;
	return domains >> domain & 1 ? (int)domain : -1;
}

/* Unmaps the table, but not the counters. */
static void detach(void)
{
	const char *base = table.base;

	table.base = NULL;
	table.scope_count = strings_used = 0;
	hwa_sys(__NR_munmap, base, table.bytes);
}

/* Under an address space limit only a part of the table is mapped; what lies behind it is not known. */
static size_t mapped_bytes_max(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (hwa_sys(__NR_prlimit64, 0, RLIMIT_AS, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return (size_t)limit.rlim_cur / SHARE_OF_LIMIT;
}

void hwa_attach(char *const envp[])
{
	const char *path = NULL, *value;
	struct text counters;
	size_t bytes, bytes_max;

	for (; envp && *envp; envp++)
		if ((value = hwa_after(*envp, "HEADWATER_TABLE=")))
			path = value;
	if (table.base || !path || *path != '/')
		return;
	bytes_max = mapped_bytes_max();
	const char *base = hwa_map_file(path, 0, sizeof(struct hw_header), bytes_max, &bytes);
	if (!base)
		return;
	const struct hw_header *h = (const struct hw_header *)base;
	if (__atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) == HW_TABLE_MAGIC && h->version == HW_TABLE_VERSION &&
		(h->total_bytes <= bytes || bytes == bytes_max) && slots_fit(h->slots_at, h->slot_count, bytes) &&
		slots_fit(h->ino_slots_at, h->ino_slot_count, bytes) && read_scope(base, bytes, h) &&
		copy_path(base, bytes, h->socket_at, h->socket_bytes, &table.socket) &&
		copy_path(base, bytes, h->store_at, h->store_bytes, &table.store)) {
		table.bytes = bytes;
		table.slots_at = h->slots_at;
		table.slot_mask = h->slot_count - 1;
		table.ino_slots_at = h->ino_slots_at;
		table.ino_slot_mask = h->ino_slot_count - 1;
		table.node_bytes = node_prefix(&table.store);
		table.way_bytes = (size_t)(hwa_after_proc_fd(table.store.at) - table.store.at);
		table.domain = own_domain(h->domains);
		table.base = base;
		hwa_handing_on = h->unfollowed ? hwa_sys(__NR_getpid) : 0;
		if (copy_path(base, bytes, h->counters_at, h->counters_bytes, &counters))
			attach_counters(counters.at);
		if (!copy_path(base, bytes, h->mount_at, h->mount_bytes, &table.mount))
			table.mount = (struct text){"", 0};
		if (!hwa_has_same_view(h)) {
			/* Its changes are not announced, whatever its name. */
			hwa_announce_unaudited();
			hwa_count(HWA_COUNT_FALLBACKS);
			detach();
		}
	} else {
		table.scope_count = strings_used = 0;
		hwa_sys(__NR_munmap, base, bytes);
	}
}

bool hwa_attached(void)
{
	return table.base != NULL;
}

bool hwa_in_use(void)
{
	return table.base && !__atomic_load_n(&table.given_up, __ATOMIC_RELAXED) &&
		!__atomic_load_n(&table.away, __ATOMIC_RELAXED) &&
		__atomic_load_n(&header()->serving, __ATOMIC_ACQUIRE) == 1;
}

bool hwa_has_ended(void)
{
	return table.base && __atomic_load_n(&header()->serving, __ATOMIC_ACQUIRE) == 2;
}

void hwa_give_up(void)
{
	__atomic_store_n(&table.given_up, true, __ATOMIC_RELAXED);
}

void hwa_leave(void)
{
	__atomic_store_n(&table.left, true, __ATOMIC_RELAXED);
	hwa_give_up();
}

bool hwa_has_left(void)
{
	return __atomic_load_n(&table.left, __ATOMIC_RELAXED);
}

bool hwa_set_suspended(bool away)
{
	return __atomic_exchange_n(&table.away, away, __ATOMIC_RELAXED);
}

bool hwa_unaudited(void)
{
	return table.base && __atomic_load_n(&header()->unaudited, __ATOMIC_ACQUIRE);
}

bool hwa_stores(uint64_t bytes)
{
	uint64_t max = header()->stored_file_bytes_max;

	return max == 0 || bytes <= max;
}

uint64_t hwa_generation(void)
{
	return table.base ? header()->generation : 0;
}

const char *hwa_socket(size_t *bytes)
{
	*bytes = table.socket.bytes;
	return table.socket.at;
}

void hwa_count(enum hwa_counter which)
{
	if (table.counters)
		__atomic_fetch_add((uint64_t *)table.counters + which, 1, __ATOMIC_RELAXED);
}

/* ---- scope and store ---- */

bool hwa_in_scope(const char *path, size_t bytes)
{
	bool included = false;
	size_t longest = 0;

	for (size_t i = 0; i < table.scope_count; i++) {
		const struct scope_entry *entry = &table.scope[i];

		if (entry->bytes >= longest && entry->bytes <= bytes &&
			(entry->bytes == bytes || path[entry->bytes] == '/') &&
			memcmp(entry->directory, path, entry->bytes) == 0) {
			longest = entry->bytes;
			included = entry->included;
		}
	}
	return included;
}

const char *hwa_scope_below(const char *path, size_t bytes, size_t *number)
{
	while (*number < table.scope_count) {
		const struct scope_entry *entry = &table.scope[(*number)++];

		if (entry->included &&
			(bytes == 1 ||
				(entry->bytes >= bytes && entry->directory[bytes] == '/' &&
					memcmp(entry->directory, path, bytes) == 0)))
			return entry->directory;
	}
	return NULL;
}

const char *hwa_store_prefix(size_t *bytes)
{
	*bytes = table.store.bytes;
	return table.store.at;
}

const char *hwa_mount_point(size_t *bytes)
{
	*bytes = table.mount.bytes;
	return table.mount.at;
}

bool hwa_store_can_vanish(void)
{
	return table.way_bytes > 0;
}

bool hwa_is_store_dev(uint32_t major, uint32_t minor)
{
	return table.base && header()->store_dev == ((uint64_t)major | (uint64_t)minor << 32);
}

bool hwa_is_mount_dev(uint32_t major, uint32_t minor)
{
	return table.base && table.mount.bytes && header()->mount_dev == ((uint64_t)major | (uint64_t)minor << 32);
}

int hwa_domain(void)
{
	return table.base ? table.domain : -1;
}

bool hwa_replicated(uint64_t state, uint64_t extent)
{
	return state & extent && hwa_domain() >= 0;
}

enum hwa_place hwa_loads_from(uint64_t state)
{
	if (hwa_replicated(state, HW_REPLICATED))
		return HWA_IN_DOMAIN;
	return state & (HW_WHOLE | HW_LOADABLE) ? HWA_IN_STORE : HWA_IN_MOUNT;
}

bool hwa_has_replicas(void)
{
	return table.base && header()->domains;
}

const char *hwa_after_mirror(const char *text)
{
	const char *at = *text == '/' ? skip_digits(text + 1) : text;

	at = at > text + 1 ? hwa_after(at, "/root") : NULL;
	return at ? skip_digits(at) : NULL;
}

/* What follows the node's directory in a path, that directory spelled from this byte of the store's path on. */
static const char *after_node(const char *path, size_t at)
{
	for (; at < table.node_bytes; at++)
		if (*path++ != table.store.at[at])
			return NULL;
	return path;
}

static const char *after_mount(const char *path)
{
	const char *rest = table.mount.bytes ? hwa_after(path, table.mount.at) : NULL;

	return rest && *rest == '/' ? rest : NULL;
}

/* A process may have been started from an older generation's store. */
const char *hwa_strip_store(const char *path)
{
	const char *rest;

	if (!table.base || !path)
		return NULL;
	if ((rest = after_mount(path)))
		return rest;
	rest = after_node(path, 0);
	if (!rest && table.way_bytes)
		rest = after_node(path, table.way_bytes);
	if (!rest)
		return NULL;
	rest = table.node_bytes < table.store.bytes ? hwa_after_mirror(rest) : skip_digits(rest);
	return rest && *rest == '/' ? rest : NULL;
}

enum hwa_place hwa_place_of(const char *path)
{
	const char *original = hwa_strip_store(path);

	if (!original)
		return HWA_IN_STORE;
	if (after_mount(path))
		return HWA_IN_MOUNT;
	return original[-1] >= '0' && original[-1] <= '9' ? HWA_IN_DOMAIN : HWA_IN_STORE;
}

/* ---- records ---- */

/* Returns the record at a slot's offset if all of it lies in the table. */
static const struct hw_record *record_at(uint32_t eighth)
{
	uint64_t at = (uint64_t)eighth * 8;
	const struct hw_record *record = (const struct hw_record *)(table.base + at);

	if (!within(at, sizeof(*record), table.bytes) ||
		!within(at + sizeof(*record), (uint64_t)record->path_bytes + 1, table.bytes))
		return NULL;
	return record;
}

static uint32_t tag_of(uint64_t hash)
{
	uint32_t tag = (uint32_t)(hash >> 32);

	return tag ? tag : 1;
}

/* The number-th slot's word after `hash`'s place; zero ends a probe sequence. */
static uint64_t slot(uint64_t slots_at, uint64_t mask, uint64_t hash, unsigned number)
{
	const char *at = table.base + slots_at + ((hash + number) & mask) * 8;

	return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

const struct hw_record *hwa_find(const char *path, size_t bytes, uint64_t *state)
{
	uint64_t hash = hwa_hash(path, bytes), word;

	if (!table.base)
		return NULL;
	for (unsigned probe = 0; probe < HW_PROBES_MAX && (word = slot(table.slots_at, table.slot_mask, hash, probe));
		probe++) {
		if ((uint32_t)(word >> 32) != tag_of(hash))
			continue;
		const struct hw_record *record = record_at((uint32_t)word);
		if (record && record->path_bytes == bytes && memcmp(record->path, path, bytes) == 0) {
			*state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
			return record;
		}
	}
	return NULL;
}

const struct hw_record *hwa_find_inode(uint64_t ino, uint64_t *state)
{
	uint64_t hash = finish(fold(0, ino)), word;

	if (!table.base)
		return NULL;
	for (unsigned probe = 0;
		probe < HW_PROBES_MAX && (word = slot(table.ino_slots_at, table.ino_slot_mask, hash, probe)); probe++) {
		if ((uint32_t)(word >> 32) != tag_of(hash))
			continue;
		const struct hw_record *record = record_at((uint32_t)word);
		if (record && record->attr.store_ino == ino) {
			*state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
			return record;
		}
	}
	return NULL;
}

const char *hwa_link_target(const struct hw_record *record, size_t *bytes)
{
	if (record->aux_bytes == 0 || record->aux_bytes > HW_PATH_BYTES_MAX ||
		!within(record->aux_at, record->aux_bytes, table.bytes))
		return NULL;
	*bytes = (size_t)record->aux_bytes;
	return table.base + record->aux_at;
}

/* ---- listings: abi/src/listing.rs ---- */

static uint64_t entries_at(const struct hw_listing *listing)
{
	return sizeof(*listing) + (uint64_t)listing->index_slots * 4;
}

const struct hw_listing *hwa_listing_of(const struct hw_record *record, uint64_t state)
{
	uint64_t at = record->aux_at, bytes = record->aux_bytes;

	if (!(state & HW_LISTED) || HW_KIND(state) != HW_DIR || at % 8 || bytes < sizeof(struct hw_listing) ||
		!within(at, bytes, table.bytes))
		return NULL;
	const struct hw_listing *listing = (const struct hw_listing *)(table.base + at);
	/* From two slots on, the entries' place is a multiple of eight. */
	if (listing->index_slots < 2 || (listing->index_slots & (listing->index_slots - 1)) ||
		!within(entries_at(listing), (uint64_t)listing->count * sizeof(struct hw_listing_entry), bytes))
		return NULL;
	return listing;
}

const struct hw_listing_entry *hwa_listing_name(const struct hw_record *record, const struct hw_listing *listing,
	uint32_t number, const char **name)
{
	const char *base = (const char *)listing;

	if (number >= listing->count)
		return NULL;
	const struct hw_listing_entry *entry = (const struct hw_listing_entry *)(base + entries_at(listing)) + number;
	if (!within(entry->name_at, (uint64_t)entry->name_bytes + 1, record->aux_bytes) ||
		base[entry->name_at + entry->name_bytes])
		return NULL;
	*name = base + entry->name_at;
	return entry;
}

int hwa_listing_has(const struct hw_record *record, const struct hw_listing *listing, const char *name, size_t bytes,
	uint8_t *type)
{
	uint32_t mask = listing->index_slots - 1;
	uint32_t place = (uint32_t)hwa_hash(name, bytes) & mask;

	for (uint32_t probe = 0; probe <= mask; probe++, place = (place + 1) & mask) {
		uint32_t number = listing->index[place];
		const char *found;

		if (number == 0)
			return 0;
		const struct hw_listing_entry *entry = hwa_listing_name(record, listing, number - 1, &found);
		if (!entry)
			return -1;
		if (entry->name_bytes == bytes && memcmp(found, name, bytes) == 0) {
			if (type)
				*type = entry->d_type;
			return 1;
		}
	}
	return -1;
}
