/* What C libraries before glibc 2.34 lack, for programs of which the output is compared on one machine. */
#ifndef OLDER_H
#define OLDER_H

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 32)
#define strerrorname_np strerror
#define sigabbrev_np strsignal
#endif
#if !__GLIBC_PREREQ(2, 33)
#define mallinfo2 mallinfo
#endif
#if !__GLIBC_PREREQ(2, 34)
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define execveat older_execveat
#define close_range older_close_range
static inline int older_execveat(int directory, const char *path, char *const argv[], char *const envp[], int flags)
{
	return (int)syscall(SYS_execveat, directory, path, argv, envp, flags);
}
static inline int older_close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}
#endif

#endif
