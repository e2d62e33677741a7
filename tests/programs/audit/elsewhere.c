/* elsewhere METHOD PKG ALT IMAGE: checks PKG, switches to where PKG has the files of ALT by one of many methods, and
 * checks again: itself, by a child, and by a program that it executes. IMAGE contains PKG's path with ALT's files,
 * too. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *method, *pkg, *alt, *image;

static void require(long result, const char *what)
{
	if (result < 0) {
		printf("%s: %s: %s\n", method, what, strerror(errno));
		exit(1);
	}
}

static void check(const char *when)
{
	char path[4096], text[64] = "";
	struct stat st;
	int names = 0;
	snprintf(path, sizeof path, "%s/file", pkg);
	int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
		strcpy(text, "unreadable");
	close(fd);
	memset(&st, 0, sizeof st);
	int found = stat(path, &st);
	printf("%s, %s: %s, %d %ld bytes of %u", method, when, text, found, (long)st.st_size, st.st_uid);
	snprintf(path, sizeof path, "%s/only-there", pkg);
	printf(", only there: %d", access(path, F_OK));
	DIR *dir = opendir(pkg);
	while (dir && readdir(dir))
		names++;
	printf(", %d names\n", names);
	if (dir)
		closedir(dir);
	fflush(stdout);
}

static void await(long child)
{
	int status;
	require(child, "fork");
	require(waitpid((pid_t)child, &status, 0), "wait");
	if (status)
		printf("%s: a child ended with %x\n", method, status);
}

static void check_all(const char *self)
{
	check("there");
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		check("a child there");
		exit(0);
	}
	await(child);
	child = fork();
	if (!child) {
		execl(self, self, "executed", pkg, alt, image, NULL);
		exit(errno == ENOENT && strstr(method, "root") ? 0 : 1);
	}
	await(child);
}

static void bind_alt(void)
{
	require(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	require(mount(alt, pkg, NULL, MS_BIND, NULL), "bind");
}

static int in_child(void *self)
{
	bind_alt();
	check_all(self);
	return 0;
}

static void clone_there(char *self, bool raw, bool third)
{
	static char stack[1 << 20];
	struct clone_args arguments = {.flags = CLONE_NEWNS, .exit_signal = SIGCHLD};
	long child;
	if (!raw)
		child = clone(in_child, stack + sizeof stack, CLONE_NEWNS | SIGCHLD, self);
	else if (third)
		child = syscall(SYS_clone3, &arguments, sizeof arguments);
	else
		child = syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
	if (raw && child == 0) {
		in_child(self);
		exit(0);
	}
	await(child);
	check("its parent");
}

/* Joins the namespace of a child that has switched. */
static void join(bool raw)
{
	int ready[2], done[2];
	char name[64], byte;
	require(pipe(ready), "pipe");
	require(pipe(done), "pipe");
	pid_t child = fork();
	if (!child) {
		require(unshare(CLONE_NEWNS), "unshare");
		bind_alt();
		require(write(ready[1], "x", 1), "write");
		close(done[1]);
		exit((int)read(done[0], &byte, 1));
	}
	require(read(ready[0], &byte, 1), "read");
	snprintf(name, sizeof name, "/proc/%d/ns/mnt", child);
	int fd = open(name, O_RDONLY);
	require(fd, "open");
	require(raw ? syscall(SYS_setns, fd, 0) : setns(fd, CLONE_NEWNS), "setns");
	close(done[1]);
	await(child);
}

static void enter_image(bool raw)
{
	require(raw ? syscall(SYS_chroot, image) : chroot(image), "chroot");
}

static void pivot(void)
{
	require(unshare(CLONE_NEWNS), "unshare");
	require(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	require(mount(image, image, NULL, MS_BIND, NULL), "bind");
	require(chdir(image), "chdir");
	require(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	require(umount2(".", MNT_DETACH), "umount");
}

/* A root directory that is the same but for what is mounted below it. */
static void enter_same(void)
{
	char target[4096];
	require(unshare(CLONE_NEWNS), "unshare");
	require(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	require(mount("/", image, NULL, MS_BIND | MS_REC, NULL), "bind");
	snprintf(target, sizeof target, "%s%s", image, pkg);
	require(mount(alt, target, NULL, MS_BIND, NULL), "bind");
	pid_t child = fork();
	if (!child) {
		require(chroot(image), "chroot");
		execl("/proc/self/exe", "elsewhere", "executed", pkg, alt, image, NULL);
		exit(1);
	}
	await(child);
	enter_image(false);
}

/* In the session's own namespace: all processes see the mount, and its end. */
static void mount_here(const char *self, int kind)
{
	if (kind == 0)
		require(mount(alt, pkg, NULL, MS_BIND, NULL), "bind");
	if (kind == 1)
		require(syscall(SYS_mount, alt, pkg, NULL, MS_BIND, NULL), "bind");
	if (kind == 2) {
		int tree = (int)syscall(SYS_open_tree, AT_FDCWD, alt, 1);
		require(tree, "open_tree");
		require(syscall(SYS_move_mount, tree, "", AT_FDCWD, pkg, 4), "move_mount");
		close(tree);
	}
	check_all(self);
	require(kind == 1 ? syscall(SYS_umount2, pkg, 0) : umount2(pkg, 0), "umount");
	check("afterwards");
}

static bool is_method(const char *name)
{
	return strcmp(method, name) == 0;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	method = argv[1], pkg = argv[2], alt = argv[3], image = argv[4];
	if (is_method("executed")) {
		check("there");
		return 0;
	}
	check("here");
	if (strstr(method, "clone")) {
		clone_there(argv[0], strstr(method, "raw"), strstr(method, "clone3"));
		return 0;
	}
	if (strstr(method, "mount")) {
		mount_here(argv[0], is_method("raw-mount") ? 1 : is_method("move_mount") ? 2 : 0);
		return 0;
	}
	if (is_method("unshare") || is_method("raw-unshare")) {
		require(is_method("unshare") ? unshare(CLONE_NEWNS) : syscall(SYS_unshare, CLONE_NEWNS), "unshare");
		bind_alt();
	} else if (strstr(method, "setns")) {
		join(strstr(method, "raw"));
	} else if (strstr(method, "chroot")) {
		enter_image(strstr(method, "raw"));
	} else if (is_method("pivot_root")) {
		pivot();
	} else if (is_method("same-root")) {
		enter_same();
	} else if (is_method("user")) {
		require(unshare(CLONE_NEWUSER), "unshare");
	} else {
		return 2;
	}
	check_all(argv[0]);
	return 0;
}
