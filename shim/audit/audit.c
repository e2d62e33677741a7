/* The loader's callbacks (rtld-audit(7)), and the shim's start.
 *
 * A library is found when the loader first names it, and its path in the store returned: one callback,
 * one open. Where that can't be decided the name is returned unchanged, the loader searches, and each
 * of its candidates is answered. All callbacks run under the loader's lock. */
#include "loader.h"
#include "sys.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))

/* An open of it fails at once with ENOENT, which NULL would leave to whatever errno was. */
#define NOTHING ((char *)"")

/* What the last search led to, until the object is opened. */
static struct {
	struct hw_object *loader;
	struct hw_target target;
	char answer[2 * HW_PATH_MAX];   /* what the loader was told to open, "" if nothing new */
	char display[HW_PATH_MAX];      /* what it would have called that */
} pending;

/* Namespaces: their objects, and whether one was opened since the loader was last at rest. */
static struct {
	long lmid;
	unsigned objects;
	bool loading;
} namespaces[HW_NAMESPACES];

static int slot_of(long lmid)
{
	int unused = -1;

	for (int slot = 0; slot < HW_NAMESPACES; slot++) {
		if (namespaces[slot].objects && namespaces[slot].lmid == lmid)
			return slot;
		if (!namespaces[slot].objects && unused < 0)
			unused = slot;
	}
	if (unused >= 0) {
		namespaces[unused].lmid = lmid;
		namespaces[unused].loading = lmid == LM_ID_BASE;
		hw_namespaces[unused] = (struct hw_namespace){ .lmid = lmid };
	}
	return unused;
}

/* ---- start ---- */

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
	const Elf64_auxv_t *aux;
	bool secure = false, tracing = false;
	char **end = envp;
	const char *value;

	(void)argc;
	(void)argv;
	hw_start.loader_run_directly = true;
	for (; *end; end++) {
		if ((value = hw_after(*end, "LD_LIBRARY_PATH=")))
			hw_start.library_path = value;
		tracing |= hw_after(*end, "LD_TRACE_LOADED_OBJECTS=") != NULL;
	}
	for (aux = (const Elf64_auxv_t *)(end + 1); aux->a_type != AT_NULL; aux++) {
		if (aux->a_type == AT_PAGESZ)
			hw_start.page_bytes = aux->a_un.a_val;
		else if (aux->a_type == AT_BASE)
			hw_start.loader_run_directly = aux->a_un.a_val == 0;
		else if (aux->a_type == AT_PLATFORM)
			hw_start.platform = (const char *)aux->a_un.a_val;
		else if (aux->a_type == AT_EXECFN)
			hw_start.execfn = (char *)aux->a_un.a_val;
		else if (aux->a_type == AT_SECURE)
			secure = aux->a_un.a_val != 0;
	}
	/* ldd prints what the loader opens: it shall print the originals. */
	if (!secure && !tracing && hw_start.page_bytes)
		hw_attach(envp);
}

EXPORT unsigned int la_version(unsigned int offered)
{
	/* Each version so far has only added to the one before. */
	return offered;
}

/* ---- search ---- */

static char *answer(const char *path, size_t bytes, bool in_store)
{
	if (in_store)
		return hw_store_path(path, bytes, pending.answer) < 0 ? NULL : pending.answer;
	memcpy(pending.answer, path, bytes + 1);
	return pending.answer;
}

/* The absolute path of a name with a slash, spelled as the loader would; false if it can't be had. */
static bool spell(struct hw_object *loader, const char *name, struct hw_target *target)
{
	size_t bytes = strlen(name), length = 0;
	const char *rest = hw_after(name, "$ORIGIN"), *origin;

	rest = rest ? rest : hw_after(name, "${ORIGIN}");
	if (name[0] == '/') {
		length = 0;
	} else if (rest && *rest == '/' && (origin = hw_object_origin(loader))) {
		length = strlen(origin);
		memcpy(target->path, origin, length);
		name = rest;
		bytes = strlen(name);
	} else if (hw_absolute(AT_FDCWD, ".", target->path, &length) == 0 || length) {
		length = length == 1 ? 0 : length;
		target->path[length++] = '/';
	} else {
		return false;
	}
	if (length + bytes >= HW_PATH_MAX || strchr(name, '$'))
		return false;
	memcpy(target->path + length, name, bytes + 1);
	target->path_bytes = length + bytes;
	return true;
}

/* The copy in the store of an original that no table entry leads to (a link the daemon was not
 * asked for, or it is gone), if the namespace has that copy loaded. */
static bool loaded_copy(int slot, struct hw_target *target)
{
	struct stat st;
	const struct hw_object *same;

	if (hw_sys(__NR_newfstatat, AT_FDCWD, target->path, &st, 0) < 0)
		return false;
	target->dev = (st.st_dev >> 32 & 0xfffff000) | (st.st_dev >> 8 & 0xfff);
	target->dev = target->dev << 32 | (st.st_dev >> 12 & 0xffffff00) | (st.st_dev & 0xff);
	target->ino = st.st_ino;
	same = hw_object_same(slot, target->dev, target->ino);
	if (!same || !same->from_store)
		return false;
	target->path_bytes = strlen(same->path);
	memcpy(target->path, same->path, target->path_bytes + 1);
	return true;
}

enum outcome { OPEN_STORE, OPEN_ORIGINAL, MISSING };

/* What to open for a path. */
static enum outcome locate(int slot, struct hw_target *target)
{
	struct hw_found found;
	size_t bytes;

	target->in_store = false;
	target->dev = target->ino = 0;
	switch (hw_resolve(AT_FDCWD, target->path, HW_WANT_LOADABLE, &found)) {
	case HW_FAILS:
		return found.error == ENOENT || found.error == ENOTDIR ? MISSING : OPEN_ORIGINAL;
	case HW_ORIGINAL:
		target->in_store = hw_absolute(AT_FDCWD, target->path, found.path, &bytes) == 0 &&
				   loaded_copy(slot, target);
		break;
	case HW_KNOWN: {
		const struct hw_attr *attr = &found.record->attr;
		const struct hw_object *same;

		target->dev = (uint64_t)attr->dev_major << 32 | attr->dev_minor;
		target->ino = attr->ino;
		same = hw_object_same(slot, target->dev, target->ino);
		target->in_store = found.state & HW_NATIVE_OBJECT && (!same || same->from_store);
		break;
	}
	}
	return target->in_store ? OPEN_STORE : OPEN_ORIGINAL;
}

/* A name with a slash, or a candidate of the loader's own search. */
static char *objsearch_path(struct hw_object *loader, const char *name, bool named)
{
	struct hw_target *target = &pending.target;
	const char *mapped = hw_strip_store(name);
	const char *path = mapped ? mapped : name;

	if (!spell(loader, path, target))
		return (char *)path;
	size_t bytes = strlen(path);
	if (bytes < sizeof(pending.display))
		memcpy(pending.display, path, bytes + 1);
	enum outcome outcome = locate(loader->slot, target);
	if (outcome == OPEN_STORE) {
		char *store = answer(target->path, target->path_bytes, true);

		return store ? store : (char *)path;
	}
	/* An error shall name what the program named. */
	return outcome == MISSING && !named ? NOTHING : (char *)path;
}

static char *objsearch_name(struct hw_object *loader, const char *name)
{
	struct hw_target *target = &pending.target;

	if (!hw_search(loader, name, target))
		return (char *)name;
	/* Under a second name the loader must keep that name too, which only its own search does. */
	if (target->in_store ? hw_object_same(loader->slot, target->dev, target->ino) != NULL :
			       hw_in_scope(target->path, target->path_bytes) && loaded_copy(loader->slot, target))
		return (char *)name;
	memcpy(pending.display, target->path, target->path_bytes + 1);
	char *found = answer(target->path, target->path_bytes, target->in_store);
	return found ? found : (char *)name;
}

EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
	struct hw_object *loader = hw_object_of(cookie);

	if (!hw_attached() || !loader || loader->slot < 0)
		return (char *)name;
	pending.answer[0] = '\0';
	pending.display[0] = '\0';
	pending.target.dev = pending.target.ino = 0;
	if (flag == LA_SER_ORIG)
		pending.loader = loader;
	if (flag == LA_SER_ORIG && !strchr(name, '/'))
		return objsearch_name(loader, name);
	return objsearch_path(loader, name, flag == LA_SER_ORIG);
}

/* ---- objects ---- */

static bool is_libc(const char *soname)
{
	return soname && (strcmp(soname, "libc.so.6") == 0 || strcmp(soname, "libpthread.so.0") == 0 ||
			  strcmp(soname, "libdl.so.2") == 0);
}

/* Gives an object its original's path and identity. */
static void identify(struct hw_object *object, const void *limit)
{
	const char *name = object->map->l_name;
	bool answered = *pending.answer && strcmp(name, pending.answer) == 0;
	bool displayed = *pending.display && strcmp(name, pending.display) == 0;
	struct hw_target *target = &pending.target;
	const struct hw_kept *path = NULL;

	if (object == hw_object_main()) {
		const char *executable = hw_executable();

		object->from_store = *executable != '\0';
		path = hw_keep(executable, strlen(executable));
	} else if (answered || displayed) {
		object->from_store = target->in_store;
		path = hw_keep(target->path, target->path_bytes);
	} else if (hw_strip_store(name)) {
		object->from_store = true;
		path = hw_keep(hw_strip_store(name), strlen(hw_strip_store(name)));
	}
	object->path = path ? path->text : "";
	if (answered || displayed) {
		object->dev = target->dev;
		object->ino = target->ino;
	}
	hw_object_rename(object, answered ? pending.display : NULL, limit);
}

EXPORT unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	struct hw_object *object;
	int slot;

	if (!hw_attached() || !(object = hw_object_new(map, slot = slot_of(lmid))))
		return 0;
	*cookie = hw_object_cookie(object);
	if (slot < 0)
		return 0;
	/* What dlopen itself names has no loader; what that needs has. */
	if (namespaces[slot].loading)
		object->loader = pending.loader;
	namespaces[slot].loading = true;
	namespaces[slot].objects++;
	identify(object, cookie);
	pending.answer[0] = '\0';
	pending.display[0] = '\0';
	if (is_libc(object->soname))
		hw_redirect(map, slot);
	return 0;
}

EXPORT unsigned int la_objclose(uintptr_t *cookie)
{
	struct hw_object *object = hw_object_of(cookie);

	if (object) {
		if (pending.loader == object)
			pending.loader = NULL;
		if (object->slot >= 0)
			namespaces[object->slot].objects--;
		hw_object_free(object);
	}
	return 0;
}

EXPORT void la_activity(uintptr_t *cookie, unsigned int flag)
{
	struct hw_object *object = hw_object_of(cookie);

	if (flag != LA_ACT_CONSISTENT)
		return;
	if (object && object->slot >= 0)
		namespaces[object->slot].loading = false;
	hw_ldcache_release();
}
