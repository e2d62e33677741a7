/* What a path is, to somebody who would run it: found as execvp() finds it, judged as the kernel judges it. */
#include "internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif
#define LINE_BYTES 256

/* An ELF file in memory, of which nothing is trusted. */
struct image {
	const char *data;
	size_t bytes;
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segments;
};

static const void *at(const struct image *image, uint64_t offset, uint64_t bytes)
{
	return offset <= image->bytes && bytes <= image->bytes - offset ? image->data + offset : NULL;
}

/* What lies in the file for an address of the program. */
static const void *at_address(const struct image *image, uint64_t address, uint64_t bytes)
{
	for (unsigned i = 0; i < image->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz &&
		    bytes <= segment->p_filesz - (address - segment->p_vaddr))
			return at(image, segment->p_offset + (address - segment->p_vaddr), bytes);
	}
	return NULL;
}

static const Elf64_Phdr *segment_of(const struct image *image, uint32_t type)
{
	for (unsigned i = 0; i < image->header->e_phnum; i++)
		if (image->segments[i].p_type == type)
			return &image->segments[i];
	return NULL;
}

/* True if the program asks for the C library itself, by a name that its string table has. */
static bool needs_libc(const struct image *image)
{
	const Elf64_Phdr *dynamic = segment_of(image, PT_DYNAMIC);
	const Elf64_Dyn *entries = dynamic ? at(image, dynamic->p_offset, dynamic->p_filesz) : NULL;
	size_t count = entries ? dynamic->p_filesz / sizeof *entries : 0;
	uint64_t strings = 0;

	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
		if (entries[i].d_tag == DT_STRTAB)
			strings = entries[i].d_un.d_ptr;
	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
		const char *name = at_address(image, strings + entries[i].d_un.d_val, sizeof "libc.so.6");
		if (entries[i].d_tag == DT_NEEDED && name && !memcmp(name, "libc.so.6", sizeof "libc.so.6"))
			return true;
	}
	return false;
}

/* Why no zygote can be made of an ELF file of this machine. */
static const char *refusal(const struct image *image)
{
	const Elf64_Phdr *loader = segment_of(image, PT_INTERP);
	if (!loader)
		return "it is linked statically";
	const char *path = at(image, loader->p_offset, loader->p_filesz);
	if (!path || !loader->p_filesz || path[loader->p_filesz - 1])
		return "its loader's name is damaged";
	const char *name = strrchr(path, '/');
	if (!name || strncmp(name, "/ld-linux", 9))
		return "its loader is not glibc's";
	if (!needs_libc(image))
		return "it does not ask for the C library itself";
	return NULL;
}

/* 0, or what execve() says of a file that begins so. */
static int judge(struct image *image, const char **why)
{
	char loader[PATH_MAX];

	image->header = at(image, 0, sizeof *image->header);
	if (!image->header || memcmp(image->header->e_ident, ELFMAG, SELFMAG))
		return ENOEXEC;
	if (image->header->e_ident[EI_CLASS] != ELFCLASS64 || image->header->e_machine != MACHINE) {
		/* The kernel may run it by another loader, which exec will find. */
		*why = "it is for another kind of processor";
		return 0;
	}
	image->segments = at(image, image->header->e_phoff, (uint64_t)image->header->e_phnum * sizeof *image->segments);
	if (!image->segments || image->header->e_phentsize != sizeof *image->segments ||
	    image->header->e_phoff % _Alignof(Elf64_Phdr))
		return ENOEXEC;
	*why = refusal(image);
	const Elf64_Phdr *named = segment_of(image, PT_INTERP);
	const char *name = named && named->p_filesz < sizeof loader ? at(image, named->p_offset, named->p_filesz) : NULL;
	if (name) {
		memcpy(loader, name, named->p_filesz);
		loader[named->p_filesz] = 0;
		if (access(loader, X_OK))
			return errno;
	}
	return 0;
}

/* Opens what may be run. The descriptor, or -errno. */
static int open_program(const char *path, struct stat *file)
{
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS))
		return -errno;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, file) == 0 && !S_ISREG(file->st_mode)) {
		close(fd);
		return -EACCES;
	}
	return fd < 0 ? -errno : fd;
}

/* A line "#!interpreter argument". */
static int read_script(const char *line, size_t bytes, struct hw_program *program, char **interpreter)
{
	char text[LINE_BYTES];
	size_t length = bytes < sizeof text ? bytes : sizeof text - 1;
	memcpy(text, line, length);
	text[length] = 0;
	char *end = strchr(text, '\n');
	/* The kernel refuses a name that is cut off; that is left to it. */
	if (!end)
		return ENOEXEC;
	*end = 0;
	char *name = text + 2 + strspn(text + 2, " \t");
	char *after = name + strcspn(name, " \t");
	char *argument = after + strspn(after, " \t");
	for (size_t last = strlen(argument); last && strchr(" \t", argument[last - 1]); last--)
		argument[last - 1] = 0;
	*after = 0;
	if (!*name)
		return ENOEXEC;
	*interpreter = strdup(name);
	program->argument = *argument ? strdup(argument) : NULL;
	return *interpreter && (!*argument || program->argument) ? 0 : ENOMEM;
}

static int examine(struct hw_program *program, bool script_allowed)
{
	struct stat file;
	struct image image = {0};
	char *interpreter = NULL;
	int fd = open_program(program->path, &file);

	if (fd == -EACCES && access(program->path, X_OK) == 0) {
		program->refusal = "it can't be read";
		return 0;
	}
	if (fd < 0)
		return -fd;
	image.bytes = (size_t)file.st_size;
	image.data = image.bytes ? mmap(NULL, image.bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	bool privileged = file.st_mode & (S_ISUID | S_ISGID) || fgetxattr(fd, "security.capability", NULL, 0) > 0;
	close(fd);
	if (!image.data || image.data == MAP_FAILED)
		return image.data ? errno : ENOEXEC;
	int error;
	if (image.bytes > 2 && !memcmp(image.data, "#!", 2))
		error = script_allowed ? read_script(image.data, image.bytes, program, &interpreter) : ENOEXEC;
	else
		error = judge(&image, &program->refusal);
	munmap((void *)image.data, image.bytes);
	if (!error && privileged)
		program->refusal = "it runs with other privileges than its caller";
	if (error || !interpreter)
		return error;
	program->script = program->path;
	program->path = interpreter;
	return examine(program, false);
}

/* As execvp(): the first that may be run, EACCES if there was one that may not. */
static int search(const char *name, char **found)
{
	const char *list = getenv("PATH");
	char path[PATH_MAX];
	int error = ENOENT;

	for (list = list ? list : "/bin:/usr/bin"; list; list = strchr(list, ':') ? strchr(list, ':') + 1 : NULL) {
		int length = (int)strcspn(list, ":");
		int wrote = snprintf(path, sizeof path, "%.*s%s%s", length, list, length ? "/" : "", name);
		struct stat file;
		if (wrote < 0 || (size_t)wrote >= sizeof path)
			continue;
		if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0) {
			*found = strdup(path);
			return *found ? 0 : ENOMEM;
		}
		if (errno == EACCES)
			error = EACCES;
	}
	return error;
}

int hw_program(const char *name, struct hw_program *program)
{
	int error = 0;

	memset(program, 0, sizeof *program);
	if (!name || !*name)
		return ENOENT;
	if (strchr(name, '/'))
		error = (program->path = strdup(name)) ? 0 : ENOMEM;
	else
		error = search(name, &program->path);
	if (!error)
		error = examine(program, true);
	if (error)
		hw_program_free(program);
	return error;
}

void hw_program_free(struct hw_program *program)
{
	free(program->path);
	free(program->script);
	free(program->argument);
	memset(program, 0, sizeof *program);
}
