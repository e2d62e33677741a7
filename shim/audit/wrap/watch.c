/* inotify_add_watch: a process that watches a path expects it to change.
 *
 * The path becomes a passthrough path, a directory with all below it, so that what is opened after an event is the
 * original. Events come from the original, and a reader that waits for one (tail -f, tail -F) reads by the descriptor
 * that it has. The store's copy would follow a moment later, and the reader would wait for ever: so the original
 * replaces it behind that descriptor. */
#include "wrap.h"

#include <sys/inotify.h>

#include "sys.h"

/* Number of descriptors that are examined: a reader of few files has low ones. */
#define HELD_MAX 256

static void note_watch(const char *path)
{
	struct stat watched;
	if (!hwa_attached() || !hwa_is_address(path) || hwa_sys(__NR_newfstatat, AT_FDCWD, path, &watched, 0) < 0)
		return;
	if (S_ISREG(watched.st_mode))
		hwa_exchange_copies(AT_FDCWD, path, HELD_MAX);
	hwa_announce_change(AT_FDCWD, path, HWA_CHANGES_TARGET | (S_ISDIR(watched.st_mode) ? HWA_CHANGES_TREE : 0));
}

NOTED(int, inotify_add_watch, (int instance, const char *path, uint32_t mask), (instance, path, mask), note_watch(path))
