/* Cleaning paths; shared by path.c and resolve.c. */
#ifndef HEADWATER_PATH_H
#define HEADWATER_PATH_H

#include "shim.h"

#define HW_TOO_LONG SIZE_MAX
/* No process has memory below: vm.mmap_min_addr. */
#define HW_ADDRESS_MIN 4096

/* Appends the components of `text`, without empty ones and ".", to the `length` bytes in `out`,
 * where "" stands for the root. The new length, or HW_TOO_LONG. */
size_t hw_append(char out[HW_PATH_MAX], size_t length, const char *text, size_t bytes);
/* Makes "/" of "" and terminates it. The new length. */
size_t hw_finish(char out[HW_PATH_MAX], size_t length);
/* The path of a directory that is open, or of the working directory (AT_FDCWD); its length or a negative error. */
long hw_directory_of(int dirfd, char out[HW_PATH_MAX]);
/* hw_absolute, and whether the path was clean and demands no directory: it holds no "..". */
int hw_absolute_plain(int dirfd, const char *path, char out[HW_PATH_MAX], size_t *bytes, bool *plain);
/* Where the first component ".." begins, its slash included; `bytes` if there is none. */
size_t hw_dotdot(const char *path, size_t bytes);

#endif
