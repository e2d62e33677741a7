/* Code of a program that runs as it is loaded, before its first constructor: functions that choose between
 * implementations for this processor (IFUNC). They should depend on nothing else; the C library's do not. */
#include "zygote.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#if defined(__x86_64__)

#define CHOOSES_MAX 6

/* True if one of its relocations, in this table, calls a function of its own for the address. */
static bool chooses(const struct link_map *map, ElfW(Sxword) table, ElfW(Sxword) bytes)
{
	const ElfW(Rela) *relocation = (const void *)hwsp_dynamic_address(map->l_ld, table, map->l_addr);
	const ElfW(Sym) *symbols = (const void *)hwsp_dynamic_address(map->l_ld, DT_SYMTAB, map->l_addr);
	size_t count = relocation && symbols ? hwsp_dynamic_size(map->l_ld, bytes) / sizeof *relocation : 0;

	for (size_t i = 0; i < count; i++) {
		const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(relocation[i].r_info)];
		if (ELF64_R_TYPE(relocation[i].r_info) == R_X86_64_IRELATIVE ||
			(symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC))
			return true;
	}
	return false;
}

static bool is_librarys_own(const char *name)
{
	static const char *const names[] = {"libc.so.6", "libm.so.6", "libmvec.so.1", "ld-linux-x86-64.so.2"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

void hwsp_early(char notes[HWSP_REASON_BYTES])
{
	int count = 0;

	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		const char *slash = strrchr(map->l_name, '/');
		const char *name = slash ? slash + 1 : *map->l_name ? map->l_name : "the program";
		bool does = map->l_ld && !is_librarys_own(name) &&
			(chooses(map, DT_RELA, DT_RELASZ) || chooses(map, DT_JMPREL, DT_PLTRELSZ));
		if (does && ++count <= CHOOSES_MAX)
			hwsp_add_reason(notes, "%.64s chooses functions (IFUNC)", name);
	}
	if (count > CHOOSES_MAX)
		hwsp_add_reason(notes, "so do %d more", count - CHOOSES_MAX);
}

#else

void hwsp_early(char notes[HWSP_REASON_BYTES])
{
	(void)notes;
}

#endif
