/* What C libraries before glibc 2.34 lack, for programs of which the output is compared on one machine. */
#ifndef OLDER_H
#define OLDER_H

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 32)
#define strerrorname_np strerror
#endif
#if !__GLIBC_PREREQ(2, 33)
#define mallinfo2 mallinfo
#endif
#if !__GLIBC_PREREQ(2, 34)
#define execveat(directory, path, argv, envp, flags) ((int)syscall(SYS_execveat, directory, path, argv, envp, flags))
#define close_range(first, last, flags) ((int)syscall(SYS_close_range, first, last, flags))
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#endif

#endif
