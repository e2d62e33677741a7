/* sources: table.c path.c resolve.c request.c sys.c view.c */
/* Paths against a table, without a daemon: what the table knows is answered, the rest is the
 * original's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>

#include "check.h"
#include "shim.h"

static const char description[] =
	"store /store/root\n"
	"domains 18446744073709551615\n"
	"scope + /sw\n"
	"scope - /sw/private\n"
	"scope + /sw/private/shared\n"
	"scope + /linked\n"
	"dir /sw bin lib link chain loop1 abs out dangling odd live listing tree closed files private up\n"
	"dir /sw/lib liba.so liba.so.1 sub gone.so\n"
	"dir /sw/lib/sub deep\n"
	"file /sw/lib/liba.so.1\n"
	"mark /sw/lib/liba.so.1 LOADABLE NATIVE_OBJECT REPLICATED\n"
	"link /sw/lib/liba.so liba.so.1\n"
	"link /sw/link lib\n"
	"link /sw/chain link\n"
	"link /sw/loop1 loop2\n"
	"link /sw/loop2 loop1\n"
	"link /sw/abs /sw/lib\n"
	"link /sw/up lib/sub/..//./\n"
	"link /sw/out /etc\n"
	"link /sw/dangling nothing\n"
	"link /linked sw/lib\n"
	"error 13 /sw/odd\n"
	"absent /sw/lib/never\n"
	"dir /sw/live x\n"
	"mark /sw/live PASSTHROUGH LISTING_PASSTHROUGH\n"
	"dir /sw/listing x\n"
	"file /sw/listing/x\n"
	"mark /sw/listing LISTING_PASSTHROUGH\n"
	"dir /sw/tree x\n"
	"mark /sw/tree PASSTHROUGH TREE_PASSTHROUGH\n"
	"unlistable /sw/closed\n"
	"dir /sw/files whole run live large small kept mounted direct\n"
	"file /sw/files/whole\n"
	"mark /sw/files/whole WHOLE LOADABLE\n"
	"file /sw/files/run\n"
	"mark /sw/files/run WHOLE EXECUTABLE\n"
	"file /sw/files/live\n"
	"mark /sw/files/live PASSTHROUGH WHOLE\n"
	"file /sw/private/shared/file\n"
	"stored 1000\n"
	"file /sw/files/large 1001\n"
	"file /sw/files/small 1000\n"
	"file /sw/files/kept 1001\n"
	"mark /sw/files/kept LOADABLE\n"
	"mount /node/view\n"
	"file /sw/files/mounted\n"
	"mark /sw/files/mounted IN_MOUNT EXECUTABLE\n"
	"file /sw/files/direct\n"
	"mark /sw/files/direct IN_MOUNT DIRECT\n";

#define ORIGINAL (-1)
#define KNOWN 0

/* expected: KNOWN (with the canonical path), ORIGINAL, or an error number. */
static void check(int dirfd, const char *path, unsigned want, int expected, const char *canonical)
{
	HWA_FOUND(found);
	enum hwa_answer answer = hwa_resolve(dirfd, path, want, &found);
	int result = answer == HWA_KNOWN ? KNOWN : answer == HWA_FAILS ? found.error : ORIGINAL;

	CHECK(result == expected, "%s gives %d, not %d", path, result, expected);
	if (expected == KNOWN)
		CHECK(strcmp(found.path.at, canonical) == 0 && found.path.bytes == strlen(canonical),
			"%s leads to %s, not %s", path, found.path.at, canonical);
}

/* /sw/lib/ and a name of so many bytes. */
static const char *long_name(size_t bytes)
{
	static char path[HWA_PATH_MAX + 16];

	strcpy(path, "/sw/lib/");
	memset(path + 8, 'x', bytes);
	path[8 + bytes] = '\0';
	return path;
}

static void names(void)
{
	const unsigned attr = HW_WANT_ATTR;

	check(AT_FDCWD, "/sw/lib/liba.so.1", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "//sw/./lib///liba.so.1", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw", attr, KNOWN, "/sw");
	check(AT_FDCWD, "/sw/", attr, KNOWN, "/sw");
	check(AT_FDCWD, "/store/root/sw/lib", attr, KNOWN, "/sw/lib");
	check(AT_FDCWD, "/store/rooted/sw/lib", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/lib/never", attr, ENOENT, NULL);
	check(AT_FDCWD, "/sw/lib/none", attr, ENOENT, NULL);
	check(AT_FDCWD, "/sw/lib/none/below", attr, ENOENT, NULL);
	check(AT_FDCWD, "/sw/lib/liba.so.1/below", attr, ENOTDIR, NULL);
	check(AT_FDCWD, "/sw/lib/liba.so.1/", attr, ENOTDIR, NULL);
	check(AT_FDCWD, "/sw/lib/liba.so.1/.", attr, ENOTDIR, NULL);
	check(AT_FDCWD, "/sw/lib/gone.so", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/odd", attr, EACCES, NULL);
	check(AT_FDCWD, "/sw/odd/below", attr, EACCES, NULL);
	check(AT_FDCWD, "/swap", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/private/x", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/private/shared/file", attr, KNOWN, "/sw/private/shared/file");
	check(AT_FDCWD, long_name(255), attr, ENOENT, NULL);
	check(AT_FDCWD, long_name(256), attr, ORIGINAL, NULL);
	check(AT_FDCWD, long_name(HWA_PATH_MAX), attr, ORIGINAL, NULL);
	check(AT_FDCWD, (const char *)8, attr, ORIGINAL, NULL);
	check(AT_FDCWD, (const char *)-1, attr, ORIGINAL, NULL);
	check(AT_FDCWD, "", attr, ORIGINAL, NULL);
	check(AT_FDCWD, NULL, attr, ORIGINAL, NULL);
}

static void links(void)
{
	const unsigned attr = HW_WANT_ATTR;

	check(AT_FDCWD, "/sw/lib/liba.so", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw/lib/liba.so", attr | HW_WANT_NO_FOLLOW, KNOWN, "/sw/lib/liba.so");
	check(AT_FDCWD, "/sw/chain/liba.so", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw/chain", attr | HW_WANT_NO_FOLLOW, KNOWN, "/sw/chain");
	check(AT_FDCWD, "/sw/chain/", attr | HW_WANT_NO_FOLLOW, KNOWN, "/sw/lib");
	check(AT_FDCWD, "/sw/abs/none", attr, ENOENT, NULL);
	check(AT_FDCWD, "/sw/loop1", attr, ELOOP, NULL);
	check(AT_FDCWD, "/sw/loop1/x", attr, ELOOP, NULL);
	check(AT_FDCWD, "/sw/loop1", attr | HW_WANT_NO_FOLLOW, KNOWN, "/sw/loop1");
	check(AT_FDCWD, "/sw/out", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/out/passwd", attr, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/dangling", attr, ENOENT, NULL);
	check(AT_FDCWD, "/linked/liba.so", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw/up/liba.so", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw/lib/sub/..", attr, KNOWN, "/sw/lib");
	check(AT_FDCWD, "/sw/lib/sub/../../link/liba.so.1", attr, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw/link/../lib", attr, KNOWN, "/sw/lib");
	check(AT_FDCWD, "/sw/none/../lib", attr, ENOENT, NULL);
	check(AT_FDCWD, "/sw/lib/liba.so/../sub", attr, ENOTDIR, NULL);
	check(AT_FDCWD, "/sw/../sw/lib", attr, KNOWN, "/sw/lib");
	check(AT_FDCWD, "/sw/lib/../..", attr, ORIGINAL, NULL);
}

static void states(void)
{
	check(AT_FDCWD, "/sw/live", HW_WANT_ATTR, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/live/none", HW_WANT_ATTR, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/listing", HW_WANT_LISTING, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/listing/none", HW_WANT_ATTR, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/listing/x", HW_WANT_ATTR, KNOWN, "/sw/listing/x");
	check(AT_FDCWD, "/sw/tree/none", HW_WANT_ATTR, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/closed", HW_WANT_ATTR, KNOWN, "/sw/closed");
	check(AT_FDCWD, "/sw/closed", HW_WANT_LISTING, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/closed/none", HW_WANT_ATTR, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/lib", HW_WANT_LISTING, KNOWN, "/sw/lib");
	check(AT_FDCWD, "/sw/lib/liba.so.1", HW_WANT_LISTING, ENOTDIR, NULL);
	check(AT_FDCWD, "/sw/lib/liba.so", HW_WANT_LOADABLE, KNOWN, "/sw/lib/liba.so.1");
	check(AT_FDCWD, "/sw/lib/liba.so", HW_WANT_WHOLE, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/lib", HW_WANT_WHOLE, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/files/whole", HW_WANT_WHOLE, KNOWN, "/sw/files/whole");
	check(AT_FDCWD, "/sw/files/run", HW_WANT_EXECUTE, KNOWN, "/sw/files/run");
	check(AT_FDCWD, "/sw/files/whole", HW_WANT_EXECUTE, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/files/live", HW_WANT_WHOLE, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/files/live", HW_WANT_ATTR, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/files/large", HW_WANT_LOADABLE, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/files/large", HW_WANT_ATTR, KNOWN, "/sw/files/large");
	check(AT_FDCWD, "/sw/files/kept", HW_WANT_LOADABLE, KNOWN, "/sw/files/kept");
	CHECK(hwa_stores(1000) && !hwa_stores(1001), "a limit of 1000 bytes");
}

/* A file in the mount is read there, and executed from the store. */
static void mounted(void)
{
	char copy[2 * HWA_PATH_MAX];
	uint64_t state = 0;

	check(AT_FDCWD, "/sw/files/mounted", HW_WANT_WHOLE, KNOWN, "/sw/files/mounted");
	check(AT_FDCWD, "/sw/files/mounted", HW_WANT_LOADABLE, KNOWN, "/sw/files/mounted");
	check(AT_FDCWD, "/sw/files/mounted", HW_WANT_EXECUTE, ORIGINAL, NULL);
	check(AT_FDCWD, "/sw/files/direct", HW_WANT_WHOLE, ORIGINAL, NULL);
	CHECK(hwa_find("/sw/files/mounted", 17, &state) && hwa_loads_from(state) == HWA_IN_MOUNT, "%#lx", state);
	CHECK(hwa_find("/sw/files/whole", 15, &state) && hwa_loads_from(state) == HWA_IN_STORE, "%#lx", state);
	CHECK(hwa_store_path("/a", 2, HWA_IN_MOUNT, copy) == 12 && strcmp(copy, "/node/view/a") == 0, "%s", copy);
	CHECK(strcmp(hwa_strip_store(copy), "/a") == 0 && hwa_place_of(copy) == HWA_IN_MOUNT, "stripped");
	CHECK(!hwa_strip_store("/node/view") && !hwa_strip_store("/node/viewer/a"), "not below the mount");
	HWA_FOUND(found);
	CHECK(hwa_resolve(AT_FDCWD, "/sw/files/mounted", HW_WANT_WHOLE, &found) == HWA_KNOWN &&
			strcmp(hwa_copy_of(&found.path, HWA_IN_MOUNT), "/node/view/sw/files/mounted") == 0 &&
			strcmp(hwa_copy_of(&found.path, HWA_IN_STORE), "/store/root/sw/files/mounted") == 0,
		"each prefix before the same path");
}

/* Relative paths start from the real directory, wherever it is. */
static void relative(void)
{
	char below[128], table[256];
	HWA_PATH(path);

	snprintf(below, sizeof(below), "%s/here", work_directory);
	CHECK(mkdir(below, 0700) == 0 && chdir(below) == 0, "%m");
	int directory = open(work_directory, O_RDONLY | O_DIRECTORY);
	snprintf(table, sizeof(table), "%s/x/../here", work_directory);

	CHECK(hwa_absolute(AT_FDCWD, "./a//b/", &path) == -EXDEV && strncmp(path.at, below, strlen(below)) == 0 &&
			strcmp(path.at + strlen(below), "/a/b") == 0,
		"%s", path.at);
	CHECK(hwa_absolute(directory, "x/../here", &path) == -EXDEV && strcmp(path.at, table) == 0, "%s", path.at);
	CHECK(hwa_absolute(999, "x", &path) < 0, "a closed descriptor");
	CHECK(hwa_absolute(999, "/sw/lib", &path) == 0 && path.bytes == 7, "%s", path.at);
	check(directory, "x", HW_WANT_ATTR, ORIGINAL, NULL);
	close(directory);
}

static void listings(void)
{
	uint64_t state;
	uint8_t type;
	const struct hw_record *record = hwa_find("/sw/lib", 7, &state);
	const struct hw_listing *listing = hwa_listing_of(record, state);
	const char *name;

	CHECK(listing && listing->count == 6, "two dots and four names");
	CHECK(hwa_listing_name(record, listing, 0, &name) && strcmp(name, ".") == 0, "%s", name);
	CHECK(hwa_listing_name(record, listing, 5, &name) && strcmp(name, "gone.so") == 0, "%s", name);
	CHECK(!hwa_listing_name(record, listing, 6, &name), "no seventh entry");
	CHECK(hwa_listing_has(record, listing, "liba.so", 7, &type) == 1 && type == 0, "liba.so");
	CHECK(hwa_listing_has(record, listing, "liba.so.", 8, NULL) == 0, "liba.so.");
}

/* All domains have mirrors, so this process's has one. */
static void domains(void)
{
	char copy[2 * HWA_PATH_MAX], expected[64];
	unsigned domain = 0;
	uint64_t state = 0;

	CHECK(getcpu(NULL, &domain) == 0 && domain < 64, "%m");
	if (hwa_domain() != (int)domain) {
		printf("skipped: the process has moved from memory domain %d to %u\n", hwa_domain(), domain);
		return;
	}
	snprintf(expected, sizeof(expected), "/store/root%u/a", domain);
	CHECK(hwa_store_path("/a", 2, HWA_IN_DOMAIN, copy) == (int)strlen(expected) && strcmp(copy, expected) == 0,
		"%s", copy);
	CHECK(hwa_place_of(copy) == HWA_IN_DOMAIN && hwa_place_of("/store/root/a1") == HWA_IN_STORE &&
			hwa_place_of("/a1") == HWA_IN_STORE,
		"%s", copy);
	CHECK(strcmp(hwa_strip_store(copy), "/a") == 0, "%s", copy);
	CHECK(hwa_find("/sw/lib/liba.so.1", 17, &state) && hwa_replicated(state, HW_REPLICATED), "%#lx", state);
	CHECK(!hwa_replicated(state, HW_REPLICATED_WHOLE), "%#lx", state);
	CHECK(hwa_find("/sw/files/whole", 15, &state) && !hwa_replicated(state, HW_REPLICATED), "%#lx", state);
}

int main(void)
{
	char table[128], variable[160];
	char *environment[] = {"OTHER=1", variable, NULL};
	char store[2 * HWA_PATH_MAX];

	check(AT_FDCWD, "/sw/lib", HW_WANT_ATTR, ORIGINAL, NULL);
	make_work_directory();
	snprintf(table, sizeof(table), "%s/table", work_directory);
	snprintf(variable, sizeof(variable), "HEADWATER_TABLE=%s", table);
	make_table(table, description);
	hwa_attach(environment);
	CHECK(hwa_attached(), "%s", table);
	names();
	links();
	states();
	mounted();
	relative();
	listings();
	CHECK(hwa_store_path("/a", 2, HWA_IN_STORE, store) == 13 && strcmp(store, "/store/root/a") == 0, "%s", store);
	CHECK(strcmp(hwa_strip_store("/store/root/a"), "/a") == 0, "stripped");
	CHECK(strcmp(hwa_after_mirror("/12/root/a"), "/a") == 0 && !hwa_after_mirror("/root/a") &&
			!hwa_after_mirror("/1/roo") && !hwa_after_mirror("1/root"),
		"a generation's mirror");
	CHECK(strcmp(hwa_strip_store("/store/root12/a"), "/a") == 0 && !hwa_strip_store("/store/root12") &&
			!hwa_strip_store("/store/root1a/b") && strcmp(hwa_after_mirror("/12/root7/a"), "/a") == 0,
		"a domain's mirror");
	domains();
	CHECK(!hwa_strip_store("/store/root") && !hwa_strip_store("/store/roo"), "not below the store");
	return 0;
}
