/* Examines an ELF file that is to become a zygote. Its content is not trusted, and it is read rather than mapped,
 * because it may be truncated meanwhile. */
#include "../core/internal.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif
/* As many as the kernel takes. */
#define SEGMENTS_BYTES_MAX 65536
#define DYNAMIC_BYTES_MAX 65536
#define LIBC "libc.so.6"

struct image {
	int fd;
	Elf64_Ehdr header;
	Elf64_Phdr *segments; /* to free() */
};

static bool read_at(const struct image *image, uint64_t offset, void *to, size_t bytes)
{
	ssize_t got;

	if (offset > INT64_MAX - bytes)
		return false;
	do
		got = pread(image->fd, to, bytes, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got >= 0 && (size_t)got == bytes;
}

/* Reads what lies in the file for an address of the program. */
static bool read_address(const struct image *image, uint64_t address, void *to, size_t bytes)
{
	for (unsigned i = 0; i < image->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		uint64_t inside = address - segment->p_vaddr;
		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && inside < segment->p_filesz &&
			bytes <= segment->p_filesz - inside && segment->p_offset <= UINT64_MAX - inside)
			return read_at(image, segment->p_offset + inside, to, bytes);
	}
	return false;
}

static const Elf64_Phdr *segment_of(const struct image *image, uint32_t type)
{
	for (unsigned i = 0; i < image->header.e_phnum; i++)
		if (image->segments[i].p_type == type)
			return &image->segments[i];
	return NULL;
}

static bool names_libc(const struct image *image, const Elf64_Dyn *entries, size_t count)
{
	char name[sizeof LIBC];
	uint64_t strings = 0;

	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
		if (entries[i].d_tag == DT_STRTAB)
			strings = entries[i].d_un.d_ptr;
	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
		if (entries[i].d_tag == DT_NEEDED &&
			read_address(image, strings + entries[i].d_un.d_val, name, sizeof name) &&
			!memcmp(name, LIBC, sizeof name))
			return true;
	return false;
}

/* True if the program itself needs the C library, by a name in its string table. */
static bool needs_libc(const struct image *image)
{
	const Elf64_Phdr *dynamic = segment_of(image, PT_DYNAMIC);
	size_t bytes = dynamic && dynamic->p_filesz <= DYNAMIC_BYTES_MAX ? dynamic->p_filesz : 0;
	Elf64_Dyn *entries = bytes ? malloc(bytes) : NULL;
	bool found = entries && read_at(image, dynamic->p_offset, entries, bytes) &&
		names_libc(image, entries, bytes / sizeof *entries);
	free(entries);
	return found;
}

/* The loader's name. Returns 0 or the error of execve(). */
static int find_loader(const struct image *image, char loader[PATH_MAX])
{
	const Elf64_Phdr *named = segment_of(image, PT_INTERP);

	loader[0] = 0;
	if (!named)
		return 0;
	if (named->p_filesz < 2 || named->p_filesz > PATH_MAX)
		return ENOEXEC;
	if (!read_at(image, named->p_offset, loader, named->p_filesz))
		return EIO;
	if (loader[named->p_filesz - 1])
		return ENOEXEC;
	return access(loader, X_OK) ? errno : 0;
}

/* Why no zygote can be made of an ELF file of this machine. */
static void find_refusals(const struct image *image, const char *loader, char reasons[HWSP_REASON_BYTES])
{
	const char *name = strrchr(loader, '/');

	if (!*loader)
		hwsp_add_reason(reasons, "it is linked statically");
	else if (!name || strncmp(name, "/ld-linux", 9))
		hwsp_add_reason(reasons, "its loader is not glibc's");
	if (*loader && !needs_libc(image))
		hwsp_add_reason(reasons, "it is not linked with the C library itself");
}

int hwsp_elf(int fd, char reasons[HWSP_REASON_BYTES])
{
	struct image image = {.fd = fd};
	char loader[PATH_MAX];

	if (!read_at(&image, 0, &image.header, sizeof image.header) || memcmp(image.header.e_ident, ELFMAG, SELFMAG))
		return ENOEXEC;
	if (image.header.e_ident[EI_CLASS] != ELFCLASS64 || image.header.e_machine != MACHINE) {
		/* The kernel may run it by another loader, which exec will find. */
		hwsp_add_reason(reasons, "it is for another kind of processor");
		return 0;
	}
	size_t bytes = image.header.e_phnum * sizeof *image.segments;
	if ((image.header.e_type != ET_EXEC && image.header.e_type != ET_DYN) || !bytes || bytes > SEGMENTS_BYTES_MAX ||
		image.header.e_phentsize != sizeof *image.segments)
		return ENOEXEC;
	image.segments = malloc(bytes);
	if (!image.segments)
		return ENOMEM;
	int error = read_at(&image, image.header.e_phoff, image.segments, bytes) ? find_loader(&image, loader)
										 : ENOEXEC;
	if (!error)
		find_refusals(&image, loader, reasons);
	free(image.segments);
	return error;
}
