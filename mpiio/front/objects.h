/* An object's tables, as the loader reads them. */
#ifndef HWIO_OBJECTS_H
#define HWIO_OBJECTS_H

#include <elf.h>
#include <link.h>

#include "front.h"

struct hwio_symbols {
	const ElfW(Sym) * all;
	const char *strings;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
	const ElfW(Rela) * relocations, *jumps;
	size_t relocation_bytes, jump_bytes;
};

/* Finds the object's tables. False: it has no symbols that can be searched. */
bool hwio_symbols_of(const struct dl_phdr_info *info, struct hwio_symbols *symbols);
/* Returns the symbol of a function that the object defines, or NULL. */
const ElfW(Sym) * hwio_symbol(const struct hwio_symbols *symbols, const char *name);

#endif
