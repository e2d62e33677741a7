/* Cleaning paths; shared by path.c and resolve.c. */
#ifndef HEADWATER_PATH_H
#define HEADWATER_PATH_H

#include "shim.h"

#define HWA_TOO_LONG SIZE_MAX
/* No process has memory below: vm.mmap_min_addr. */
#define HWA_ADDRESS_MIN 4096

/* Appends the components of `text`, without empty ones and ".", to the first `length` bytes of `out`,
 * where "" stands for the root. The new length, or HWA_TOO_LONG. */
size_t hwa_append(struct hwa_path *out, size_t length, const char *text, size_t bytes);
/* Makes "/" of "", terminates it, and makes that the path's length. */
void hwa_finish(struct hwa_path *out, size_t length);
/* The text as it is; false if it is too long for a path. */
bool hwa_copy(struct hwa_path *out, const char *text, size_t bytes);
/* The path of a directory that is open, or of the working directory (AT_FDCWD); 0 or a negative error. */
int hwa_directory_of(int dirfd, struct hwa_path *out);
/* A link's target; its length, or a negative error. */
long hwa_read_link(int dirfd, const char *link, struct hwa_path *out);
/* hwa_absolute, and whether the path was clean and demands no directory: it holds no "..". */
int hwa_absolute_plain(int dirfd, const char *path, struct hwa_path *out, bool *plain);
/* Where the first component ".." begins, its slash included; `bytes` if there is none. */
size_t hwa_dotdot(const char *path, size_t bytes);

#endif
