/* Replaces libc's functions by the wrappers.
 *
 * A wrapper's address is written over the function's value in libc's dynamic symbol table, in this process's
 * memory, before anything is bound to it. So every reference leads to the wrapper: lazy and immediate PLT slots,
 * -fno-plt code, function pointers in data, dlsym. A definition of the program's or of a preloaded library wins as
 * ever. libc itself calls its functions directly.
 *
 * la_symbind would see only PLT slots and dlsym. The others would have to be patched after each relocation, whose
 * end dlopen does not report. */
#include "loader.h"
#include "sys.h"

#include <sys/mman.h>

#define VERSION_HIDDEN 0x8000

struct hwa_namespace hwa_namespaces[HWA_NAMESPACES];

/* The functions' names, in the order of enum hwa_function. */
static const char names[] =
#define FUNCTION(name) #name "\0"
#include "functions.def"
#undef FUNCTION
	;

struct symbols {
	Elf64_Addr base;
	Elf64_Sym *table;
	const char *strings;
	const uint16_t *versions; /* NULL if there are none */
	const uint32_t *hash;     /* DT_GNU_HASH */
};

const void *hwa_dynamic_address(const struct link_map *map, uint64_t value)
{
	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static bool read_symbols(const struct link_map *map, struct symbols *symbols)
{
	*symbols = (struct symbols){.base = map->l_addr};
	for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		const void *at = hwa_dynamic_address(map, entry->d_un.d_ptr);

		if (entry->d_tag == DT_SYMTAB)
			symbols->table = (Elf64_Sym *)at;
		else if (entry->d_tag == DT_STRTAB)
			symbols->strings = at;
		else if (entry->d_tag == DT_VERSYM)
			symbols->versions = at;
		else if (entry->d_tag == DT_GNU_HASH)
			symbols->hash = at;
	}
	return symbols->table && symbols->strings && symbols->hash;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Calls `visit` for each definition of a function or of an object, in all its versions. */
static void each_version(const struct symbols *symbols, unsigned type, const char *name,
	void (*visit)(Elf64_Sym *symbol, bool hidden, void *context), void *context)
{
	const uint32_t *header = symbols->hash;
	uint32_t bucket_count = header[0], first = header[1], bloom_words = header[2];
	const uint32_t *buckets = header + 4 + (size_t)bloom_words * 2;
	uint32_t hash = gnu_hash(name), index, value;

	if (!bucket_count || (index = buckets[hash % bucket_count]) < first)
		return;
	do {
		Elf64_Sym *symbol = &symbols->table[index];

		value = buckets[bucket_count + index - first];
		if ((value ^ hash) >> 1 == 0 && symbol->st_shndx != SHN_UNDEF &&
			ELF64_ST_TYPE(symbol->st_info) == type && strcmp(symbols->strings + symbol->st_name, name) == 0)
			visit(symbol, symbols->versions && symbols->versions[index] & VERSION_HIDDEN, context);
		index++;
	} while (!(value & 1));
}

struct choice {
	Elf64_Addr value;
	bool found, hidden;
};

/* Returns the default version, or any other if there is none. */
static void choose_version(Elf64_Sym *symbol, bool hidden, void *context)
{
	struct choice *choice = context;

	if (!choice->found || (choice->hidden && !hidden))
		*choice = (struct choice){symbol->st_value, true, hidden};
}

struct replacement {
	Elf64_Addr from, to;
};

/* Other versions get the wrapper, too, if they are the same code; different ones are not changed. */
static void replace(Elf64_Sym *symbol, bool hidden, void *context)
{
	const struct replacement *replacement = context;

	(void)hidden;
	if (symbol->st_value == replacement->from)
		symbol->st_value = replacement->to;
}

/* Returns the protection of the segment with this address. */
static int protection_of(const struct link_map *map, const void *address)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)map->l_addr;
	const Elf64_Phdr *segment = (const Elf64_Phdr *)(map->l_addr + header->e_phoff);

	for (unsigned i = 0; i < header->e_phnum; i++, segment++)
		if (segment->p_type == PT_LOAD && (uint64_t)address - map->l_addr - segment->p_vaddr < segment->p_memsz)
			return (segment->p_flags & PF_R ? PROT_READ : 0) | (segment->p_flags & PF_W ? PROT_WRITE : 0) |
				(segment->p_flags & PF_X ? PROT_EXEC : 0);
	return PROT_READ;
}

static void replace_all(const struct symbols *symbols, int slot)
{
	struct hwa_namespace *ns = &hwa_namespaces[slot];
	const char *name = names;

	for (int function = 0; function < HWA_FUNCTIONS; function++, name += strlen(name) + 1) {
		struct choice choice = {0};

		each_version(symbols, STT_FUNC, name, choose_version, &choice);
		if (!choice.found)
			continue;
		if (!ns->real[function])
			ns->real[function] = (void *)(symbols->base + choice.value);
		Elf64_Addr wrapper = (Elf64_Addr)hwa_wrappers[function][slot];
		struct replacement replacement = {choice.value, wrapper - symbols->base};
		if (wrapper)
			each_version(symbols, STT_FUNC, name, replace, &replacement);
	}
}

static char ***environment_in(const struct symbols *symbols)
{
	struct choice place = {0};

	each_version(symbols, STT_OBJECT, "__environ", choose_version, &place);
	return place.found ? (char ***)(symbols->base + place.value) : NULL;
}

/* A program that uses the variable has a copy of it, which libc uses. */
char **hwa_environment(const struct hwa_namespace *ns)
{
	char ***place = ns->environment;
	struct symbols symbols;

	if (ns->lmid == LM_ID_BASE && hwa_program && read_symbols(hwa_program->map, &symbols)) {
		char ***own = environment_in(&symbols);
		place = own ? own : place;
	}
	return place ? *place : NULL;
}

/* Before glibc 2.34, libdl and libpthread may come before the libc that they need, and that has __errno_location. */
void hwa_redirect(const struct link_map *map, int slot)
{
	struct symbols symbols;
	struct choice location = {0};

	if (!read_symbols(map, &symbols))
		return;
	each_version(&symbols, STT_FUNC, "__errno_location", choose_version, &location);
	if (location.found)
		hwa_namespaces[slot].errno_location = (int *(*)(void))(symbols.base + location.value);
	if (!hwa_namespaces[slot].environment)
		hwa_namespaces[slot].environment = environment_in(&symbols);
	if ((const char *)symbols.table > symbols.strings)
		return;

	/* The symbol table is followed by its strings. */
	uintptr_t start = (uintptr_t)symbols.table & ~(hwa_start.page_bytes - 1);
	size_t bytes = (uintptr_t)symbols.strings - start;
	int protection = protection_of(map, symbols.table);

	if (hwa_sys(__NR_mprotect, start, bytes, PROT_READ | PROT_WRITE) < 0)
		return;
	replace_all(&symbols, slot);
	if (hwa_sys(__NR_mprotect, start, bytes, protection) < 0)
		hwa_sys(__NR_mprotect, start, bytes, PROT_READ);
}
