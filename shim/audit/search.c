/* Finds a library by its name as glibc would (elf/dl-load.c, _dl_map_object), but in the table.
 *
 * glibc calls an auditor for every directory and hardware subdirectory, and checks the original directory itself (stat)
 * when it lacks a name. A name that is found here costs neither. The answer must be exactly glibc's. Doubtful cases are
 * left to glibc: a subdirectory for hardware capabilities, a token other than $ORIGIN, an unusual error, a file that is
 * no object of this machine. */
#include "loader.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
static const char *const capabilities[] = {
	"glibc-hwcaps", "tls", "x86_64", "haswell", "xeon_phi", "avx512_1", "sse2", NULL};
#define USUAL_LD_SO "/lib64/ld-linux-x86-64.so.2"
#define DEFAULT_DIRECTORIES "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib"
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
static const char *const capabilities[] = {"glibc-hwcaps", "tls", "aarch64", "atomics", NULL};
#define USUAL_LD_SO "/lib/ld-linux-aarch64.so.1"
#define DEFAULT_DIRECTORIES "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib"
#endif

/* Longest search path that is cached, with its origin. */
#define KEY_BYTES ((size_t)64 << 10)

struct directory {
	enum {
		IN_TABLE, /* listed: what it lacks is absent */
		ON_DISK,  /* outside the scope, or the daemon does not answer */
		ABSENT,
		ODD, /* glibc must search it */
	} kind;
	const struct hw_record *record;
};

struct list {
	size_t count;
	const struct hwa_interned *directories[]; /* NULL: an element that is left to glibc */
};

struct search {
	const char *name;
	size_t name_bytes;
	struct hwa_target *target;
	bool any; /* a directory was searched */
	struct hwa_found found;
};

/* ---- directories ---- */

static bool exists(const char *directory, size_t bytes, const char *name)
{
	static char path[HWA_PATH_MAX];
	size_t name_bytes = strlen(name);

	if (bytes + 1 + name_bytes >= sizeof(path))
		return false;
	memcpy(path, directory, bytes);
	path[bytes] = '/';
	memcpy(path + bytes + 1, name, name_bytes + 1);
	return hwa_sys(__NR_faccessat, AT_FDCWD, path, F_OK) == 0;
}

static bool listed(const struct directory *directory, uint64_t state, const char *name, bool *damaged)
{
	const struct hw_listing *listing = hwa_listing_of(directory->record, state);
	int has = listing ? hwa_listing_has(directory->record, listing, name, strlen(name), NULL) : -1;

	*damaged |= has < 0;
	return has > 0;
}

static bool has_capabilities(const struct directory *directory, const char *path, size_t bytes, uint64_t state)
{
	bool has = false, damaged = false;

	for (unsigned i = 0; !has && capabilities[i]; i++)
		has = directory->kind == IN_TABLE ? listed(directory, state, capabilities[i], &damaged)
						  : exists(path, bytes, capabilities[i]);
	if (!has && hwa_start.platform)
		has = directory->kind == IN_TABLE ? listed(directory, state, hwa_start.platform, &damaged)
						  : exists(path, bytes, hwa_start.platform);
	return has || damaged;
}

static void classify(struct directory *directory, const struct hwa_interned *path, struct hwa_found *found)
{
	switch (hwa_resolve(AT_FDCWD, path->text, HW_WANT_LISTING, found)) {
	case HWA_KNOWN:
		directory->kind = IN_TABLE;
		directory->record = found->record;
		break;
	case HWA_FAILS:
		directory->kind = found->error == ENOENT || found->error == ENOTDIR ? ABSENT : ODD;
		return;
	case HWA_ORIGINAL: {
		long error = hwa_sys(__NR_faccessat, AT_FDCWD, path->text, F_OK);

		directory->kind = error == 0 ? ON_DISK : error == -ENOENT || error == -ENOTDIR ? ABSENT : ODD;
		if (directory->kind != ON_DISK)
			return;
		break;
	}
	}
	if (has_capabilities(directory, path->text, path->bytes, found->state))
		directory->kind = ODD;
}

/* State of a directory, by its path as the loader spells it. */
static const struct directory *directory_of(struct hwa_interned *path, struct hwa_found *found)
{
	if (!path->known) {
		struct directory *directory = hwa_arena(sizeof(*directory));

		if (directory)
			classify(directory, path, found);
		path->known = directory;
	}
	return path->known;
}

/* ---- candidates ---- */

static bool is_native_object(long fd)
{
	static const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
	Elf64_Ehdr header;

	return hwa_sys(__NR_pread64, fd, &header, sizeof(header), 0) == sizeof(header) &&
		memcmp(header.e_ident, ident, sizeof(ident)) == 0 &&
		(header.e_ident[EI_OSABI] == ELFOSABI_SYSV || header.e_ident[EI_OSABI] == ELFOSABI_GNU) &&
		header.e_machine == MACHINE && header.e_type == ET_DYN;
}

/* A candidate on disk, outside the scope or without a daemon. */
static enum hwa_search on_disk(struct hwa_target *target)
{
	long fd = hwa_sys(__NR_openat, AT_FDCWD, target->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool native;

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? HWA_NOWHERE : HWA_UNSURE;
	native = is_native_object(fd) && hwa_sys(__NR_fstat, fd, &st) == 0;
	if (native)
		hwa_identify(&st, target);
	hwa_sys(__NR_close, fd);
	return native ? HWA_FOUND : HWA_UNSURE;
}

static enum hwa_search candidate(struct search *search)
{
	struct hwa_target *target = search->target;
	struct hwa_found *found = &search->found;

	switch (hwa_resolve(AT_FDCWD, target->path, HW_WANT_LOADABLE, found)) {
	case HWA_KNOWN:
		if (!(found->state & HW_NATIVE_OBJECT))
			return HWA_UNSURE;
		target->in_store = true;
		target->place = hwa_loads_from(found->state);
		hwa_identify_record(found->record, target);
		return HWA_FOUND;
	case HWA_FAILS:
		return found->error == ENOENT || found->error == ENOTDIR ? HWA_NOWHERE : HWA_UNSURE;
	case HWA_ORIGINAL:
		break;
	}
	return on_disk(target);
}

static enum hwa_search try_directory(struct search *search, const struct hwa_interned *path)
{
	struct hwa_target *target = search->target;
	const struct directory *directory = directory_of((struct hwa_interned *)path, &search->found);
	size_t bytes = path->bytes == 1 ? 0 : path->bytes;

	if (!directory || directory->kind == ODD || bytes + 1 + search->name_bytes >= HWA_PATH_MAX)
		return HWA_UNSURE;
	if (directory->kind == ABSENT)
		return HWA_NOWHERE;
	bool in_table = directory->kind == IN_TABLE && hwa_in_use();
	if (in_table) {
		uint64_t state = __atomic_load_n(&directory->record->state, __ATOMIC_ACQUIRE);
		bool damaged = (state & (HW_PASSTHROUGH | HW_TREE_PASSTHROUGH | HW_LISTING_PASSTHROUGH)) != 0;

		if (!damaged && !listed(directory, state, search->name, &damaged) && !damaged)
			return HWA_NOWHERE;
		if (damaged)
			return HWA_UNSURE;
	}
	memcpy(target->path, path->text, bytes);
	target->path[bytes] = '/';
	memcpy(target->path + bytes + 1, search->name, search->name_bytes + 1);
	target->path_bytes = bytes + 1 + search->name_bytes;
	return in_table ? candidate(search) : on_disk(target);
}

/* Tries an element relative to the working directory. glibc must name a library that is found there. */
static enum hwa_search try_relative(struct search *search, const struct hwa_interned *path)
{
	struct hwa_path *absolute = &search->found.path;
	int error = hwa_absolute(AT_FDCWD, path->bytes ? path->text : ".", absolute);

	if (error && error != -EXDEV)
		return HWA_UNSURE;
	path = hwa_intern(absolute->at, absolute->bytes);
	return path && try_directory(search, path) == HWA_NOWHERE ? HWA_NOWHERE : HWA_UNSURE;
}

/* ---- search paths ---- */

/* Returns the length of $ORIGIN or ${ORIGIN} at `text`, 0 if it is something else. */
static size_t origin_token(const char *text)
{
	const char *rest;

	if ((rest = hwa_after(text, "${ORIGIN}")))
		return (size_t)(rest - text);
	rest = hwa_after(text, "$ORIGIN");
	if (!rest || (*rest >= 'A' && *rest <= 'Z') || (*rest >= 'a' && *rest <= 'z') ||
		(*rest >= '0' && *rest <= '9') || *rest == '_')
		return 0;
	return (size_t)(rest - text);
}

/* Returns one element of a search path, with its token expanded; NULL if glibc must do it. */
static const struct hwa_interned *expand(const char *element, size_t bytes, const char *origin)
{
	static char path[HWA_PATH_MAX];
	size_t length = 0;

	for (size_t at = 0; at < bytes;) {
		size_t token = element[at] == '$' ? origin_token(element + at) : 0, add = token ? strlen(origin) : 1;

		if ((element[at] == '$' && (!token || !*origin)) || length + add >= sizeof(path))
			return NULL;
		memcpy(path + length, token ? origin : element + at, add);
		length += add;
		at += token ? token : 1;
	}
	while (length > 1 && path[length - 1] == '/')
		length--;
	path[length] = '\0';
	const char *original = hwa_strip_store(path);
	return original ? hwa_intern(original, strlen(original)) : hwa_intern(path, length);
}

/* Returns the elements of a search path; NULL without memory. Lists are cached by text and origin. */
static const struct list *list_of(const char *text, const char *separators, const char *origin)
{
	static char key[KEY_BYTES];
	size_t origin_bytes = strlen(origin), text_bytes = strlen(text), count = 1;
	struct hwa_interned *entry = NULL;
	struct list *list;

	if (origin_bytes + 1 + text_bytes <= sizeof(key)) {
		memcpy(key, origin, origin_bytes + 1);
		memcpy(key + origin_bytes + 1, text, text_bytes);
		entry = hwa_intern(key, origin_bytes + 1 + text_bytes);
	}
	if (!entry || entry->known)
		return entry ? entry->known : NULL;
	for (const char *at = text; *at; at++)
		count += strchr(separators, *at) != NULL;
	list = hwa_arena(sizeof(*list) + count * sizeof(list->directories[0]));
	if (!list)
		return NULL;
	list->count = count;
	for (size_t i = 0; i < count; i++) {
		size_t bytes = 0;

		while (text[bytes] && !strchr(separators, text[bytes]))
			bytes++;
		list->directories[i] = expand(text, bytes, origin);
		text += bytes + 1;
	}
	entry->known = list;
	return list;
}

static enum hwa_search try_list(struct search *search, const char *text, const char *separators,
	struct hwa_object *owner)
{
	const char *origin = owner && strchr(text, '$') ? hwa_object_origin(owner) : NULL;
	const struct list *list = list_of(text, separators, origin ? origin : "");
	enum hwa_search result = list ? HWA_NOWHERE : HWA_UNSURE;

	search->any = true;
	for (size_t i = 0; result == HWA_NOWHERE && i < list->count; i++) {
		const struct hwa_interned *directory = list->directories[i];

		if (!directory)
			return HWA_UNSURE;
		result = directory->text[0] == '/' ? try_directory(search, directory) : try_relative(search, directory);
	}
	return result;
}

/* Tries the DT_RPATH of the object that needs the name, of its loaders, and of the program. */
static enum hwa_search try_rpaths(struct search *search, struct hwa_object *loader)
{
	bool did_program = false;
	enum hwa_search result = HWA_NOWHERE;

	for (struct hwa_object *object = loader; result == HWA_NOWHERE && object; object = object->loader) {
		if (object->rpath && *object->rpath) {
			result = try_list(search, object->rpath, ":", object);
			did_program |= object == hwa_program;
		}
	}
	if (result == HWA_NOWHERE && !did_program && hwa_program && hwa_program->rpath && *hwa_program->rpath)
		result = try_list(search, hwa_program->rpath, ":", hwa_program);
	return result;
}

static enum hwa_search hit(struct search *search, const char *path)
{
	struct hwa_target *target = search->target;

	target->path_bytes = strlen(path);
	if (path[0] != '/' || target->path_bytes >= HWA_PATH_MAX)
		return HWA_UNSURE;
	memcpy(target->path, path, target->path_bytes + 1);
	return HWA_FOUND;
}

static enum hwa_search try_cache(struct search *search, const struct hwa_object *loader)
{
	bool unsure;
	const char *path = hwa_ldcache_find(search->name, &unsure);

	if (loader->flags_1 & DF_1_NODEFLIB || unsure)
		return HWA_UNSURE;
	if (!path)
		return HWA_NOWHERE;
	if (hit(search, path) != HWA_FOUND)
		return HWA_UNSURE;
	if (hwa_in_scope(path, search->target->path_bytes))
		return candidate(search) == HWA_FOUND ? HWA_FOUND : HWA_UNSURE;
	return hwa_sys(__NR_faccessat, AT_FDCWD, path, R_OK) == 0 ? HWA_FOUND : HWA_UNSURE;
}

/* Tries the directories that distributions build into glibc. glibc must find a library in one of them. */
static enum hwa_search try_defaults(struct search *search)
{
	if (!hwa_ld_so || strcmp(hwa_ld_so->map->l_name, USUAL_LD_SO) != 0)
		return HWA_UNSURE;
	return try_list(search, DEFAULT_DIRECTORIES, ":", NULL) == HWA_NOWHERE ? HWA_NOWHERE : HWA_UNSURE;
}

static enum hwa_search try_all(struct search *search, struct hwa_object *loader)
{
	enum hwa_search result = HWA_NOWHERE;

	/* In a further namespace the loader knows itself by this name alone. */
	if (hwa_ld_so && hwa_ld_so->soname && strcmp(search->name, hwa_ld_so->soname) == 0)
		return HWA_UNSURE;
	if (!loader->runpath)
		result = try_rpaths(search, loader);
	if (result == HWA_NOWHERE && *hwa_start.library_path)
		result = try_list(search, hwa_start.library_path, ":;", hwa_program);
	if (result == HWA_NOWHERE && loader->runpath && *loader->runpath)
		result = try_list(search, loader->runpath, ":", loader);
	/* Without search paths glibc finds the cache by itself. */
	if (result == HWA_NOWHERE)
		result = search->any ? try_cache(search, loader) : HWA_UNSURE;
	return result == HWA_NOWHERE ? try_defaults(search) : result;
}

enum hwa_search hwa_search(struct hwa_object *loader, const char *name, struct hwa_target *target)
{
	static struct search search;
	static char near[HWA_NEAR_BYTES];

	search.name = name;
	search.name_bytes = strlen(name);
	search.target = target;
	search.any = false;
	target->in_store = false;
	target->place = HWA_IN_STORE;
	target->dev = target->ino = 0;
	hwa_path_begin(&search.found.path, near, sizeof near);
	enum hwa_search result = hwa_start.loader_base && search.name_bytes && !hwa_unaudited()
		? try_all(&search, loader)
		: HWA_UNSURE;
	hwa_found_end(&search.found);
	return result;
}
