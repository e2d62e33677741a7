/* Changes by system calls that a program makes by number: announced as those by the C library's functions. */
#include "wrap.h"

#include "sys.h"

/* What the kernel headers of older systems lack. */
#ifndef __NR_openat2
#define __NR_openat2 437
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif

static bool is_opening(long number, long a, long b, long c, long d)
{
	switch (number) {
#ifdef __NR_open
	case __NR_open:
		hwa_note_opening(AT_FDCWD, (const char *)a, (int)b);
		return true;
	case __NR_creat:
		hwa_note_opening(AT_FDCWD, (const char *)a, O_CREAT | O_WRONLY | O_TRUNC);
		return true;
#endif
	case __NR_openat:
		hwa_note_opening((int)a, (const char *)b, (int)c);
		return true;
	case __NR_openat2:
		/* A struct open_how begins with its flags. */
		if (hwa_is_address((void *)c) && (size_t)d >= sizeof(uint64_t))
			hwa_note_opening((int)a, (const char *)b, (int)*(const uint64_t *)c);
		return true;
	case __NR_truncate:
		hwa_announce_content(AT_FDCWD, (const char *)a);
		return true;
	}
	return false;
}

#define CHANGE(dirfd, path, how) hwa_announce_change((int)(dirfd), (const char *)(path), how)
/* Attributes are those of the path's target, unless the call's flags exclude that. */
#define TARGET(flags) ((flags)&AT_SYMLINK_NOFOLLOW ? 0 : HWA_CHANGES_TARGET)

static bool is_naming(long number, long a, long b, long c, long d, long e)
{
	switch (number) {
	case __NR_mkdirat:
		CHANGE(a, b, HWA_CHANGES_NEW);
		return true;
	case __NR_mknodat:
		CHANGE(a, b, 0);
		return true;
	case __NR_symlinkat:
		CHANGE(b, c, 0);
		return true;
	case __NR_linkat:
		CHANGE(a, b, e & AT_SYMLINK_FOLLOW ? HWA_CHANGES_TARGET : 0);
		CHANGE(c, d, 0);
		return true;
	case __NR_unlinkat:
		CHANGE(a, b, c & AT_REMOVEDIR ? HWA_CHANGES_TREE : 0);
		return true;
#ifdef __NR_renameat
	case __NR_renameat:
#endif
	case __NR_renameat2:
		CHANGE(a, b, HWA_CHANGES_TREE);
		CHANGE(c, d, HWA_CHANGES_TREE);
		return true;
	}
	return false;
}

#ifdef __NR_mkdir
/* Those that only older processors have. */
static bool is_naming_here(long number, long a, long b)
{
	switch (number) {
	case __NR_mkdir:
		CHANGE(AT_FDCWD, a, HWA_CHANGES_NEW);
		return true;
	case __NR_mknod:
	case __NR_unlink:
		CHANGE(AT_FDCWD, a, 0);
		return true;
	case __NR_symlink:
		CHANGE(AT_FDCWD, b, 0);
		return true;
	case __NR_link:
		CHANGE(AT_FDCWD, a, 0);
		CHANGE(AT_FDCWD, b, 0);
		return true;
	case __NR_rmdir:
		CHANGE(AT_FDCWD, a, HWA_CHANGES_TREE);
		return true;
	case __NR_rename:
		CHANGE(AT_FDCWD, a, HWA_CHANGES_TREE);
		CHANGE(AT_FDCWD, b, HWA_CHANGES_TREE);
		return true;
	case __NR_chmod:
	case __NR_chown:
	case __NR_utime:
	case __NR_utimes:
		CHANGE(AT_FDCWD, a, HWA_CHANGES_TARGET);
		return true;
	case __NR_lchown:
		CHANGE(AT_FDCWD, a, 0);
		return true;
	case __NR_futimesat:
		CHANGE(a, b, HWA_CHANGES_TARGET);
		return true;
	}
	return false;
}
#else
static bool is_naming_here(long number, long a, long b)
{
	(void)number, (void)a, (void)b;
	return false;
}
#endif

static void note_attributes(long number, long a, long b, long d, long e)
{
	switch (number) {
	case __NR_fchmodat:
		CHANGE(a, b, HWA_CHANGES_TARGET);
		break;
	case __NR_fchmodat2:
	case __NR_utimensat:
		CHANGE(a, b, TARGET(d));
		break;
	case __NR_fchownat:
		CHANGE(a, b, TARGET(e));
		break;
	case __NR_setxattr:
	case __NR_removexattr:
		CHANGE(AT_FDCWD, a, HWA_CHANGES_TARGET);
		break;
	case __NR_lsetxattr:
	case __NR_lremovexattr:
		CHANGE(AT_FDCWD, a, 0);
		break;
	}
}

void hwa_note_change_by_number(long number, long a, long b, long c, long d, long e)
{
	if (!is_opening(number, a, b, c, d) && !is_naming(number, a, b, c, d, e) && !is_naming_here(number, a, b))
		note_attributes(number, a, b, d, e);
}
