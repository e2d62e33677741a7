/* What is known of places in the program from earlier runs, in a file that several jobs may read and write at once. */
#ifndef HWIO_PROFILE_H
#define HWIO_PROFILE_H

#include <stdio.h>

#include "base/context.h"

/* Maximum of places in a file. */
#define HWIO_PROFILE_MAX 1024

enum hwio_judgement {
	/* The place gained, or nothing is known. */
	HWIO_JUDGED_USEFUL,
	/* It gained nothing, and may be tried again. */
	HWIO_JUDGED_USELESS,
	/* What was transformed there was wrong: it is never tried again. */
	HWIO_JUDGED_WRONG
};

struct hwio_known {
	enum hwio_judgement judgement;
	enum hwio_operation_kind kind;
	/* HWIO_PATTERNS if none was seen. */
	unsigned int pattern;
	/* Of all runs. Times are in microseconds: of the operations whose time is known, as transformed and as they were
	 * before, by the model; and what all of them have gained. */
	uint64_t runs, operations, transformed, bytes, file_us, messages_us, gained_us;
	char name[HWIO_CONTEXT_NAME_BYTES];
};

/* Reads a file of this version, or of the first. Lines of another form are skipped, and files of another version. */
void hwio_profile_parse(FILE *file);
void hwio_profile_load(const char *path);
/* Returns what is known of this place; NULL: nothing. */
const struct hwio_known *hwio_profile_find(enum hwio_operation_kind kind, const char *name);
/* Adds what this run has found to what the file has by now, and replaces it; what is no file is left alone. `next` returns one place after the other,
 * and false after the last. */
void hwio_profile_save(const char *path, bool (*next)(size_t index, struct hwio_known *known));
/* Reads a line without its end. False: it has another form. */
bool hwio_profile_line(const char *line, struct hwio_known *known);

#endif
