/* scandir from the table's listings.
 *
 * The caller frees the result with the program's own free, which may not be libc's. So the memory must be from the
 * malloc that libc itself calls, and strdup is the simplest function that calls it. */
#include "wrap.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys.h"

typedef int selects(const struct dirent *);
typedef int compares(const struct dirent **, const struct dirent **);

/* Returns a block of the program's malloc; NULL if there is no memory. */
static void *allocate(struct hwa_namespace *ns, size_t bytes)
{
	char *text = hwa_map(bytes);
	if (!text)
		return NULL;
	memset(text, 'x', bytes - 1);
	void *block = LIBC(strdup)(text);
	hwa_sys(__NR_munmap, text, bytes);
	return block;
}

static void *allocate_entry(struct hwa_namespace *ns, const struct dirent *entry)
{
	char text[sizeof(struct dirent) + 1];
	memset(text, 'x', entry->d_reclen - 1u);
	text[entry->d_reclen - 1] = 0;
	char *block = LIBC(strdup)(text);
	return block ? memcpy(block, entry, entry->d_reclen) : NULL;
}

/* Returns the complete listing, or NULL if it is not known, not valid now, or damaged. */
static const struct hw_listing *whole_listing(const struct hwa_found *found)
{
	const char *name;
	if (HW_KIND(found->state) != HW_DIR || !(found->state & HW_LISTED) || found->state & HW_LISTING_PASSTHROUGH)
		return NULL;
	const struct hw_listing *listing = hwa_listing_of(found->record, found->state);
	for (uint32_t i = 0; listing && i < listing->count; i++) {
		const struct hw_listing_entry *entry = hwa_listing_name(found->record, listing, i, &name);
		if (!entry || entry->name_bytes >= sizeof(((struct dirent *)0)->d_name))
			return NULL;
	}
	return listing;
}

static int scan(struct hwa_namespace *ns, const struct hw_record *record, const struct hw_listing *listing,
	struct dirent ***list, selects *select, compares *compare)
{
	struct dirent **found = NULL;
	int count = 0;
	for (uint32_t i = 0; i < listing->count; i++) {
		struct dirent entry;
		const char *name;
		const struct hw_listing_entry *from = hwa_listing_name(record, listing, i, &name);
		hwa_give_entry(&entry, from, name, i);
		if (select && !select(&entry))
			continue;
		if (!found)
			found = allocate(ns, listing->count * sizeof *found + 1);
		struct dirent *copy = found ? allocate_entry(ns, &entry) : NULL;
		if (!copy)
			return fail(ns, ENOMEM);
		found[count++] = copy;
	}
	if (count > 0 && compare) {
		__typeof__(&qsort) sort = LIBC(qsort);
		sort(found, (size_t)count, sizeof *found, (int (*)(const void *, const void *))(void (*)(void))compare);
	}
	*list = found;
	return count;
}

static __attribute__((noinline)) int find(struct hwa_namespace *ns, int dirfd, const char *path,
	const struct hw_record **record, const struct hw_listing **listing)
{
	HWA_FOUND(found);
	int result = look_up(ns, dirfd, path, HW_WANT_LISTING, &found);
	if (result != 0)
		return result;
	*record = found.record;
	*listing = whole_listing(&found);
	return *listing ? 0 : UNSERVED;
}

static int serve_scan(struct hwa_namespace *ns, int dirfd, const char *path, struct dirent ***list, selects *select,
	compares *compare)
{
	const struct hw_record *record;
	const struct hw_listing *listing;
	if (!ns->real[HWA_FN_strdup] || !ns->real[HWA_FN_qsort])
		return UNSERVED;
	int result = find(ns, dirfd, path, &record, &listing);
	return result == 0 ? scan(ns, record, listing, list, select, compare) : result;
}

#define WRAP_SCANDIR(name) \
	SERVED(int, name, (const char *path, struct dirent ***list, selects *select, compares *compare), \
		(path, list, select, compare), serve_scan(ns, AT_FDCWD, path, list, select, compare))
WRAP_SCANDIR(scandir)
WRAP_SCANDIR(scandir64)

#define WRAP_SCANDIRAT(name) \
	SERVED(int, name, (int dirfd, const char *path, struct dirent ***list, selects *select, compares *compare), \
		(dirfd, path, list, select, compare), serve_scan(ns, dirfd, path, list, select, compare))
WRAP_SCANDIRAT(scandirat)
WRAP_SCANDIRAT(scandirat64)
