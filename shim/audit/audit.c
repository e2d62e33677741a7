/* The loader's callbacks (rtld-audit(7)), and the shim's start.
 *
 * A library is found when the loader first names it, and its path in the store is returned: one callback, one open. If
 * that can't be decided, the name is returned unchanged, the loader searches, and each of its candidates is resolved.
 * All callbacks run under the loader's lock. */
#include "loader.h"
#include "sys.h"
#include "wrap/wrap.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))

/* Opening this path fails at once with ENOENT; NULL would leave errno undefined. */
#define NOTHING ((char *)"")

/* Result of the last search, until the object is opened. */
static struct {
	struct hwa_object *loader;
	struct hwa_target target;
	char answer[2 * HWA_PATH_MAX]; /* the path that was returned to the loader, "" if nothing new */
	char display[HWA_PATH_MAX];    /* what it would have called that */
	struct link_map *renamed;      /* the object, if it got its original name before la_objopen */
} pending;

/* Namespaces: their objects, and whether one was opened since the loader was last idle. */
static struct {
	long lmid;
	unsigned objects;
	bool loading;
} namespaces[HWA_NAMESPACES];

/* The program's start is over: errors go to dlerror. */
static bool started;

static int slot_of(long lmid)
{
	int unused = -1;

	for (int slot = 0; slot < HWA_NAMESPACES; slot++) {
		if (namespaces[slot].objects && namespaces[slot].lmid == lmid)
			return slot;
		if (!namespaces[slot].objects && unused < 0)
			unused = slot;
	}
	if (unused >= 0) {
		namespaces[unused].lmid = lmid;
		namespaces[unused].loading = lmid == LM_ID_BASE;
		hwa_namespaces[unused] = (struct hwa_namespace){.lmid = lmid};
	}
	return unused;
}

/* ---- start ---- */

/* A program from the store of a session that has ended, is of another version or is damaged has the wrong path: it is
 * executed again from its source file. */
static void leave_store(const char *execfn, char **argv, char **envp)
{
	const char *table = NULL, *rest = execfn ? hwa_after_proc_fd(execfn) : NULL;
	size_t directory = 0;

	for (char **entry = envp; *entry; entry++)
		table = hwa_after(*entry, "HEADWATER_TABLE=") ? hwa_after(*entry, "HEADWATER_TABLE=") : table;
	for (size_t at = 0; table && table[at]; at++)
		if (table[at] == '/')
			directory = at;
	if (!directory || !rest)
		return;
	for (size_t at = 0; at < directory; at++)
		if (rest[at] != table[at])
			return;
	rest = hwa_after_mirror(rest + directory);
	if (rest && *rest == '/')
		hwa_sys(__NR_execve, rest, argv, envp);
}

static const char *kept_text(const char *text)
{
	const struct hwa_interned *entry = text ? hwa_intern(text, strlen(text)) : NULL;

	return entry ? entry->text : "";
}

/* A process without a table does not interpose on what it executes, because the library may not be found there. The
 * loader still reads the variable's text; the library's own name is removed with it. */
static void take_out(char **envp)
{
	for (; *envp; envp++) {
		const char *libraries = hwa_after(*envp, "LD_AUDIT=");

		if (!libraries || !hwa_is_audited_by(libraries))
			continue;
		char *text = hwa_map(strlen(*envp) + 1);
		if (text) {
			hwa_bare_variable(libraries, text);
			*envp = text;
		}
	}
}

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
	const Elf64_auxv_t *aux;
	bool secure = false, tracing = false;
	char **end = envp;
	const char *value, *library_path = NULL, *execfn = NULL;

	(void)argc;
	hwa_tls_restore(envp);
	for (; *end; end++) {
		if ((value = hwa_after(*end, "LD_LIBRARY_PATH=")))
			library_path = value;
		tracing |= hwa_after(*end, "LD_TRACE_LOADED_OBJECTS=") != NULL;
	}
	for (aux = (const Elf64_auxv_t *)(end + 1); aux->a_type != AT_NULL; aux++) {
		if (aux->a_type == AT_PAGESZ)
			hwa_start.page_bytes = aux->a_un.a_val;
		else if (aux->a_type == AT_PHDR)
			hwa_start.segments = (const Elf64_Phdr *)aux->a_un.a_val;
		else if (aux->a_type == AT_PHNUM)
			hwa_start.segment_count = aux->a_un.a_val;
		else if (aux->a_type == AT_BASE)
			hwa_start.loader_base = aux->a_un.a_val;
		else if (aux->a_type == AT_PLATFORM)
			hwa_start.platform = (const char *)aux->a_un.a_val;
		else if (aux->a_type == AT_EXECFN)
			execfn = (const char *)aux->a_un.a_val;
		else if (aux->a_type == AT_SECURE)
			secure = aux->a_un.a_val != 0;
	}
	/* ldd prints what the loader opens: it must print the source files. */
	if (!secure && !tracing && hwa_start.page_bytes)
		hwa_attach(envp);
	if (!secure && !(hwa_attached() && hwa_strip_store(execfn)))
		leave_store(execfn, argv, envp);
	if (!secure && !tracing && !hwa_attached())
		take_out(envp);
	if (hwa_attached()) {
		/* The program may overwrite its environment. */
		hwa_start.library_path = kept_text(library_path);
		hwa_start.executable = kept_text(hwa_strip_store(execfn));
		hwa_tls_start(argv, envp, execfn);
	}
}

EXPORT unsigned int la_version(unsigned int offered)
{
	/* Each version so far only adds to the previous one. At 0 the loader ignores the shim. */
	return hwa_attached() ? offered : 0;
}

/* ---- search ---- */

/* Returns this path in a place of the store; NULL if it is too long. */
static char *store_answer(const char *path, size_t bytes, enum hwa_place place)
{
	int length = hwa_store_path(path, bytes, place, pending.answer);

	return length < 0 ? NULL : pending.answer;
}

/* The loader doesn't retry if the store has vanished, or if this user may not enter the mount. */
static bool is_reachable(const char *copy, enum hwa_place place)
{
	bool is_certain = place != HWA_IN_MOUNT && !hwa_store_can_vanish();

	return is_certain || hwa_sys(__NR_faccessat, AT_FDCWD, copy, R_OK) == 0;
}

static char *answer(struct hwa_target *target)
{
	if (target->in_store) {
		char *copy = store_answer(target->path, target->path_bytes, target->place);

		if (!copy || is_reachable(copy, target->place))
			return copy;
		target->in_store = false;
	}
	memcpy(pending.answer, target->path, target->path_bytes + 1);
	return pending.answer;
}

/* Selects the object that is loaded already. */
static void lead_to(const struct hwa_object *same, struct hwa_target *target)
{
	target->place = same->place;
	target->path_bytes = strlen(same->path);
	memcpy(target->path, same->path, target->path_bytes + 1);
}

/* Writes the working directory's path, not terminated. Returns its length, 0 if there is none. */
static __attribute__((noinline)) size_t working_directory(char out[HWA_PATH_MAX])
{
	HWA_PATH(path);
	int error = hwa_absolute(AT_FDCWD, ".", &path);

	if (error && error != -EXDEV)
		return 0;
	memcpy(out, path.at, path.bytes);
	return path.bytes;
}

/* Writes the absolute path of a name with a slash, spelled as the loader would; false if there is none. */
static bool spell(struct hwa_object *loader, const char *name, struct hwa_target *target)
{
	size_t bytes = strlen(name), length = 0;
	const char *rest = hwa_after(name, "$ORIGIN"), *origin;

	rest = rest ? rest : hwa_after(name, "${ORIGIN}");
	if (name[0] == '/') {
		length = 0;
	} else if (rest && *rest == '/' && (origin = hwa_object_origin(loader))) {
		length = strlen(origin);
		memcpy(target->path, origin, length);
		name = rest;
		bytes = strlen(name);
	} else if ((length = working_directory(target->path))) {
		length = length == 1 ? 0 : length;
		target->path[length++] = '/';
	} else {
		return false;
	}
	if (length + bytes >= HWA_PATH_MAX || strchr(name, '$'))
		return false;
	memcpy(target->path + length, name, bytes + 1);
	target->path_bytes = length + bytes;
	return true;
}

/* Identifies the file of a path on disk; false if there is none. */
static __attribute__((noinline)) bool identity(struct hwa_target *target)
{
	struct stat st;

	if (hwa_sys(__NR_newfstatat, AT_FDCWD, target->path, &st, 0) < 0)
		return false;
	hwa_identify(&st, target);
	return true;
}

/* Finds the store's copy of a source file that the table doesn't lead to (by a link from elsewhere, or the daemon has
 * ended), if the namespace has loaded it. */
static bool loaded_copy(int slot, struct hwa_target *target)
{
	const struct hwa_object *same = identity(target) ? hwa_object_same(slot, target->dev, target->ino) : NULL;

	if (!same || !same->from_store)
		return false;
	lead_to(same, target);
	return true;
}

/* Of several copies, the loaded one is chosen: the loader takes another for another library. */
static void stay_with(const struct hwa_object *same, struct hwa_target *target)
{
	if (same && (same->place != HWA_IN_STORE || target->place == HWA_IN_MOUNT))
		lead_to(same, target);
	else if (same)
		target->place = HWA_IN_STORE;
}

enum outcome { OPEN_STORE, OPEN_ORIGINAL, MISSING };

/* Returns the path to open for a path. */
static enum outcome locate(int slot, struct hwa_target *target)
{
	HWA_FOUND(found);

	target->in_store = false;
	target->place = HWA_IN_STORE;
	target->dev = target->ino = 0;
	switch (hwa_resolve(AT_FDCWD, target->path, HW_WANT_LOADABLE, &found)) {
	case HWA_FAILS:
		return found.error == ENOENT || found.error == ENOTDIR ? MISSING : OPEN_ORIGINAL;
	case HWA_ORIGINAL:
		target->in_store = loaded_copy(slot, target);
		break;
	case HWA_KNOWN: {
		const struct hwa_object *same;

		hwa_identify_record(found.record, target);
		same = hwa_object_same(slot, target->dev, target->ino);
		target->in_store = found.state & HW_NATIVE_OBJECT && (!same || same->from_store);
		target->place = hwa_loads_from(found.state);
		if (target->in_store)
			stay_with(same, target);
		break;
	}
	}
	return target->in_store ? OPEN_STORE : OPEN_ORIGINAL;
}

/* A name with a slash, or a candidate of the loader's own search. */
static char *objsearch_path(struct hwa_object *loader, const char *name, bool named, bool system_wide)
{
	struct hwa_target *target = &pending.target;
	const char *mapped = hwa_strip_store(name);
	const char *path = mapped ? mapped : name;

	if (!spell(loader, path, target))
		return (char *)path;
	size_t bytes = strlen(path);
	if (bytes < sizeof(pending.display))
		memcpy(pending.display, path, bytes + 1);
	if (system_wide && !hwa_in_scope(target->path, target->path_bytes))
		return (char *)path;
	enum outcome outcome = locate(loader->slot, target);
	if (outcome == MISSING && !named)
		return NOTHING;
	/* dlerror shows a path in the store as the original's; errors of a program's start don't use it. */
	bool in_store = outcome == OPEN_STORE || (outcome == MISSING && started && path[0] == '/' && path[1] != '/');
	char *store = in_store ? store_answer(target->path, target->path_bytes, target->place) : NULL;
	return store && (outcome != OPEN_STORE || is_reachable(store, target->place)) ? store : (char *)path;
}

static char *objsearch_name(struct hwa_object *loader, const char *name)
{
	struct hwa_target *target = &pending.target;
	enum hwa_search result = hwa_search(loader, name, target);
	char *found = NULL;

	if (result == HWA_FOUND) {
		const struct hwa_object *same = hwa_object_same(loader->slot, target->dev, target->ino);

		/* The loader must know a dependency's second name for its check of versions. Only its own search
		 * records that name. */
		if (same && (namespaces[loader->slot].loading || !target->in_store))
			return (char *)name;
		memcpy(pending.display, target->path, target->path_bytes + 1);
		if (target->in_store)
			stay_with(same, target);
		found = answer(target);
	} else if (result == HWA_NOWHERE && started && strlen(name) + 3 <= HWA_PATH_MAX) {
		size_t bytes = strlen(name);

		memcpy(target->path, HWA_NOWHERE_PREFIX, 2);
		memcpy(target->path + 2, name, bytes + 1);
		found = store_answer(target->path, bytes + 2, HWA_IN_STORE);
	}
	return found ? found : (char *)name;
}

EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
	struct hwa_object *loader = hwa_object_of(cookie);
	char *found;

	if (!hwa_attached() || !loader || loader->slot < 0)
		return (char *)name;
	pending.answer[0] = '\0';
	pending.display[0] = '\0';
	pending.renamed = NULL;
	pending.target.dev = pending.target.ino = 0;
	if (flag != LA_SER_ORIG)
		return objsearch_path(loader, name, false, flag == LA_SER_CONFIG || flag == LA_SER_DEFAULT);
	pending.loader = loader;
	hwa_tls_reached(name);
	found = strchr(name, '/') ? objsearch_path(loader, name, true, false) : objsearch_name(loader, name);
	/* Without a path to open, the loader may find an object that it has loaded already. */
	if (!*pending.answer)
		hwa_tls_settle();
	return found;
}

/* ---- objects ---- */

static bool is_libc(const char *soname)
{
	return soname &&
		(strcmp(soname, "libc.so.6") == 0 || strcmp(soname, "libpthread.so.0") == 0 ||
			strcmp(soname, "libdl.so.2") == 0);
}

/* Sets an object's original path and identity. */
static void identify(struct hwa_object *object, const void *limit)
{
	const char *name = object->map->l_name, *stripped = hwa_strip_store(name);
	bool renamed = object->map == pending.renamed;
	bool answered = renamed || (*pending.answer && strcmp(name, pending.answer) == 0);
	bool displayed = *pending.display && strcmp(name, pending.display) == 0;
	struct hwa_target *target = &pending.target;

	object->place = renamed ? target->place : hwa_place_of(name);
	if (object == hwa_program) {
		object->from_store = *hwa_start.executable != '\0';
		object->path = hwa_start.executable;
	} else if (answered || displayed) {
		object->from_store = target->in_store;
	} else if (strchr(name, '/') && spell(object, stripped ? stripped : name, target)) {
		/* The loader doesn't announce the name that dlmopen got. */
		object->from_store = stripped != NULL;
		target->dev = target->ino = 0;
		if (object->from_store || hwa_in_scope(target->path, target->path_bytes))
			identity(target);
	} else {
		target->path_bytes = 0;
	}
	if (object != hwa_program && target->path_bytes) {
		const struct hwa_interned *path = hwa_intern(target->path, target->path_bytes);

		object->path = path ? path->text : "";
		object->dev = target->dev;
		object->ino = target->ino;
	}
	hwa_object_rename(object->map, answered ? pending.display : NULL, limit);
}

EXPORT unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	struct hwa_object *object;
	int slot;

	if (!hwa_attached() || !(object = hwa_object_new(map, slot = slot_of(lmid))))
		return 0;
	*cookie = hwa_object_cookie(object);
	if (slot < 0)
		return 0;
	/* An object that dlopen names has no loader; its dependencies have. */
	if (namespaces[slot].loading)
		object->loader = pending.loader;
	namespaces[slot].loading = true;
	namespaces[slot].objects++;
	identify(object, cookie);
	pending.answer[0] = '\0';
	pending.display[0] = '\0';
	pending.renamed = NULL;
	if (is_libc(object->soname))
		hwa_redirect(map, slot);
	if (lmid == LM_ID_BASE)
		hwa_tls_object(object);
	return 0;
}

EXPORT unsigned int la_objclose(uintptr_t *cookie)
{
	struct hwa_object *object = hwa_object_of(cookie);

	if (object) {
		if (pending.loader == object)
			pending.loader = NULL;
		if (object->slot >= 0)
			namespaces[object->slot].objects--;
		hwa_object_free(object);
	}
	return 0;
}

/* Gives dlopen's object its original name before a debugger sees it. In newer versions of glibc the object is in the list
 * when debuggers are notified of an addition, before la_objopen. They would take an object that is renamed later for another
 * one, and lose their breakpoints in it. */
static void rename_early(const uintptr_t *cookie, const struct hwa_object *first)
{
	struct link_map *head = first ? first->map : (struct link_map *)*cookie, *map = head;

	if (!*pending.answer || (uintptr_t)head & 1)
		return;
	while (map->l_next)
		map = map->l_next;
	if (strcmp(map->l_name, pending.answer) != 0 || !hwa_strip_store(map->l_name))
		return;
	/* All objects' cookies but ld.so's are at the same distance. */
	hwa_object_rename(map, pending.display, (const char *)map + ((const char *)cookie - (const char *)head));
	pending.renamed = map;
}

EXPORT void la_activity(uintptr_t *cookie, unsigned int flag)
{
	struct hwa_object *object = hwa_object_of(cookie);

	if (flag == LA_ACT_ADD)
		rename_early(cookie, object);
	if (flag != LA_ACT_CONSISTENT)
		return;
	started = true;
	hwa_tls_end();
	if (object && object->slot >= 0)
		namespaces[object->slot].loading = false;
	hwa_ldcache_release();
}
