/* One of several processes that work on the same files; see main.c. */
#ifndef HEADWATER_TESTS_SEVERAL_WORKER_H
#define HEADWATER_TESTS_SEVERAL_WORKER_H

#include <stddef.h>

/* Its open files and maps. */
enum { FILES = 6, MAPS = 4, DIRS = 2, WORDS_MAX = 8, LINE_MAX_BYTES = 8192 };

/* Executes an operation, which is a list of words, and writes its result to `result`. */
void execute(char **word, char *result);

/* The operations that need more than a call or two (calls.c). They return whether the first word names one of
 * theirs. */
int execute_more(char **word, char *result);

/* The descriptor in a slot, -1 if there is none. */
int file_at(const char *slot);

/* Closes the slot's file and replaces it by `fd`. */
void set_file(const char *slot, int fd);

/* "ok", or the name of errno. */
const char *outcome(long status);

/* A sum of bytes. */
unsigned sum(const void *bytes, size_t size);

/* How many bytes a word means, and a pattern of so many that differs by `seed`. */
size_t pattern(const char *size, const char *seed, const char **bytes);

/* As snprintf, behind what `result` has already. */
void report(char *result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Numbers of open flags by name, such as "rw+creat+append". */
int flags_of(const char *names);

#endif
