/* Reads a directory tree by every call of the C library, and prints all results. files DIR [mounted]: DIR is made by
 * the test. Times of access are left out: reading changes them. mounted: the file system's own fields are left out: its
 * device and type, when files were born, and whether they may be written. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "older.h"

static int mounted;

static const char *error(int failed)
{
	return failed ? strerrorname_np(errno) : "ok";
}

static void print_stat(const char *call, const char *path, int status, const struct stat *s)
{
	printf("%s %s: %s", call, path, error(status));
	if (!status)
		printf(" dev %lx ino %lu mode %o nlink %lu uid %u gid %u rdev %lx size %ld blksize %ld blocks %ld "
		       "mtime %ld.%ld ctime %ld.%ld",
			mounted ? 0 : (long)s->st_dev, (long)s->st_ino, s->st_mode, (long)s->st_nlink, s->st_uid,
			s->st_gid, (long)s->st_rdev, (long)s->st_size, (long)s->st_blksize, (long)s->st_blocks,
			s->st_mtim.tv_sec, s->st_mtim.tv_nsec, s->st_ctim.tv_sec, s->st_ctim.tv_nsec);
	printf("\n");
}

static void print_statx(const char *path, int flags, unsigned mask)
{
	struct statx s = {0};
	int status = statx(AT_FDCWD, path, flags, mask, &s);
	printf("statx %s %x %x: %s", path, flags, mask, error(status));
	if (mounted) {
		s.stx_mask &= mask & STATX_BASIC_STATS;
		s.stx_attributes = s.stx_attributes_mask = s.stx_dev_major = s.stx_dev_minor = s.stx_mnt_id = 0;
		s.stx_btime = (struct statx_timestamp){0};
	}
	if (!status)
		printf(" mask %x blksize %u attributes %llx/%llx nlink %u uid %u gid %u mode %o ino %llu size %llu "
		       "blocks %llu btime %lld.%u ctime %lld.%u mtime %lld.%u rdev %u:%u dev %u:%u mnt %llu",
			s.stx_mask, s.stx_blksize, s.stx_attributes, s.stx_attributes_mask, s.stx_nlink, s.stx_uid,
			s.stx_gid, s.stx_mode, s.stx_ino, s.stx_size, s.stx_blocks, s.stx_btime.tv_sec,
			s.stx_btime.tv_nsec, s.stx_ctime.tv_sec, s.stx_ctime.tv_nsec, s.stx_mtime.tv_sec,
			s.stx_mtime.tv_nsec, s.stx_rdev_major, s.stx_rdev_minor, s.stx_dev_major, s.stx_dev_minor,
			s.stx_mnt_id);
	printf("\n");
}

static void stats(const char *path)
{
	struct stat s;
	print_stat("stat", path, stat(path, &s), &s);
	print_stat("lstat", path, lstat(path, &s), &s);
	print_stat("fstatat", path, fstatat(AT_FDCWD, path, &s, 0), &s);
	print_stat("fstatat nofollow", path, fstatat(AT_FDCWD, path, &s, AT_SYMLINK_NOFOLLOW), &s);
	print_statx(path, 0, STATX_ALL | STATX_MNT_ID);
	print_statx(path, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BASIC_STATS);
}

static void accesses(const char *path)
{
	const int modes[] = {F_OK, R_OK, W_OK, X_OK, R_OK | X_OK};
	printf("access %s:", path);
	for (int i = 0; i < 5; i++)
		if (!mounted || modes[i] != W_OK)
			printf(" %s", error(access(path, modes[i])));
	printf(" faccessat %s %s euidaccess %s\n", error(faccessat(AT_FDCWD, path, R_OK, AT_EACCESS)),
		error(faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW)), error(euidaccess(path, X_OK)));
}

static void links(const char *path)
{
	char target[256], short_target[4];
	ssize_t bytes = readlink(path, target, sizeof target);
	printf("readlink %s: %s %.*s", path, error(bytes < 0), bytes < 0 ? 0 : (int)bytes, target);
	bytes = readlinkat(AT_FDCWD, path, short_target, sizeof short_target);
	printf(" short %zd %.*s\n", bytes, bytes < 0 ? 0 : (int)bytes, short_target);
	char *real = realpath(path, NULL);
	printf("realpath %s: %s\n", path, real ? real : error(1));
	free(real);
	real = canonicalize_file_name(path);
	printf("canonical %s: %s\n", path, real ? real : error(1));
	free(real);
}

static unsigned long checksum(const unsigned char *bytes, size_t count)
{
	unsigned long sum = 5381;
	for (size_t i = 0; i < count; i++)
		sum = sum * 33 + bytes[i];
	return sum;
}

static void content(const char *call, const char *path, int fd)
{
	struct stat s;
	if (fd < 0) {
		printf("%s %s: %s\n", call, path, error(1));
		return;
	}
	print_stat(call, path, fstat(fd, &s), &s);
	if (S_ISREG(s.st_mode)) {
		unsigned char *bytes = malloc(s.st_size + 1);
		ssize_t count = pread(fd, bytes, s.st_size + 1, 0);
		printf("  %zd bytes %lx", count, checksum(bytes, count > 0 ? count : 0));
		void *map = s.st_size ? mmap(NULL, s.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
		if (map != MAP_FAILED)
			printf(" mapped %lx", checksum(map, s.st_size));
		printf(" flags %x cloexec %d\n", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
		free(bytes);
	}
	close(fd);
}

static void opens(const char *path)
{
	static const int flags[] = {0, O_CLOEXEC, O_NOFOLLOW, O_DIRECTORY | O_CLOEXEC, O_NONBLOCK | O_NOCTTY, O_PATH};
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
		content("open", path, open(path, O_RDONLY | flags[i]));
	content("open64", path, open64(path, O_RDONLY));
	content("openat", path, openat(AT_FDCWD, path, O_RDONLY));
	content("openat64", path, openat64(AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
	content("syscall", path, syscall(SYS_openat, AT_FDCWD, path, O_RDONLY));
	static const char *modes[] = {"r", "re", "rb", "rm"};
	for (int i = 0; i < 4; i++) {
		FILE *file = fopen(path, modes[i]);
		char line[64] = "";
		printf("fopen %s %s: %s", path, modes[i], error(!file));
		printf(" %zu\n", file ? fread(line, 1, sizeof line, file) : 0);
		if (file)
			fclose(file);
	}
	FILE *file = freopen(path, "r", fopen64("/dev/null", "r"));
	printf("freopen %s: %s %d\n", path, error(!file), file ? fgetc(file) : 0);
	if (file)
		fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void print_names(const char *call, const char *path, DIR *stream)
{
	struct dirent *names[256], *entry;
	int count = 0;
	printf("%s %s: %s\n", call, path, error(!stream));
	if (!stream)
		return;
	while (count < 256 && (entry = readdir(stream))) {
		names[count] = malloc(sizeof *entry);
		memcpy(names[count++], entry, entry->d_reclen);
	}
	qsort(names, count, sizeof *names, (int (*)(const void *, const void *))by_name);
	for (int i = 0; i < count; i++) {
		printf("  %s ino %lu type %d\n", names[i]->d_name, (long)names[i]->d_ino, names[i]->d_type);
		free(names[i]);
	}
	rewinddir(stream);
	int again = 0;
	while (readdir64(stream))
		again++;
	printf("  again %d descriptor %s\n", again, dirfd(stream) >= 0 ? "yes" : "no");
	closedir(stream);
}

/* The *at calls below a directory's descriptor. */
static void below(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	DIR *stream = opendir(path);
	struct stat s;
	char target[256] = "";
	if (fd < 0 || !stream)
		return;
	int descriptors[] = {fd, dirfd(stream)};
	for (int i = 0; i < 2; i++) {
		content("openat below", "file", openat(descriptors[i], "file", O_RDONLY));
		print_stat("fstatat below", "link", fstatat(descriptors[i], "link", &s, AT_SYMLINK_NOFOLLOW), &s);
		print_stat("fstatat below", "sub/../file", fstatat(descriptors[i], "sub/../file", &s, 0), &s);
		print_stat("fstatat empty", path, fstatat(descriptors[i], "", &s, AT_EMPTY_PATH), &s);
		print_stat("fstat", path, fstat(descriptors[i], &s), &s);
		printf("faccessat below: %s %s\n", error(faccessat(descriptors[i], "file", X_OK, 0)),
			error(faccessat(descriptors[i], "none", F_OK, 0)));
		printf("readlinkat below: %zd %s\n", readlinkat(descriptors[i], "link", target, 255), target);
	}
	closedir(stream);
	struct dirent **names;
	int count = scandirat(fd, "sub", &names, NULL, alphasort);
	printf("scandirat below: %d %s\n", count, error(count < 0));
	int copy = dup(fd);
	print_names("fdopendir", path, fdopendir(copy));
	printf("fchdir: %s\n", error(fchdir(fd)));
	content("open relative", "file", open("file", O_RDONLY));
	content("open relative", "sub/inner", open("./sub//inner", O_RDONLY));
	printf("chdir: %s\n", error(chdir("/")));
	close(fd);
}

static int visit(const char *path, const struct stat *s, int type, struct FTW *walk)
{
	printf("nftw %s type %d level %d size %ld\n", path, type, walk->level, (long)s->st_size);
	return 0;
}

static int ftsent_by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void walks(const char *path)
{
	char *roots[] = {(char *)path, NULL};
	const int options[] = {FTS_PHYSICAL, FTS_LOGICAL, FTS_PHYSICAL | FTS_NOCHDIR, FTS_PHYSICAL | FTS_NOSTAT};
	for (int i = 0; i < 4; i++) {
		FTS *tree = fts_open(roots, options[i], ftsent_by_name);
		FTSENT *entry;
		while (tree && (entry = fts_read(tree)))
			printf("fts %s info %d level %d\n", entry->fts_path, entry->fts_info, entry->fts_level);
		if (tree)
			fts_close(tree);
	}
	struct dirent **names;
	int count = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < count; i++)
		printf("scandir %s type %d\n", names[i]->d_name, names[i]->d_type);
	glob_t found;
	char pattern[4096];
	snprintf(pattern, sizeof pattern, "%s/*/in*", path);
	int status = glob(pattern, 0, NULL, &found);
	printf("glob: %d %zu %s\n", status, found.gl_pathc, status ? "" : found.gl_pathv[0]);
}

/* The kernel refuses what can't be a pointer. */
static void addresses(void)
{
	static char *const refused[] = {(char *)8, (char *)-1};

	for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
		char *at = refused[i];
		struct stat st;

		printf("address %u: open %s\n", i, error(open(at, O_RDONLY) < 0));
		printf("address %u: stat %s\n", i, error(stat(at, &st) < 0));
		printf("address %u: access %s\n", i, error(access(at, R_OK) < 0));
		printf("address %u: rename %s\n", i, error(rename(at, at) < 0));
		printf("address %u: mkdir %s\n", i, error(mkdir(at, 0700) < 0));
	}
}

int main(int argc, char **argv)
{
	mounted = argc > 2;
	static const char *names[] = {"", "/file", "/sub", "/sub/", "/file/", "/file/x", "/none", "/none/x", "/link",
		"/link/", "/dirlink", "/dirlink/", "/dirlink/inner", "/dangling", "/loop", "/loop/x", "/../tree/file",
		"/sub/..", "/sub/../link", "/dirlink/../file", "/./sub//inner", "/tool", "/empty", "/secret", "/fifo",
		"/none/../file", "/file/../file", "/large", "/hard", "/sub/.", "/closed", "/closed/x"};
	char path[8192];
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s%s", argv[1], names[i]);
		stats(path);
		accesses(path);
		links(path);
		if (!strstr(path, "/fifo"))
			opens(path);
		if (i == 0 || strstr(path, "sub") || strstr(path, "dirlink") || strstr(path, "none"))
			print_names("opendir", path, opendir(path));
	}
	memset(path, 'a', sizeof path - 1);
	memcpy(path, argv[1], strlen(argv[1]));
	path[strlen(argv[1])] = '/';
	printf("too long: %s %s\n", error(open(path, O_RDONLY) < 0), error(access(path, F_OK)));
	path[strlen(argv[1]) + 300] = 0;
	printf("name too long: %s\n", error(open(path, O_RDONLY) < 0));
	printf("empty: %s %s\n", error(open("", O_RDONLY) < 0), error(access("", F_OK)));
	addresses();
	below(argv[1]);
	walks(argv[1]);
	nftw(argv[1], visit, 10, FTW_PHYS);
	struct statfs fs = {0};
	printf("statfs: %s %lx\n", error(statfs(argv[1], &fs)), mounted ? 0 : (long)fs.f_type);
	return 0;
}
