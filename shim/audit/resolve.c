/* Resolves a program's path to the table's answer.
 *
 * One probe finds a path that has a record. Otherwise the nearest known ancestor decides. A link replaces the path,
 * and the search starts again; a complete listing shows what is absent; only what remains is requested from the
 * daemon, once. Paths in the table are canonical, so an exact record needs no check of its ancestors. */
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
/* Paths whose look-ups are counted: sets by their hash, each with those that were looked up last. A program may look for
 * many in turn, and two that had one place would each make the other's count begin anew. */
#define ASKED_SETS 1024
#define ASKED_WAYS 4
/* Seconds between two comparisons of a path that is looked up again and again. */
#define POLL_INTERVAL_S 10

enum step {
	STEP_KNOWN, /* the prefix has a record */
	STEP_AGAIN, /* the path was rewritten */
	STEP_FAILS, /* found->error */
	STEP_ASK,
	STEP_ORIGINAL,
};

struct walk {
	struct hwa_found *found;
	unsigned links;
	bool plain; /* the path is in the scope and holds no ".." */
	bool must_be_dir;
	bool requested;
};

static enum step fails(struct walk *walk, int error)
{
	walk->found->error = error;
	return STEP_FAILS;
}

/* Returns the error that a record means. */
static enum step fails_as_known(struct walk *walk)
{
	int error = HW_ERRNO(walk->found->state);

	return error > 0 && error <= ERRNO_MAX ? fails(walk, error) : STEP_ASK;
}

/* Replaces the first `end` bytes of the path by a link's target. */
__attribute__((noinline)) static enum step follow(struct walk *walk, size_t end)
{
	struct hwa_found *found = walk->found;
	struct hwa_path *path = &found->path;
	size_t bytes, parent = end, rest = path->bytes - end;
	const char *target = hwa_link_target(found->record, &bytes);

	if (!target)
		return STEP_ASK;
	if (++walk->links > LINKS_MAX)
		return fails(walk, ELOOP);
	while (parent && path->at[parent - 1] != '/')
		parent--;
	if (rest == 0 && target[bytes - 1] == '/')
		walk->must_be_dir = true;
	/* The rest waits at the end of the room. What is put before it is not longer than parent, target and a
	 * slash. */
	while (parent + 1 + bytes + rest + 1 > path->room)
		if (!hwa_path_widen(path))
			return STEP_ORIGINAL;
	char *waiting = memmove(path->at + path->room - rest, path->at + end, rest);
	size_t length = target[0] == '/' ? 0 : parent ? parent - 1 : 0;
	length = hwa_append(path, length, target, bytes);
	hwa_finish(path, hwa_append(path, length, waiting, rest));
	walk->plain = false;
	return STEP_AGAIN;
}

/* Returns true if a path below a directory has more than one component. */
static bool is_below(const char *path, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		if (path[at] == '/')
			return true;
	return false;
}

/* Applies what a known ancestor, the first `cut` bytes, determines about the next component. */
static enum step ask_ancestor(struct walk *walk, size_t cut, size_t end)
{
	struct hwa_found *found = walk->found;
	uint64_t state = found->state;
	size_t name = cut ? cut + 1 : 1, name_end = name;

	if (state & (HW_PASSTHROUGH | HW_TREE_PASSTHROUGH))
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
	/* Whether a name exists changes; the daemon finds what lies below an existing one. */
	if (state & HW_LISTING_PASSTHROUGH)
		return is_below(found->path.at + name, end - name) ? STEP_ASK : STEP_ORIGINAL;
	const struct hw_listing *listing = hwa_listing_of(found->record, state);
	if (!listing)
		return STEP_ASK;
	while (name_end < end && found->path.at[name_end] != '/')
		name_end++;
	/* A name that is too long is another error than an absent one; the limit is the file system's. */
	if (name_end - name > NAME_BYTES_MAX)
		return STEP_ORIGINAL;
	if (hwa_listing_has(found->record, listing, found->path.at + name, name_end - name, NULL) == 0)
		return fails(walk, ENOENT);
	return STEP_ASK;
}

/* Looks up the first `end` bytes of the path, which contain no "..". */
static enum step look_up(struct walk *walk, size_t end, bool follow_last)
{
	struct hwa_found *found = walk->found;

	if (!walk->plain && !hwa_in_scope(found->path.at, end))
		return STEP_ORIGINAL;
	found->record = hwa_find(found->path.at, end, &found->state);
	if (found->record) {
		if (found->state & (HW_PASSTHROUGH | HW_TREE_PASSTHROUGH))
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
		while (found->path.at[--cut] != '/')
			;
		size_t prefix = cut ? cut : 1;
		if (!hwa_in_scope(found->path.at, prefix))
			break;
		found->record = hwa_find(found->path.at, prefix, &found->state);
		if (found->record &&
			(found->state & (HW_PASSTHROUGH | HW_TREE_PASSTHROUGH) || HW_KIND(found->state) != HW_UNKNOWN))
			return ask_ancestor(walk, cut, end);
	}
	return STEP_ASK;
}

/* Drops the first ".." and the directory before it, which is known and canonical. */
static enum step climb(struct walk *walk, size_t dotdot)
{
	struct hwa_found *found = walk->found;
	size_t parent = dotdot, rest = dotdot + 3;

	if (dotdot && HW_KIND(found->state) != HW_DIR)
		return fails(walk, ENOTDIR);
	while (parent && found->path.at[--parent] != '/')
		;
	memmove(found->path.at + parent, found->path.at + rest, found->path.bytes - rest);
	hwa_finish(&found->path, parent + found->path.bytes - rest);
	return STEP_AGAIN;
}

/* Checks that the record at the path's end has what is wanted. */
static enum step check_wanted(struct walk *walk, unsigned want)
{
	uint64_t state = walk->found->state;
	unsigned kind = HW_KIND(state);

	if (walk->must_be_dir && kind != HW_DIR)
		return fails(walk, ENOTDIR);
	if (kind == HW_OTHER || state & HW_LISTING_PASSTHROUGH)
		return STEP_ORIGINAL;
	if (!(state & HW_ATTR))
		return STEP_ASK;
	if (want & HW_WANT_LISTING) {
		if (kind != HW_DIR)
			return fails(walk, ENOTDIR);
		if (state & HW_UNLISTABLE)
			return STEP_ORIGINAL;
		if (!hwa_listing_of(walk->found->record, state))
			return STEP_ASK;
	}
	if (want & (HW_WANT_LOADABLE | HW_WANT_WHOLE | HW_WANT_EXECUTE)) {
		uint64_t resident = want & (HW_WANT_WHOLE | HW_WANT_EXECUTE) ? HW_WHOLE : HW_WHOLE | HW_LOADABLE;

		if (!(want & HW_WANT_EXECUTE) && !(state & HW_DIRECT))
			resident |= HW_IN_MOUNT;
		if (kind != HW_FILE)
			return STEP_ORIGINAL;
		if (!(state & resident)) {
			bool asks = !(state & HW_DIRECT) && hwa_stores(walk->found->record->attr.size);

			return asks ? STEP_ASK : STEP_ORIGINAL;
		}
		/* Content that was fetched for reading has not been checked for execution. */
		if (want & HW_WANT_EXECUTE && !(state & HW_EXECUTABLE) && !walk->requested)
			return STEP_ASK;
	}
	return STEP_KNOWN;
}

/* Follows found->path as far as the table has records. Each round consumes a link or a "..". */
static enum step resolve(struct walk *walk, unsigned want)
{
	struct hwa_found *found = walk->found;

	for (;;) {
		size_t dotdot = walk->plain ? found->path.bytes : hwa_dotdot(found->path.at, found->path.bytes);
		bool last = dotdot == found->path.bytes;
		bool follow_last = !last || walk->must_be_dir || !(want & HW_WANT_NO_FOLLOW);
		enum step step = dotdot ? look_up(walk, dotdot, follow_last) : STEP_KNOWN;

		if (step == STEP_KNOWN)
			step = last ? check_wanted(walk, want) : climb(walk, dotdot);
		if (step != STEP_AGAIN)
			return step;
	}
}

/* Returns true if the kernel would demand a directory: the text ends in "/", "/." or is ".". */
static bool demands_directory(const char *path)
{
	size_t bytes = strlen(path);

	return path[bytes - 1] == '/' || (path[bytes - 1] == '.' && (bytes == 1 || path[bytes - 2] == '/'));
}

/* A path that this process looks up, by its hash. What two threads write at once is lost: a comparison is made earlier or
 * later. */
static struct asked {
	uint64_t hash;
	uint32_t times;
	uint32_t compared_s;
} asked[ASKED_SETS][ASKED_WAYS];

static void copy_asked(struct asked *to, struct asked *from)
{
	__atomic_store_n(&to->hash, __atomic_load_n(&from->hash, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&to->times, __atomic_load_n(&from->times, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&to->compared_s, __atomic_load_n(&from->compared_s, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Returns the path's place, the first of its set. */
static struct asked *asked_of(uint64_t hash)
{
	struct asked *set = asked[hash % ASKED_SETS], found = {.hash = hash};
	int at = 0;

	while (at < ASKED_WAYS && __atomic_load_n(&set[at].hash, __ATOMIC_RELAXED) != hash)
		at++;
	if (at == 0)
		return set;
	if (at < ASKED_WAYS)
		copy_asked(&found, &set[at]);
	else
		at--;
	for (; at > 0; at--)
		copy_asked(&set[at], &set[at - 1]);
	copy_asked(set, &found);
	return set;
}

/* Returns true if this process has looked the path up again and again, for a while: it may wait for a change from outside
 * of the session, which is a snapshot. Every other look-up costs a look at the clock. */
static bool is_polled(const struct hwa_path *path)
{
	struct asked *place = asked_of(hwa_hash(path->at, path->bytes));

	uint32_t times = __atomic_add_fetch(&place->times, 1, __ATOMIC_RELAXED);
	if (times % 2)
		return false;
	uint32_t now_s = (uint32_t)hwa_now_s(), compared_s = __atomic_load_n(&place->compared_s, __ATOMIC_RELAXED);
	if (times > 2 && now_s - compared_s < POLL_INTERVAL_S)
		return false;
	__atomic_store_n(&place->compared_s, now_s, __ATOMIC_RELAXED);
	return times > 2;
}

enum sameness { SAME, OTHER, ABSENT };

/* Compares the source file with its record, which is NULL if there should be none. */
static __attribute__((noinline)) enum sameness compare(int dirfd, const char *path, unsigned want,
	const struct hw_attr *attr)
{
	struct stat st;

	if (hwa_sys(__NR_newfstatat, dirfd, path, &st, want & HW_WANT_NO_FOLLOW ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return ABSENT;
	/* The device is not compared: the reader's node may number it differently. */
	bool same = attr && st.st_ino == attr->ino && st.st_mode == attr->mode && (uint64_t)st.st_size == attr->size &&
		st.st_mtim.tv_sec == attr->mtime_s && (uint64_t)st.st_mtim.tv_nsec == attr->mtime_ns &&
		st.st_ctim.tv_sec == attr->ctime_s && (uint64_t)st.st_ctim.tv_nsec == attr->ctime_ns;
	return same ? SAME : OTHER;
}

/* Returns the answer if it is still valid. If that is uncertain, the source file is checked by the program's own path,
 * because links on the way may have changed. */
static enum step verified(int dirfd, const char *path, unsigned want, const struct hwa_found *found, enum step step)
{
	if (step != STEP_KNOWN && step != STEP_FAILS)
		return step;
	bool polled = is_polled(&found->path), known = step == STEP_KNOWN;
	if (!polled && !hwa_unaudited())
		return step;
	if (!polled && !known)
		return STEP_ORIGINAL;
	enum sameness sameness = compare(dirfd, path, want, known ? &found->record->attr : NULL);
	if (sameness == (known ? SAME : ABSENT))
		return hwa_unaudited() && !known ? STEP_ORIGINAL : step;
	/* A process that has the file open must see its new state, too, and each later look-up the same as this one. If
	 * the daemon can't be reached, the process uses originals only. */
	if (polled || (sameness == OTHER && HW_KIND(found->state) == HW_FILE))
		hwa_request(found->path.at, found->path.bytes, HW_WANT_PASSTHROUGH | HW_WANT_NO_FOLLOW);
	return STEP_ORIGINAL;
}

enum hwa_answer hwa_resolve(int dirfd, const char *path, unsigned want, struct hwa_found *found)
{
	struct walk walk = {.found = found};
	enum step step;

	if (hwa_absolute_plain(dirfd, path, &found->path, &walk.plain) < 0)
		return HWA_ORIGINAL;
	hwa_count(HWA_COUNT_LOOKUPS);
	if (!hwa_in_use()) {
		hwa_count(HWA_COUNT_FALLBACKS);
		return HWA_ORIGINAL;
	}
	walk.must_be_dir = !walk.plain && demands_directory(path);
	step = verified(dirfd, path, want, found, resolve(&walk, want));
	if (step != STEP_ASK) {
		if (step != STEP_ORIGINAL)
			hwa_count(HWA_COUNT_ANSWERED);
	} else if (hwa_absolute(dirfd, path, &found->path) == 0 &&
		hwa_request(found->path.at, found->path.bytes, want) == HW_DONE) {
		walk = (struct walk){.found = found, .must_be_dir = demands_directory(path), .requested = true};
		step = verified(dirfd, path, want, found, resolve(&walk, want));
	}
	switch (step) {
	case STEP_KNOWN:
		return HWA_KNOWN;
	case STEP_FAILS:
		return HWA_FAILS;
	case STEP_ASK:
		hwa_count(HWA_COUNT_FALLBACKS);
		return HWA_ORIGINAL;
	default:
		return HWA_ORIGINAL;
	}
}

/* Returns true if the file that is about to change has other names, too. */
static __attribute__((noinline)) bool has_names(int dirfd, const char *path, unsigned how)
{
	struct stat st;
	int flags = how & HWA_CHANGES_TARGET ? 0 : AT_SYMLINK_NOFOLLOW;

	return hwa_sys(__NR_newfstatat, dirfd, path, &st, flags) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

/* Announces the path as it is written. Returns true if the daemon knows its target, too. */
static __attribute__((noinline)) bool tell_live(int dirfd, const char *path, unsigned how, struct hwa_found *found)
{
	struct walk walk = {.found = found};
	unsigned want = HW_WANT_PASSTHROUGH | (how & HWA_CHANGES_TREE ? HW_WANT_TREE : 0);

	if (hwa_absolute(dirfd, path, &found->path) < 0)
		return false;
	found->record = NULL;
	enum step step = resolve(&walk, HW_WANT_ATTR | HW_WANT_NO_FOLLOW);
	if (step == STEP_ORIGINAL && found->record) {
		/* A passthrough path needs no second announcement. */
		bool itself = found->record->path_bytes == found->path.bytes;

		if (found->state &
			(want & HW_WANT_TREE || !itself ? HW_TREE_PASSTHROUGH : HW_PASSTHROUGH | HW_TREE_PASSTHROUGH))
			return false;
	}
	if (how & HWA_CHANGES_NEW && step != STEP_KNOWN &&
		!(found->record && found->record->path_bytes == found->path.bytes))
		want |= HW_WANT_TREE;
	bool link = step == STEP_KNOWN && HW_KIND(found->state) == HW_LINK;
	if (hwa_absolute(dirfd, path, &found->path) < 0)
		return false;
	/* The daemon finds the file's other names by its attributes, which it must have before. */
	if (step == STEP_ASK && has_names(dirfd, path, how))
		hwa_request(found->path.at, found->path.bytes,
			HW_WANT_ATTR | (how & HWA_CHANGES_TARGET ? 0 : HW_WANT_NO_FOLLOW));
	/* Both the link and its target, together, since the daemon follows no passthrough link. */
	if (hwa_request(found->path.at, found->path.bytes, link ? want : want | HW_WANT_NO_FOLLOW) != HW_DONE)
		hwa_give_up();
	return !hwa_unaudited() && ((step == STEP_KNOWN && !link) || (step == STEP_FAILS && found->error == ENOENT));
}

/* Splits a path into its directory, which is opened, and its last name, "" if it leads to a directory by itself.
 * Changes the text, which retains the name. Returns the descriptor (`from` itself if the name has no directory), or a
 * negative error number. */
static long enter(long from, struct hwa_path *path, const char **name)
{
	size_t start;

	while (path->bytes > 1 && path->at[path->bytes - 1] == '/')
		path->at[--path->bytes] = '\0';
	for (start = path->bytes; start && path->at[start - 1] != '/';)
		start--;
	*name = path->at + start;
	if (path->bytes - start > NAME_BYTES_MAX)
		return -ENAMETOOLONG;
	if (!**name || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
		*name = "";
	else if (!start)
		return from;
	else if (start > 1)
		path->at[start - 1] = '\0';
	return hwa_sys(__NR_openat, from, **name && start == 1 ? "/" : path->at, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Finds the kernel's path, without links, of the file that is about to change; false if it can't be changed. */
static __attribute__((noinline)) bool real_name(int dirfd, const char *path, unsigned how, struct hwa_path *name,
	struct hwa_path *out)
{
	long from = dirfd, place, length;
	const char *last;
	size_t bytes = 0;

	while (bytes < HWA_PATH_MAX && path[bytes])
		bytes++;
	if (!bytes || !hwa_copy(name, path, bytes))
		return false;
	for (unsigned links = 0;; links++, from = place) {
		place = enter(from, name, &last);
		if (place != from && from >= 0 && from != dirfd)
			hwa_sys(__NR_close, from);
		if (place < 0 && place != AT_FDCWD)
			return false;
		length = how & HWA_CHANGES_TARGET && *last && links < LINKS_MAX ? hwa_read_link((int)place, last, out)
										: 0;
		if (length <= 0 || !hwa_copy(name, out->at, out->bytes))
			break;
	}
	int error = hwa_directory_of((int)place, out);
	if (place >= 0 && place != dirfd)
		hwa_sys(__NR_close, place);
	if (error)
		return false;
	bytes = hwa_append(out, out->bytes == 1 ? 0 : out->bytes, last, strlen(last));
	if (bytes == HWA_TOO_LONG)
		return false;
	hwa_finish(out, bytes);
	return true;
}

void hwa_announce_change(int dirfd, const char *path, unsigned how)
{
	if (!hwa_in_use() || !hwa_is_address(path))
		return;
	HWA_FOUND(found);
	if (tell_live(dirfd, path, how, &found))
		return;
	/* The table has a snapshot, and nothing outside of the scope: the kernel resolves the links on the way. */
	HWA_PATH_APART(real);
	hwa_path_clear(&found.path);
	if (real_name(dirfd, path, how, &found.path, &real))
		tell_live(AT_FDCWD, real.at, how, &found);
}

void hwa_announce_unaudited(void)
{
	if (hwa_in_use() && !hwa_unaudited() && hwa_request("/", 1, HW_WANT_UNAUDITED) != HW_DONE)
		hwa_give_up();
}
