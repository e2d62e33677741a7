/* A program that contains its MPI: its calls don't pass by the loader, so nothing here sees them. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "front.h"

/* Returns true if the range lies in the file. */
static bool is_within(uint64_t offset, uint64_t bytes, uint64_t file_bytes)
{
	return offset <= file_bytes && bytes <= file_bytes - offset;
}

static bool has_name(const char *strings, uint64_t strings_bytes, uint64_t at, const char *name)
{
	size_t length = strlen(name) + 1;
	return is_within(at, length, strings_bytes) && memcmp(strings + at, name, length) == 0;
}

/* Returns true if the file's full table of symbols, which stripped programs lack, defines the function. */
static bool defines(const unsigned char *file, uint64_t bytes, const char *name)
{
	const ElfW(Ehdr) *header = (const void *)file;
	if (bytes < sizeof(*header) || memcmp(file, ELFMAG, SELFMAG) != 0 ||
		header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_shoff % sizeof(uint64_t) != 0 ||
		!is_within(header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr)), bytes))
		return false;
	const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
	for (unsigned int at = 0; at < header->e_shnum; at++) {
		const ElfW(Shdr) *table = &sections[at];
		if (table->sh_type != SHT_SYMTAB || table->sh_link >= header->e_shnum ||
			table->sh_offset % sizeof(uint64_t) != 0 || !is_within(table->sh_offset, table->sh_size, bytes))
			continue;
		const ElfW(Shdr) *strings = &sections[table->sh_link];
		if (!is_within(strings->sh_offset, strings->sh_size, bytes))
			continue;
		const ElfW(Sym) *symbols = (const void *)(file + table->sh_offset);
		for (uint64_t i = 0; i < table->sh_size / sizeof(*symbols); i++)
			if (symbols[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
				has_name((const char *)file + strings->sh_offset, strings->sh_size, symbols[i].st_name,
					name))
				return true;
	}
	return false;
}

bool hwio_program_contains(const char *name)
{
	struct stat status;
	bool is_there = false;
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	if (fstat(file, &status) == 0 && status.st_size > 0) {
		void *content = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
		if (content != MAP_FAILED) {
			is_there = defines(content, (uint64_t)status.st_size, name);
			munmap(content, (size_t)status.st_size);
		}
	}
	close(file);
	return is_there;
}
