/* Cleaning paths; shared by path.c and resolve.c. */
#ifndef HEADWATER_PATH_H
#define HEADWATER_PATH_H

#include "shim.h"

#define HWA_TOO_LONG SIZE_MAX

/* Appends the components of `text`, without empty ones and ".", to the first `length` bytes of `out`, where "" means
 * the root. Returns the new length, or HWA_TOO_LONG. */
size_t hwa_append(struct hwa_path *out, size_t length, const char *text, size_t bytes);
/* Replaces "" by "/", adds the NUL, and sets the path's length. */
void hwa_finish(struct hwa_path *out, size_t length);
/* Copies the text unchanged; false if it is too long for a path. */
bool hwa_copy(struct hwa_path *out, const char *text, size_t bytes);
/* Reads the path of an open directory, or of the working directory (AT_FDCWD). Returns 0 or a negative error number. */
int hwa_directory_of(int dirfd, struct hwa_path *out);
/* Reads a link's target. Returns its length or a negative error number. */
long hwa_read_link(int dirfd, const char *link, struct hwa_path *out);
/* The same of the link of /proc to a descriptor's file. */
long hwa_descriptor_path(int fd, struct hwa_path *out);
/* As hwa_absolute; also reports whether the path was clean and doesn't demand a directory: then it has no "..". */
int hwa_absolute_plain(int dirfd, const char *path, struct hwa_path *out, bool *plain);
/* Returns where the first component ".." begins, its slash included; `bytes` if there is none. */
size_t hwa_dotdot(const char *path, size_t bytes);

#endif
