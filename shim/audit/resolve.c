/* From a program's path to the table's answer.
 *
 * A path that has a record is found with one probe. Otherwise the nearest known ancestor decides: a
 * link is put in the path's place and the search starts again, a complete listing tells what is
 * absent, and only what remains is asked of the daemon, once. Paths in the table are canonical, so
 * an exact record needs no look at its ancestors. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "path.h"
#include "sys.h"

/* As many links as the kernel follows. */
#define LINKS_MAX 40
#define ERRNO_MAX 4095
#define NAME_BYTES_MAX 255

enum step {
	STEP_KNOWN,     /* the prefix has a record */
	STEP_AGAIN,     /* the path was rewritten */
	STEP_FAILS,     /* found->error */
	STEP_ASK,
	STEP_ORIGINAL,
};

struct walk {
	struct hw_found *found;
	unsigned links;
	bool plain;             /* the path is in the scope and holds no ".." */
	bool must_be_dir;
	bool asked;
};

static enum step fails(struct walk *walk, int error)
{
	walk->found->error = error;
	return STEP_FAILS;
}

/* The error that a record stands for. */
static enum step fails_as_known(struct walk *walk)
{
	int error = HW_ERRNO(walk->found->state);

	return error > 0 && error <= ERRNO_MAX ? fails(walk, error) : STEP_ASK;
}

/* Puts a link's target in the place of the first `end` bytes of the path. */
__attribute__((noinline)) static enum step follow(struct walk *walk, size_t end)
{
	struct hw_found *found = walk->found;
	char path[HW_PATH_MAX];
	size_t bytes, parent = end;
	const char *target = hw_link_target(found->record, &bytes);

	if (!target)
		return STEP_ASK;
	if (++walk->links > LINKS_MAX)
		return fails(walk, ELOOP);
	while (parent && found->path[parent - 1] != '/')
		parent--;
	size_t length = target[0] == '/' ? 0 : hw_append(path, 0, found->path, parent);
	length = length == HW_TOO_LONG ? length : hw_append(path, length, target, bytes);
	if (end == found->path_bytes && target[bytes - 1] == '/')
		walk->must_be_dir = true;
	if (length != HW_TOO_LONG)
		length = hw_append(path, length, found->path + end, found->path_bytes - end);
	if (length == HW_TOO_LONG)
		return fails(walk, ENAMETOOLONG);
	found->path_bytes = hw_finish(path, length);
	walk->plain = false;
	memcpy(found->path, path, found->path_bytes + 1);
	return STEP_AGAIN;
}

/* What a known ancestor, the first `cut` bytes, says of the component after it. */
static enum step ask_ancestor(struct walk *walk, size_t cut, size_t end)
{
	struct hw_found *found = walk->found;
	uint64_t state = found->state;
	size_t name = cut ? cut + 1 : 1, name_end = name;

	if (state & (HW_LIVE | HW_TREE_LIVE))
		return STEP_ORIGINAL;
	switch (HW_KIND(state)) {
	case HW_LINK:
		return follow(walk, cut);
	case HW_ABSENT:
		return fails(walk, ENOENT);
	case HW_ERROR:
		return fails_as_known(walk);
	case HW_FILE:
	case HW_OTHER:
		return fails(walk, ENOTDIR);
	case HW_DIR:
		break;
	default:
		return STEP_ASK;
	}
	if (state & HW_LISTING_LIVE)
		return STEP_ORIGINAL;
	const struct hw_listing *listing = hw_listing_of(found->record, state);
	if (!listing)
		return STEP_ASK;
	while (name_end < end && found->path[name_end] != '/')
		name_end++;
	/* Too long a name is another error than an absent one, by a limit of the file system's own. */
	if (name_end - name > NAME_BYTES_MAX)
		return STEP_ORIGINAL;
	if (hw_listing_has(found->record, listing, found->path + name, name_end - name, NULL) == 0)
		return fails(walk, ENOENT);
	return STEP_ASK;
}

/* Looks at the first `end` bytes of the path, which hold no "..". */
static enum step look(struct walk *walk, size_t end, bool follow_last)
{
	struct hw_found *found = walk->found;

	if (!walk->plain && !hw_in_scope(found->path, end))
		return STEP_ORIGINAL;
	found->record = hw_find(found->path, end, &found->state);
	if (found->record) {
		if (found->state & (HW_LIVE | HW_TREE_LIVE))
			return STEP_ORIGINAL;
		switch (HW_KIND(found->state)) {
		case HW_ABSENT:
			return fails(walk, ENOENT);
		case HW_ERROR:
			return fails_as_known(walk);
		case HW_LINK:
			return follow_last ? follow(walk, end) : STEP_KNOWN;
		case HW_DIR:
		case HW_FILE:
		case HW_OTHER:
			return STEP_KNOWN;
		}
	}
	for (size_t cut = end; cut > 1;) {
		while (found->path[--cut] != '/')
			;
		size_t prefix = cut ? cut : 1;
		if (!hw_in_scope(found->path, prefix))
			break;
		found->record = hw_find(found->path, prefix, &found->state);
		if (found->record && (found->state & (HW_LIVE | HW_TREE_LIVE) || HW_KIND(found->state) != HW_UNKNOWN))
			return ask_ancestor(walk, cut, end);
	}
	return STEP_ASK;
}

/* Drops the first ".." and the directory before it, which is known and canonical. */
static enum step climb(struct walk *walk, size_t dotdot)
{
	struct hw_found *found = walk->found;
	size_t parent = dotdot, rest = dotdot + 3;

	if (dotdot && HW_KIND(found->state) != HW_DIR)
		return fails(walk, ENOTDIR);
	while (parent && found->path[--parent] != '/')
		;
	memmove(found->path + parent, found->path + rest, found->path_bytes - rest);
	found->path_bytes = hw_finish(found->path, parent + found->path_bytes - rest);
	return STEP_AGAIN;
}

/* Does the record at the path's end hold what is wanted? */
static enum step judge(struct walk *walk, unsigned want)
{
	uint64_t state = walk->found->state;
	unsigned kind = HW_KIND(state);

	if (walk->must_be_dir && kind != HW_DIR)
		return fails(walk, ENOTDIR);
	if (kind == HW_OTHER || state & HW_LISTING_LIVE)
		return STEP_ORIGINAL;
	if (!(state & HW_ATTR))
		return STEP_ASK;
	if (want & HW_WANT_LISTING) {
		if (kind != HW_DIR)
			return fails(walk, ENOTDIR);
		if (state & HW_UNLISTABLE)
			return STEP_ORIGINAL;
		if (!hw_listing_of(walk->found->record, state))
			return STEP_ASK;
	}
	if (want & (HW_WANT_LOADABLE | HW_WANT_WHOLE | HW_WANT_EXECUTE)) {
		uint64_t resident = want & (HW_WANT_WHOLE | HW_WANT_EXECUTE) ? HW_WHOLE : HW_WHOLE | HW_LOADABLE;

		if (kind != HW_FILE)
			return STEP_ORIGINAL;
		if (!(state & resident))
			return STEP_ASK;
		/* Content that came for reading has not been checked for execution. */
		if (want & HW_WANT_EXECUTE && !(state & HW_EXECUTABLE) && !walk->asked)
			return STEP_ASK;
	}
	return STEP_KNOWN;
}

/* Follows found->path as far as the table goes. Each round uses up a link or a "..". */
static enum step resolve(struct walk *walk, unsigned want)
{
	struct hw_found *found = walk->found;

	for (;;) {
		size_t dotdot = walk->plain ? found->path_bytes : hw_dotdot(found->path, found->path_bytes);
		bool last = dotdot == found->path_bytes;
		bool follow_last = !last || walk->must_be_dir || !(want & HW_WANT_NO_FOLLOW);
		enum step step = dotdot ? look(walk, dotdot, follow_last) : STEP_KNOWN;

		if (step == STEP_KNOWN)
			step = last ? judge(walk, want) : climb(walk, dotdot);
		if (step != STEP_AGAIN)
			return step;
	}
}

/* True if the kernel would demand a directory: the text ends in "/", "/." or is ".". */
static bool demands_directory(const char *path)
{
	size_t bytes = strlen(path);

	return path[bytes - 1] == '/' || (path[bytes - 1] == '.' && (bytes == 1 || path[bytes - 2] == '/'));
}

/* What is known, if it is so still; where that can't be taken for granted, the original is asked. The links
 * on the way may lead elsewhere by now, so it is looked at by the program's own path. */
static enum step verified(int dirfd, const char *path, unsigned want, const struct hw_found *found, enum step step)
{
	struct stat st;

	if (!hw_unaudited() || (step != STEP_KNOWN && step != STEP_FAILS))
		return step;
	if (step == STEP_FAILS ||
	    hw_sys(__NR_newfstatat, dirfd, path, &st, want & HW_WANT_NO_FOLLOW ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return STEP_ORIGINAL;
	const struct hw_attr *attr = &found->record->attr;
	/* Not its device, which may have another number on the reader's node. */
	bool same = st.st_ino == attr->ino && st.st_mode == attr->mode && (uint64_t)st.st_size == attr->size &&
		    st.st_mtim.tv_sec == attr->mtime_s && (uint64_t)st.st_mtim.tv_nsec == attr->mtime_ns &&
		    st.st_ctim.tv_sec == attr->ctime_s && (uint64_t)st.st_ctim.tv_nsec == attr->ctime_ns;
	/* Who has it open is to see what it has become, too. Where nobody can be told, nothing is hidden by it. */
	if (!same && HW_KIND(found->state) == HW_FILE)
		hw_request(found->path, found->path_bytes, HW_WANT_LIVE | HW_WANT_NO_FOLLOW);
	return same ? STEP_KNOWN : STEP_ORIGINAL;
}

enum hw_answer hw_resolve(int dirfd, const char *path, unsigned want, struct hw_found *found)
{
	struct walk walk = { .found = found };
	enum step step;

	if (hw_absolute_plain(dirfd, path, found->path, &found->path_bytes, &walk.plain) < 0)
		return HW_ORIGINAL;
	hw_count(HW_COUNT_LOOKUPS);
	if (!hw_in_use()) {
		hw_count(HW_COUNT_FALLBACKS);
		return HW_ORIGINAL;
	}
	walk.must_be_dir = !walk.plain && demands_directory(path);
	step = verified(dirfd, path, want, found, resolve(&walk, want));
	if (step != STEP_ASK) {
		if (step != STEP_ORIGINAL)
			hw_count(HW_COUNT_ANSWERED);
	} else if (hw_absolute(dirfd, path, found->path, &found->path_bytes) == 0 &&
		   hw_request(found->path, found->path_bytes, want) == HW_DONE) {
		walk = (struct walk){ .found = found, .must_be_dir = demands_directory(path), .asked = true };
		step = verified(dirfd, path, want, found, resolve(&walk, want));
	}
	switch (step) {
	case STEP_KNOWN:
		return HW_KNOWN;
	case STEP_FAILS:
		return HW_FAILS;
	case STEP_ASK:
		hw_count(HW_COUNT_FALLBACKS);
		return HW_ORIGINAL;
	default:
		return HW_ORIGINAL;
	}
}

/* True if what is about to be changed is a file that has other names, too. */
static __attribute__((noinline)) bool has_names(int dirfd, const char *path, unsigned how)
{
	struct stat st;
	int flags = how & HW_CHANGES_TARGET ? 0 : AT_SYMLINK_NOFOLLOW;

	return hw_sys(__NR_newfstatat, dirfd, path, &st, flags) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

/* Tells the daemon of the path as it is written. True if what it leads to is known, so that the daemon knows, too. */
static __attribute__((noinline)) bool tell_live(int dirfd, const char *path, unsigned how)
{
	struct hw_found found;
	struct walk walk = { .found = &found };
	unsigned want = HW_WANT_LIVE | (how & HW_CHANGES_TREE ? HW_WANT_TREE : 0);

	if (hw_absolute(dirfd, path, found.path, &found.path_bytes) < 0)
		return false;
	found.record = NULL;
	enum step step = resolve(&walk, HW_WANT_ATTR | HW_WANT_NO_FOLLOW);
	if (step == STEP_ORIGINAL && found.record) {
		/* What is live already need not be told again. */
		bool itself = found.record->path_bytes == found.path_bytes;

		if (found.state & (want & HW_WANT_TREE || !itself ? HW_TREE_LIVE : HW_LIVE | HW_TREE_LIVE))
			return false;
	}
	bool link = step == STEP_KNOWN && HW_KIND(found.state) == HW_LINK;
	if (hw_absolute(dirfd, path, found.path, &found.path_bytes) < 0)
		return false;
	/* What the file is called otherwise the daemon finds by its attributes, which it must have before. */
	if (step == STEP_ASK && has_names(dirfd, path, how))
		hw_request(found.path, found.path_bytes,
			HW_WANT_ATTR | (how & HW_CHANGES_TARGET ? 0 : HW_WANT_NO_FOLLOW));
	/* Either the link or what it leads to: both, together, since the daemon follows none that is live. */
	if (hw_request(found.path, found.path_bytes, link ? want : want | HW_WANT_NO_FOLLOW) != HW_DONE)
		hw_give_up();
	return !hw_unaudited() && ((step == STEP_KNOWN && !link) || (step == STEP_FAILS && found.error == ENOENT));
}

/* A name in an open directory. */
struct place {
	long dirfd;                     /* AT_FDCWD: the working directory */
	char name[NAME_BYTES_MAX + 1];  /* empty: the directory itself */
};

static void leave(const struct place *place, int dirfd)
{
	if (place->dirfd >= 0 && place->dirfd != dirfd)
		hw_sys(__NR_close, place->dirfd);
}

/* Opens the directory that (dirfd, path) has its last name in, or leads to if that is none of a file. The text is
 * changed. */
static bool enter(long dirfd, char *path, struct place *place)
{
	size_t bytes = strlen(path), start;

	while (bytes > 1 && path[bytes - 1] == '/')
		path[--bytes] = '\0';
	for (start = bytes; start && path[start - 1] != '/';)
		start--;
	const char *name = path + start;
	size_t length = bytes - start;
	bool is_way = !length || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
	if (length > NAME_BYTES_MAX)
		return false;
	memcpy(place->name, is_way ? "" : name, is_way ? 1 : length + 1);
	place->dirfd = dirfd;
	if (!is_way && !start)
		return true;
	if (!is_way)
		path[start > 1 ? start - 1 : 1] = '\0';
	place->dirfd = hw_sys(__NR_openat, dirfd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return place->dirfd >= 0;
}

/* What the kernel calls what is about to be changed, without links; its length, or 0 if it can't be changed. */
static size_t real_name(int dirfd, const char *path, unsigned how, char out[HW_PATH_MAX])
{
	struct place place, before = { .dirfd = dirfd };
	size_t bytes = 0;
	long length;

	while (bytes < HW_PATH_MAX && path[bytes])
		bytes++;
	if (!bytes || bytes == HW_PATH_MAX)
		return 0;
	memcpy(out, path, bytes + 1);
	for (unsigned links = 0;; links++, before = place) {
		bool is_in = enter(before.dirfd, out, &place);

		if (!is_in || place.dirfd != before.dirfd)
			leave(&before, dirfd);
		if (!is_in)
			return 0;
		length = how & HW_CHANGES_TARGET && *place.name
			? hw_sys(__NR_readlinkat, place.dirfd, place.name, out, HW_PATH_MAX - 1) : -EINVAL;
		if (length <= 0 || links == LINKS_MAX)
			break;
		out[length] = '\0';
	}
	length = hw_directory_of((int)place.dirfd, out);
	leave(&place, dirfd);
	if (length < 0)
		return 0;
	bytes = hw_append(out, length == 1 ? 0 : (size_t)length, place.name, strlen(place.name));
	return bytes == HW_TOO_LONG ? 0 : hw_finish(out, bytes);
}

/* The table has what was read once, and nothing outside of the scope: the links on the way are the kernel's to say. */
static __attribute__((noinline)) void tell_real(int dirfd, const char *path, unsigned how)
{
	char real[HW_PATH_MAX];

	if (real_name(dirfd, path, how, real))
		tell_live(AT_FDCWD, real, how);
}

void hw_goes_live(int dirfd, const char *path, unsigned how)
{
	if (!hw_in_use() || (uintptr_t)path < HW_ADDRESS_MIN)
		return;
	if (!tell_live(dirfd, path, how))
		tell_real(dirfd, path, how);
}

void hw_goes_unaudited(void)
{
	if (hw_in_use() && !hw_unaudited() && hw_request("/", 1, HW_WANT_UNAUDITED) != HW_DONE)
		hw_give_up();
}
