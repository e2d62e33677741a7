/* One of several processes that work on the same files; see main.c. */
#ifndef HEADWATER_TESTS_SEVERAL_WORKER_H
#define HEADWATER_TESTS_SEVERAL_WORKER_H

#include <stddef.h>

/* What it has open and mapped. */
enum { FILES = 6, MAPS = 4, DIRS = 2, WORDS_MAX = 8, LINE_MAX_BYTES = 8192 };

/* Carries out an operation, which is words, and puts what it gave into `result`. */
void execute(char **word, char *result);

/* The operations that need more than a call or two (calls.c), in the same way. They give whether the first word
 * names one of theirs. */
int execute_more(char **word, char *result);

/* The descriptor in a slot, -1 if there is none. */
int file_at(const char *slot);

/* Closes what the slot has and puts `fd` there. */
void set_file(const char *slot, int fd);

/* "ok", or the name of errno. */
const char *outcome(long status);

/* A sum of bytes. */
unsigned sum(const void *bytes, size_t size);

/* How many bytes a word stands for, and a pattern of so many that differs by `seed`. */
size_t pattern(const char *size, const char *seed, const char **bytes);

/* As snprintf, behind what `result` has already. */
void report(char *result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Numbers of open flags by name, such as "rw+creat+append". */
int flags_of(const char *names);

#endif
