/* What the programs of this directory share: they print what they see, one line a call, so that their
 * output with and without the shim can be compared. */
#ifndef SHOW_H
#define SHOW_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints a call's name and result; errno only if the call failed. errno is set to a mark before each
 * call by MARK, and a successful call must not have changed it. */
#define MARK() (errno = 4444)

static inline void show(const char *what, const char *path, long result)
{
	int error = errno;
	if (result < 0)
		printf("%s %s: %s\n", what, path, strerror(error));
	else
		printf("%s %s: ok%s\n", what, path, error == 4444 ? "" : " but errno changed");
}

/* Joins the directory and a name; the result is valid until the eighth call after. */
static inline const char *join(const char *directory, const char *name)
{
	static char paths[8][8192];
	static unsigned next;
	char *path = paths[next++ % 8];
	snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	return path;
}

/* Names of every kind, in or absent from the fixture's tree. */
static const char *const NAMES[] = {"", ".", "..", "plain", "plain/", "plain/x", "plain/..", "lib", "lib/", "lib/.",
	"lib/..", "lib/../plain", "lib/../lib/./large", "lib//large", "link", "link/", "lib/chain", "absolute",
	"absolute/", "absolute/large", "absolute/../plain", "dangling", "dangling/x", "loop", "loop/x", "directory",
	"directory/one", "directory/../large", "directory/..", "demands", "absent", "absent/x", "absent/", "lib/absent",
	"lib/deep/deeper/absent", "lib/nothing", "lib/hardlink", "lib/unreadable", "lib/private", "lib/fifo", "empty",
	"empty/x", "closed", "closed/inside", "closed/absent", "bin/script", "bin/forbidden", "bin/suid", "bin/program",
	"bin/alias"};
#define NAME_COUNT (sizeof NAMES / sizeof *NAMES)

#endif
