/* Classifies files for execve: their format, and whether the program announces its changes.
 *
 * Programs that glibc's loader starts load the audit library. Others do not: static programs, those of another C
 * library or architecture, and those that gain rights. Programs compiled by Go call the kernel without a C library,
 * so the audit library does not see their calls. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>

#include "shim.h"
#include "sys.h"

/* Bytes that are read at once: in most programs, all before the code. */
#define FIRST_BYTES 1024
#define HEADERS_MAX 64
#define NOTES_BYTES 512
/* Interpreters that are scripts, as the kernel follows them. */
#define SCRIPTS_MAX 5

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* Mapped, because the caller's stack may be small. */
struct program {
	long fd;
	size_t bytes; /* of `first` */
	char first[FIRST_BYTES];
	char loader[256];
	char notes[NOTES_BYTES];
	char line[HWA_LINE_BYTES];
	struct stat st;
	Elf64_Ehdr header;
	Elf64_Phdr segment;
};

/* Copies a part of the file; false if it is shorter. */
static bool part(const struct program *program, uint64_t offset, void *out, size_t bytes)
{
	if (offset <= program->bytes && bytes <= program->bytes - offset) {
		memcpy(out, program->first + offset, bytes);
		return true;
	}
	return hwa_sys(__NR_pread64, program->fd, out, bytes, offset) == (long)bytes;
}

static const char *last_name(const char *path)
{
	for (const char *at; (at = strchr(path, '/'));)
		path = at + 1;
	return path;
}

/* True if the interpreter is glibc's loader, which obeys LD_AUDIT. */
static bool is_glibc_loader(const char *path)
{
	const char *name = last_name(path);
	return strlen(name) > 8 && memcmp(name, "ld-linux", 8) == 0;
}

static bool asks_for_glibc(struct program *program)
{
	size_t bytes = program->segment.p_filesz;
	return bytes > 0 && bytes <= sizeof program->loader &&
		part(program, program->segment.p_offset, program->loader, bytes) && program->loader[bytes - 1] == 0 &&
		is_glibc_loader(program->loader);
}

/* True if one of the notes is the Go linker's. */
static bool is_go(struct program *program)
{
	const char *notes = program->notes;
	size_t bytes = program->segment.p_filesz < NOTES_BYTES ? program->segment.p_filesz : NOTES_BYTES, at = 0;
	if (!part(program, program->segment.p_offset, program->notes, bytes))
		return false;
	while (bytes - at >= sizeof(Elf64_Nhdr) + 4) {
		Elf64_Nhdr note;
		memcpy(&note, notes + at, sizeof note);
		at += sizeof note;
		if (note.n_namesz == 4 && memcmp(notes + at, "Go", 3) == 0)
			return true;
		uint64_t rest = (((uint64_t)note.n_namesz + 3) & ~UINT64_C(3)) +
			(((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));
		if (rest > bytes - at)
			break;
		at += rest;
	}
	return false;
}

/* True if the file starts with a header of this machine. */
static bool is_own(struct program *program)
{
	const Elf64_Ehdr *header = &program->header;
	return part(program, 0, &program->header, sizeof *header) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
		header->e_machine == MACHINE;
}

/* Returns true if such a file names glibc's loader as its interpreter, and needs its library. */
static bool runs_audited(struct program *program)
{
	const Elf64_Ehdr *header = &program->header;
	const Elf64_Phdr *segment = &program->segment;
	bool glibc = false;
	if (header->e_phentsize != sizeof *segment || header->e_phnum > HEADERS_MAX)
		return false;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		if (!part(program, header->e_phoff + i * sizeof *segment, &program->segment, sizeof *segment) ||
			(segment->p_type == PT_NOTE && is_go(program)))
			return false;
		if (segment->p_type == PT_INTERP)
			glibc = asks_for_glibc(program);
	}
	return glibc;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool hwa_parse_line(char line[HWA_LINE_BYTES], char **interpreter, char **argument)
{
	char *end = line + 2, *cut = line + HWA_LINE_BYTES - 1;
	while (end < cut && *end != '\n' && *end != 0)
		end++;
	if (end == cut)
		return false;
	while (end > line + 2 && is_blank(end[-1]))
		end--;
	*end = 0;
	char *at = line + 2;
	while (is_blank(*at))
		at++;
	*interpreter = at;
	while (*at && !is_blank(*at))
		at++;
	*argument = NULL;
	if (*at) {
		*at++ = 0;
		while (is_blank(*at))
			at++;
		*argument = *at ? at : NULL;
	}
	/* A relative interpreter depends on the directory in which the program will run. */
	return **interpreter == '/';
}

static enum hwa_format format_of(struct program *program, long fd)
{
	long bytes = hwa_sys(__NR_pread64, fd, program->first, sizeof program->first, 0);
	memset(program->line, 0, sizeof program->line);
	if (bytes < 0)
		return HWA_IS_FOREIGN;
	program->fd = fd;
	program->bytes = (size_t)bytes;
	if (bytes > 2 && program->first[0] == '#' && program->first[1] == '!') {
		memcpy(program->line, program->first,
			program->bytes < HWA_LINE_BYTES - 1 ? program->bytes : HWA_LINE_BYTES - 1);
		return HWA_IS_SCRIPT;
	}
	if (bytes < SELFMAG || memcmp(program->first, ELFMAG, SELFMAG) != 0)
		return HWA_IS_TEXT;
	if (!is_own(program))
		return HWA_IS_OTHERS;
	return runs_audited(program) ? HWA_IS_PROGRAM : HWA_IS_FOREIGN;
}

enum hwa_format hwa_format(long fd, char *line)
{
	struct program *program = hwa_map(sizeof *program);
	if (!program)
		return HWA_IS_FOREIGN;
	enum hwa_format format = format_of(program, fd);
	if (line)
		memcpy(line, program->line, HWA_LINE_BYTES);
	hwa_sys(__NR_munmap, program, sizeof *program);
	return format;
}

bool hwa_only_by_capability(long fd)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	struct stat st;
	long user = hwa_sys(__NR_geteuid);
	if (!user || hwa_sys(__NR_fstat, fd, &st) < 0 || (long)st.st_uid == user)
		return false;
	uint32_t capabilities = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
	return hwa_sys(__NR_capget, &header, data) == 0 && data[0].effective & capabilities;
}

/* ---- programs that announce their changes ---- */

/* True if the loader may drop the audit library, because the program gains rights. */
static bool gains_rights(long fd, const struct stat *st)
{
	struct vfs_ns_cap_data capabilities;
	if (st->st_mode & S_ISUID && hwa_sys(__NR_geteuid) != (long)st->st_uid)
		return true;
	if ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && hwa_sys(__NR_getegid) != (long)st->st_gid)
		return true;
	return hwa_sys(__NR_fgetxattr, fd, "security.capability", &capabilities, sizeof capabilities) > 0;
}

/* Classifies the open file as a program that announces its changes or not. For HWA_IS_SCRIPT the interpreter
 * decides. A file that can't be executed changes nothing. */
static enum hwa_format classify_program(struct program *program, long fd)
{
	const struct stat *st = &program->st;
	if (hwa_sys(__NR_fstat, fd, &program->st) < 0)
		return HWA_IS_FOREIGN;
	if (!S_ISREG(st->st_mode) || !(st->st_mode & 0111))
		return HWA_IS_TEXT;
	enum hwa_format format = format_of(program, fd);
	return format == HWA_IS_PROGRAM && gains_rights(fd, st) ? HWA_IS_FOREIGN : format;
}

bool hwa_is_named(const char *path, const char *const *names)
{
	const char *name = last_name(path);
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names;
}

bool hwa_reads_programs(const char *path)
{
	static const char *const names[] = {"valgrind", "valgrind.bin", NULL};
	return hwa_is_named(path, names);
}

static enum hwa_manner manner_of(struct program *program, int dirfd, const char *path)
{
	bool reads = hwa_reads_programs(path);
	char *interpreter = NULL, *argument;
	for (int depth = 0; depth <= SCRIPTS_MAX; depth++) {
		/* The caller's descriptor may not be open for reading. */
		bool itself = !*path;
		long fd = itself ? dirfd
				 : hwa_sys(__NR_openat, dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? HWA_IS_NONE : HWA_SILENT;
		enum hwa_format format = classify_program(program, fd);
		if (!itself)
			hwa_sys(__NR_close, fd);
		if (reads && format != HWA_IS_TEXT)
			return HWA_COMPLAINS;
		if (format != HWA_IS_SCRIPT)
			return format == HWA_IS_OTHERS     ? HWA_COMPLAINS
				: format == HWA_IS_FOREIGN ? HWA_SILENT
							   : HWA_ANNOUNCES;
		/* A relative interpreter is relative to the working directory. */
		hwa_parse_line(program->line, &interpreter, &argument);
		if (!interpreter || !*interpreter)
			return HWA_ANNOUNCES;
		path = interpreter;
		dirfd = AT_FDCWD;
	}
	return HWA_ANNOUNCES;
}

enum hwa_manner hwa_manner_of(int dirfd, const char *path)
{
	struct program *program = hwa_map(sizeof *program);
	if (!program)
		return HWA_SILENT;
	enum hwa_manner manner = manner_of(program, dirfd, path);
	hwa_sys(__NR_munmap, program, sizeof *program);
	return manner;
}
