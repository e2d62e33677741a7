/* Calls that change where paths lead for this process.
 *
 * A process that changes its root directory or its namespaces may find other files under the table's paths. From then
 * on nothing is served to it or to processes that it forks; programs that it executes decide anew. The same holds for a
 * process that confines itself, since it allows only system calls that it knows. A mount hides what is below it in the
 * whole namespace, so those paths become passthrough paths for all processes.
 *
 * Programs make these calls by the C library's functions and by syscall() with a number. By a number they also change
 * files (number.c), and ask for attributes. */
#include "wrap.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "path.h"
#include "sys.h"

/* Namespaces in which other files have the same names, or the same files other owners. */
#define VIEW_FLAGS ((uint64_t)(CLONE_NEWNS | CLONE_NEWUSER))
/* Flags of mount() that change only how a mount point behaves. */
#define SAME_FILES (MS_REMOUNT | MS_PRIVATE | MS_SHARED | MS_SLAVE | MS_UNBINDABLE)

/* From now on paths may lead to other files, which may be changed by the names of the session's. */
static void leave(void)
{
	hwa_announce_unaudited();
	hwa_leave();
}

/* ---- mounts ---- */

/* Announces a mount or an unmount at a path. */
static __attribute__((noinline)) void note_mount(int dirfd, const char *path)
{
	if (!hwa_in_use() || (path && !hwa_is_address(path)))
		return;
	HWA_PATH_APART(place);
	long fd = !path || !*path ? dirfd : hwa_sys(__NR_openat, dirfd, path, O_PATH | O_CLOEXEC);
	if (fd < 0 && fd != AT_FDCWD)
		return;
	bool known = fd != AT_FDCWD && hwa_descriptor_path((int)fd, &place) > 0;
	if (path && *path && fd >= 0)
		hwa_sys(__NR_close, fd);
	if (!known)
		return leave();
	if (hwa_in_scope(place.at, place.bytes))
		hwa_announce_change(AT_FDCWD, place.at, HWA_CHANGES_TREE);
	const char *below;
	for (size_t number = 0; (below = hwa_scope_below(place.at, place.bytes, &number));)
		hwa_announce_change(AT_FDCWD, *below ? below : "/", HWA_CHANGES_TREE);
}

static void note_mounting(const char *source, const char *path, unsigned long flags)
{
	if (flags & MS_MOVE)
		note_mount(AT_FDCWD, source);
	if (!(flags & SAME_FILES))
		note_mount(AT_FDCWD, path);
}

NOTED(int, mount, (const char *source, const char *path, const char *type, unsigned long flags, const void *data),
	(source, path, type, flags, data), note_mounting(source, path, flags))
NOTED(int, umount, (const char *path), (path), note_mount(AT_FDCWD, path))
NOTED(int, umount2, (const char *path, int flags), (path, flags), note_mount(AT_FDCWD, path))
/* A mount that is moved away disappears, too. */
NOTED(int, move_mount, (int from, const char *from_path, int to, const char *to_path, unsigned flags),
	(from, from_path, to, to_path, flags), (note_mount(from, from_path), note_mount(to, to_path)))

/* ---- this process ---- */

static void leave_if(bool leaves)
{
	if (leaves)
		leave();
}

NOTED(int, chroot, (const char *path), (path), leave())
NOTED(int, pivot_root, (const char *root, const char *old), (root, old), leave())
NOTED(int, setns, (int fd, int type), (fd, type), leave_if(!type || (uint64_t)type & VIEW_FLAGS))
NOTED(int, unshare, (int flags), (flags), leave_if((uint64_t)flags &VIEW_FLAGS))
NOTED(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),
	(option, a, b, c, d), leave_if(option == PR_SET_SECCOMP))

/* The daemon accepts its own user only. A process that becomes another user can't announce its changes. */
static __attribute__((noinline)) void note_user(uid_t user)
{
	if (user != (uid_t)-1 && hwa_in_use() && !hwa_unaudited() && hwa_sys(__NR_geteuid) != (long)user)
		hwa_announce_unaudited();
}

NOTED(int, setuid, (uid_t user), (user), note_user(user))
NOTED(int, seteuid, (uid_t user), (user), note_user(user))
NOTED(int, setreuid, (uid_t real, uid_t user), (real, user), note_user(user))
NOTED(int, setresuid, (uid_t real, uid_t user, uid_t saved), (real, user, saved), note_user(user))

/* ---- a child ---- */

/* The child gets a copy of the memory, marked as not served; the parent continues as before. If they share their
 * memory, neither is served. Meanwhile other threads of the parent use the originals. */
typedef int clones(int (*run)(void *), void *stack, int flags, void *argument, void *parent_id, void *tls,
	void *child_id);

static int clone_elsewhere(clones *real, int (*run)(void *), void *stack, int flags, void *argument, void *parent_id,
	void *tls, void *child_id)
{
	hwa_announce_unaudited();
	bool away = hwa_set_suspended(true);
	int result = real(run, stack, flags, argument, parent_id, tls, child_id);
	hwa_set_suspended(away);
	return result;
}

#define WRAP_CLONE(name) \
	WRAP(int, name, \
		(int (*run)(void *), void *stack, int flags, void *argument, void *parent_id, void *tls, \
			void *child_id), \
		(run, stack, flags, argument, parent_id, tls, child_id)) \
	{ \
		if ((uint64_t)(unsigned)flags & VIEW_FLAGS) { \
			if (!(flags & CLONE_VM)) \
				return clone_elsewhere(REAL(name), run, stack, flags, argument, parent_id, tls, \
					child_id); \
			leave(); \
		} \
		return REAL(name)(run, stack, flags, argument, parent_id, tls, child_id); \
	}
WRAP_CLONE(clone)
WRAP_CLONE(__clone)

/* ---- system calls by number ---- */

/* On x86-64 the last argument of a system call is on the stack, and remains there in a tail call. */
#if defined(__x86_64__)
#define LAST_PARAMETER
#define LAST_ARGUMENT
#else
#define LAST_PARAMETER , long f
#define LAST_ARGUMENT , f
#endif
typedef long calls(long number, long a, long b, long c, long d, long e LAST_PARAMETER);

/* Forks into other namespaces. A child with a stack of its own could not return through this frame. */
static long fork_elsewhere(calls *real, long number, uint64_t flags, bool has_stack, long a, long b, long c, long d,
	long e LAST_PARAMETER)
{
	if (!(flags & VIEW_FLAGS))
		return UNCALLED;
	if (flags & CLONE_VM || has_stack) {
		leave();
		return UNCALLED;
	}
	hwa_announce_unaudited();
	bool away = hwa_set_suspended(true);
	long result = real(number, a, b, c, d, e LAST_ARGUMENT);
	if (result != 0)
		hwa_set_suspended(away);
	return result;
}

/* System calls that report about links and files. */
static long tell_by_number(struct hwa_namespace *ns, long number, long a, long b, long c, long d, long e LAST_PARAMETER)
{
	calls *real = (calls *)ns->real[HWA_FN_syscall];
	switch (number) {
#ifdef __NR_readlink
	case __NR_readlink:
		return hwa_shown_by_number(ns, AT_FDCWD, (const char *)a, (char *)b, (size_t)c);
#endif
	case __NR_readlinkat:
		return hwa_shown_by_number(ns, (int)a, (const char *)b, (char *)c, (size_t)d);
#ifdef __NR_stat
	case __NR_stat:
#endif
	case __NR_fstat:
	case __NR_newfstatat:
	case __NR_statx:
		return hwa_mapped_by_number(number, real(number, a, b, c, d, e LAST_ARGUMENT), a, b, c, d, e);
	}
	return UNCALLED;
}

static __attribute__((noinline)) long call_by_number(struct hwa_namespace *ns, long number, long a, long b, long c,
	long d, long e LAST_PARAMETER)
{
	calls *real = (calls *)ns->real[HWA_FN_syscall];
	const struct clone_args *arguments = (const struct clone_args *)a;
	switch (number) {
	case __NR_chroot:
	case __NR_pivot_root:
	case __NR_landlock_restrict_self:
		leave();
		break;
	case __NR_seccomp:
		leave_if(a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER);
		break;
	case __NR_prctl:
		leave_if(a == PR_SET_SECCOMP);
		break;
	case __NR_setns:
		leave_if(!b || (uint64_t)b & VIEW_FLAGS);
		break;
	case __NR_unshare:
		leave_if((uint64_t)a & VIEW_FLAGS);
		break;
	case __NR_setuid:
		note_user((uid_t)a);
		break;
	case __NR_setreuid:
	case __NR_setresuid:
		note_user((uid_t)b);
		break;
	case __NR_mount:
		note_mounting((const char *)a, (const char *)b, (unsigned long)d);
		break;
	case __NR_umount2:
		note_mount(AT_FDCWD, (const char *)a);
		break;
	case __NR_move_mount:
		note_mount((int)a, (const char *)b);
		note_mount((int)c, (const char *)d);
		break;
	case __NR_execve:
	case __NR_execveat:
		return hwa_exec_by_number(ns, number, a, b, c, d, e);
	case __NR_clone:
		return fork_elsewhere(real, number, (uint64_t)a, b != 0, a, b, c, d, e LAST_ARGUMENT);
	case __NR_clone3:
		if (hwa_is_address(arguments))
			return fork_elsewhere(real, number, arguments->flags, arguments->stack != 0, a, b, c, d,
				e LAST_ARGUMENT);
		break;
	}
	hwa_note_change_by_number(number, a, b, c, d, e);
	long result = hwa_changed_by_number(ns, number, a, b, c, d, e);
	return result != UNCALLED ? result : tell_by_number(ns, number, a, b, c, d, e LAST_ARGUMENT);
}

#define SYSCALL_ENTRY(slot) \
	long hwa_entry##slot##_syscall(long number, long a, long b, long c, long d, long e LAST_PARAMETER); \
	long hwa_entry##slot##_syscall(long number, long a, long b, long c, long d, long e LAST_PARAMETER) \
	{ \
		long result = call_by_number(&hwa_namespaces[slot], number, a, b, c, d, e LAST_ARGUMENT); \
		if (result != UNCALLED) \
			return result; \
		return ((calls *)hwa_namespaces[slot].real[HWA_FN_syscall])(number, a, b, c, d, e LAST_ARGUMENT); \
	}
SYSCALL_ENTRY(0)
SYSCALL_ENTRY(1)
SYSCALL_ENTRY(2)
SYSCALL_ENTRY(3)
