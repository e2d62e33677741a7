/* An object's tables, as the loader sees them. */
#ifndef HW_OBJECTS_H
#define HW_OBJECTS_H

#include <elf.h>
#include <link.h>

#include "front.h"

struct hw_symbols {
	const ElfW(Sym) *all;
	const char *strings;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
	const ElfW(Rela) *relocations, *jumps;
	size_t relocation_bytes, jump_bytes;
};

/* False: the object has no symbols that could be looked for. */
bool hw_symbols_of(const struct dl_phdr_info *info, struct hw_symbols *symbols);
/* The symbol of a function that the object defines, or NULL. */
const ElfW(Sym) *hw_symbol(const struct hw_symbols *symbols, const char *name);

#endif
