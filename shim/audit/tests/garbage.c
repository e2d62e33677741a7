/* sources: table.c path.c resolve.c request.c sys.c view.c */
/* A table with garbage in it: nothing may be read outside of it, nothing may loop, and a process that
 * can't use it continues without it. Run under the sanitizers; the table's file ends at its mapping's end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"
#include "shim.h"

#define BODY_ROUNDS 4000
#define HEADER_ROUNDS 200
#define CHANGES_MAX 12
#define SECONDS_MAX 120

static const char description[] = "store /store\n"
				  "scope + /sw\n"
				  "dir /sw lib link up closed a b c d\n"
				  "dir /sw/lib x y z libx.so\n"
				  "file /sw/lib/libx.so\n"
				  "mark /sw/lib/libx.so LOADABLE WHOLE\n"
				  "link /sw/link lib/../lib\n"
				  "link /sw/up ..//sw/link/\n"
				  "unlistable /sw/closed\n"
				  "absent /sw/lib/y\n"
				  "error 5 /sw/a\n";

static const char *const paths[] = {"/sw", "/sw/lib", "/sw/lib/libx.so", "/sw/link/libx.so", "/sw/up/x",
	"/sw/up/../link/y/../z", "/sw/lib/none", "/sw/closed/x", "/sw/a", "/sw/a/b", "/sw/lib/y", "/sw/link",
	"/sw/b/c/d/e/f"};

static uint64_t random_state;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void look_at(const char *path)
{
	static const unsigned wants[] = {
		HW_WANT_ATTR, HW_WANT_LISTING, HW_WANT_LOADABLE, HW_WANT_WHOLE, HW_WANT_ATTR | HW_WANT_NO_FOLLOW};
	HWA_FOUND(found);
	const char *name;

	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		if (hwa_resolve(AT_FDCWD, path, wants[i], &found) != HWA_KNOWN)
			continue;
		CHECK(found.path.bytes < HWA_PATH_MAX && strlen(found.path.at) == found.path.bytes, "%s", path);
		const struct hw_listing *listing = hwa_listing_of(found.record, found.state);
		for (uint32_t entry = 0; listing && entry < listing->count && entry < 64; entry++)
			if (hwa_listing_name(found.record, listing, entry, &name))
				CHECK(hwa_listing_has(found.record, listing, name, strlen(name), NULL) <= 1, "%s",
					name);
	}
}

static void look_at_all(void)
{
	uint64_t state;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		look_at(paths[i]);
	hwa_find_inode(random_word() % 64, &state);
}

/* Words of a table's parts, so that damage meets what is in use. */
struct parts {
	uint64_t *words;
	size_t heap, heap_words, word_count;
};

static void damage(const struct parts *parts, size_t first, size_t count)
{
	uint64_t *word = &parts->words[first + random_word() % count];

	switch (random_word() % 5) {
	case 0:
		*word = random_word();
		break;
	case 1:
		*word ^= UINT64_C(1) << random_word() % 64;
		break;
	case 2:
		*word = random_word() % (parts->word_count * 8);
		break;
	case 3:
		*word = (*word & ~UINT64_C(0xffffffff)) | random_word() % parts->word_count;
		break;
	case 4:
		*word = parts->words[random_word() % parts->word_count];
		break;
	}
}

static struct parts map_parts(const char *file)
{
	int fd = open(file, O_RDWR);
	struct stat st;

	CHECK(fd >= 0 && fstat(fd, &st) == 0, "%m");
	uint64_t *words = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(words != MAP_FAILED, "%m");
	close(fd);
	const struct hw_header *header = (const struct hw_header *)words;
	return (struct parts){words, header->heap_at / 8, header->heap_used / 8, (size_t)st.st_size / 8};
}

/* Attaches in a child, which a signal ends if it fails or loops. */
static void in_child(char *environment[])
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		alarm(SECONDS_MAX);
		hwa_attach(environment);
		look_at_all();
		/* No daemon answers, so this gives the table up. */
		hwa_announce_change(AT_FDCWD, "/sw/lib/x", HWA_CHANGES_TREE);
		look_at_all();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", status);
}

int main(void)
{
	char table[128], variable[160];
	char *environment[] = {variable, NULL};

	make_work_directory();
	snprintf(table, sizeof(table), "%s/table", work_directory);
	snprintf(variable, sizeof(variable), "HEADWATER_TABLE=%s", table);
	make_table(table, description);
	struct parts parts = map_parts(table);
	size_t saved_words = parts.heap + parts.heap_words;
	uint64_t *saved = malloc(saved_words * 8);
	memcpy(saved, parts.words, saved_words * 8);

	for (int round = 0; round < HEADER_ROUNDS; round++) {
		random_state = (uint64_t)round * 2654435761u + 1;
		for (uint64_t change = random_word() % 3; change < 3; change++)
			damage(&parts, 0, 21);
		in_child(environment);
		memcpy(parts.words, saved, 64 * 8);
	}

	alarm(SECONDS_MAX);
	hwa_attach(environment);
	CHECK(hwa_attached(), "the undamaged table");
	for (int round = 0; round < BODY_ROUNDS; round++) {
		random_state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
		for (uint64_t change = random_word() % CHANGES_MAX; change < CHANGES_MAX; change++)
			damage(&parts, parts.heap, parts.heap_words);
		look_at_all();
		memcpy(parts.words + parts.heap, saved + parts.heap, parts.heap_words * 8);
	}
	free(saved);
	return 0;
}
