/* The loaded objects: the shim's records, and the original names that the program and its debugger see.
 *
 * glibc computes an object's $ORIGIN from the path that it opened, and stores it in a member of its link map that no
 * interface names. The member's offset is found once, by content, in the first object from the store. Then the string
 * is shortened in place, as l_name is, and all that derives from it (RPATHs, dlinfo, dlopen("$ORIGIN/...")) is the
 * original's. If the member can't be found, paths below the store are mapped back where they occur. */
#include "loader.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ARENA_BYTES ((size_t)128 << 10)
#define CHUNK_BYTES ((size_t)1 << 20)
#define INTERNED_BUCKETS 1024
/* Maximum of objects in which the offset of $ORIGIN is searched. */
#define ORIGIN_TRIES 8
/* glibc 2.36's link map has 1,152 bytes; ld.so's own has its cookie elsewhere. */
#define LINK_MAP_BYTES_MAX 4096
#define UNKNOWN_ORIGIN ((char *)-1)
/* Two strings that malloc returned one after the other are hardly further apart. */
#define NEAR_BYTES ((uintptr_t)1 << 20)

struct hwa_start hwa_start = {.library_path = "", .executable = ""};

static _Alignas(16) char first_chunk[ARENA_BYTES];
static struct {
	char *at;
	size_t left;
} arena = {first_chunk, ARENA_BYTES};
static struct hwa_interned *interned[INTERNED_BUCKETS];
static struct hwa_object *objects;
struct hwa_object *hwa_program, *hwa_ld_so;

static size_t origin_at; /* offset of the origin in a link map; 0: not found */
static unsigned origin_tries;

void *hwa_arena(size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > arena.left) {
		if (bytes > CHUNK_BYTES)
			return NULL;
		char *chunk = hwa_map(CHUNK_BYTES);

		if (!chunk)
			return NULL;
		arena.at = chunk;
		arena.left = CHUNK_BYTES;
	}
	void *block = arena.at;
	arena.at += bytes;
	arena.left -= bytes;
	return block;
}

struct hwa_interned *hwa_intern(const char *text, size_t bytes)
{
	uint64_t hash = hwa_hash(text, bytes);
	struct hwa_interned **bucket = &interned[hash % INTERNED_BUCKETS], *entry;

	for (entry = *bucket; entry; entry = entry->next)
		if (entry->hash == hash && entry->bytes == bytes && memcmp(entry->text, text, bytes) == 0)
			return entry;
	entry = hwa_arena(sizeof(*entry) + bytes + 1);
	if (entry) {
		*entry = (struct hwa_interned){.next = *bucket, .hash = hash, .bytes = bytes};
		memcpy(entry->text, text, bytes);
		entry->text[bytes] = '\0';
		*bucket = entry;
	}
	return entry;
}

static void read_dynamic(struct hwa_object *object)
{
	const char *strings = NULL;
	const Elf64_Dyn *entry;

	for (entry = object->map->l_ld; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_STRTAB)
			strings = hwa_dynamic_address(object->map, entry->d_un.d_ptr);
	object->strings = strings;
	for (entry = object->map->l_ld; strings && entry->d_tag != DT_NULL; entry++) {
		const char *text = strings + entry->d_un.d_val;

		if (entry->d_tag == DT_RPATH)
			object->rpath = text;
		else if (entry->d_tag == DT_RUNPATH)
			object->runpath = text;
		else if (entry->d_tag == DT_SONAME)
			object->soname = text;
		else if (entry->d_tag == DT_FLAGS_1)
			object->flags_1 = entry->d_un.d_val;
	}
	if (object->runpath)
		object->rpath = NULL;
}

struct hwa_object *hwa_object_new(struct link_map *map, int slot)
{
	struct hwa_object *object = objects;

	while (object && object->map)
		object = object->next;
	if (!object) {
		object = hwa_arena(sizeof(*object));
		if (!object)
			return NULL;
		*object = (struct hwa_object){.next = objects};
		__atomic_store_n(&objects, object, __ATOMIC_RELEASE);
	}
	*object = (struct hwa_object){.next = object->next, .map = map, .slot = slot, .path = ""};
	read_dynamic(object);
	if (!hwa_program)
		hwa_program = object;
	if (!hwa_ld_so && hwa_start.loader_base && map->l_addr == hwa_start.loader_base)
		hwa_ld_so = object;
	return object;
}

void hwa_object_free(struct hwa_object *object)
{
	for (struct hwa_object *other = objects; other; other = other->next)
		if (other->loader == object)
			other->loader = NULL;
	object->map = NULL;
}

struct hwa_object *hwa_object_of(const uintptr_t *cookie)
{
	struct hwa_object *object = (struct hwa_object *)(*cookie & ~(uintptr_t)1);

	return *cookie & 1 && object->map ? object : NULL;
}

uintptr_t hwa_object_cookie(struct hwa_object *object)
{
	/* Before la_objopen a cookie is the link map's address, which is even. */
	return (uintptr_t)object | 1;
}

struct hwa_object *hwa_object_same(int slot, uint64_t dev, uint64_t ino)
{
	for (struct hwa_object *object = objects; ino && object; object = object->next)
		if (object->ino == ino && object->dev == dev && object->slot == slot && object->map)
			return object;
	return NULL;
}

void hwa_identify(const struct stat *st, struct hwa_target *target)
{
	uint64_t major = (st->st_dev >> 32 & 0xfffff000) | (st->st_dev >> 8 & 0xfff);
	uint64_t minor = (st->st_dev >> 12 & 0xffffff00) | (st->st_dev & 0xff);

	target->dev = major << 32 | minor;
	target->ino = st->st_ino;
}

void hwa_identify_record(const struct hw_record *record, struct hwa_target *target)
{
	target->dev = (uint64_t)record->attr.dev_major << 32 | record->attr.dev_minor;
	target->ino = record->attr.ino;
}

/* ---- original names ---- */

/* The length of a path's directory; 1 for "/". */
static size_t directory_bytes(const char *path)
{
	size_t bytes = strlen(path);

	while (bytes && path[bytes - 1] != '/')
		bytes--;
	return bytes > 1 ? bytes - 1 : bytes;
}

/* Returns the program's path as the kernel has it, interned; "" if unknown. */
static const char *executable_path(void)
{
	static char path[HWA_PATH_MAX];
	long bytes = hwa_sys(__NR_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path) - 1);

	if (bytes <= 0)
		return "";
	path[bytes] = '\0';
	const char *original = hwa_strip_store(path) ? hwa_strip_store(path) : path;
	const struct hwa_interned *entry = hwa_intern(original, strlen(original));
	return entry ? entry->text : "";
}

static char **origin_of(const struct link_map *map, size_t at)
{
	return (char **)((char *)map + at);
}

const char *hwa_object_origin(struct hwa_object *object)
{
	const struct hwa_interned *directory;

	if (object == hwa_program && !hwa_start.loader_base) {
		const char *origin = origin_at ? *origin_of(object->map, origin_at) : NULL;

		return origin == UNKNOWN_ORIGIN ? NULL : origin;
	}
	if (object == hwa_program && !*object->path)
		object->path = executable_path();
	if (object->path[0] != '/')
		return NULL;
	directory = hwa_intern(object->path, directory_bytes(object->path));
	return directory ? directory->text : NULL;
}

/* The kernel reads the signal set before it checks the other arguments. */
bool hwa_readable(uintptr_t address)
{
	return hwa_sys(__NR_rt_sigprocmask, ~0, address, NULL, 8) != -EFAULT;
}

/* Finds the member of the link map, before `limit`, that points to this directory's text. */
static void find_origin(const struct link_map *map, const char *name, const void *limit)
{
	size_t directory = directory_bytes(name), bytes = (size_t)((const char *)limit - (const char *)map);

	if (bytes > LINK_MAP_BYTES_MAX || origin_tries++ >= ORIGIN_TRIES)
		return;
	for (size_t at = sizeof(*map); at + sizeof(char *) <= bytes; at += sizeof(char *)) {
		uintptr_t value = (uintptr_t)*origin_of(map, at);
		uintptr_t distance = value > (uintptr_t)name ? value - (uintptr_t)name : (uintptr_t)name - value;

		if (distance == 0 || distance > NEAR_BYTES || (value >= (uintptr_t)map && value < (uintptr_t)limit) ||
			(value >= map->l_addr && value < (uintptr_t)map->l_ld + hwa_start.page_bytes))
			continue;
		if (value / hwa_start.page_bytes != (uintptr_t)name / hwa_start.page_bytes && !hwa_readable(value))
			continue;
		const char *text = (const char *)value;
		size_t same = 0;
		while (same < directory && text[same] == name[same])
			same++;
		if (same == directory && text[same] == '\0') {
			origin_at = at;
			return;
		}
	}
}

/* Removes the store's prefix; NULL and glibc's mark for an unknown origin are not changed. */
static void shorten(char *text)
{
	if (text != UNKNOWN_ORIGIN)
		hwa_strip_in_place(text);
}

/* The program's own $ORIGIN is computed when it is first needed, from /proc/self/exe. */
static void rename_program(void)
{
	char **origin = hwa_program ? origin_of(hwa_program->map, origin_at) : NULL;

	if (!origin || !*hwa_start.executable)
		return;
	if (*origin)
		shorten(*origin);
	else
		*origin = (char *)hwa_object_origin(hwa_program);
}

void hwa_object_rename(struct link_map *map, const char *display, const void *limit)
{
	const char *original = hwa_strip_store(map->l_name);
	bool program_needs_it = !hwa_start.loader_base || *hwa_start.executable;

	if (!origin_at && (original || (program_needs_it && map->l_name[0] == '/'))) {
		find_origin(map, map->l_name, limit);
		if (origin_at)
			rename_program();
	}
	if (!original)
		return;
	if (origin_at)
		shorten(*origin_of(map, origin_at));
	if (!display || strlen(display) > strlen(map->l_name))
		display = original;
	memmove(map->l_name, display, strlen(display) + 1);
}

bool hwa_original_origin(const struct link_map *map, char *out)
{
	struct hwa_object *object = __atomic_load_n(&objects, __ATOMIC_ACQUIRE);

	while (object && object->map != map)
		object = object->next;
	if (!object || !object->from_store || object->path[0] != '/')
		return false;
	size_t bytes = directory_bytes(object->path);
	if (bytes >= HWA_PATH_MAX)
		return false;
	memcpy(out, object->path, bytes);
	out[bytes] = '\0';
	return true;
}
