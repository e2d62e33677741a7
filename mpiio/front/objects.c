/* Finds functions in the objects of the process, one by one, by their own symbol tables. dlsym can't distinguish an
 * object's functions from those of its dependencies. */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "objects.h"

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

uintptr_t hwio_front_base(void)
{
	return (uintptr_t)&__ehdr_start;
}

/* Returns a table's address. The loader has relocated these values, but not in objects of the kernel. */
static const void *table_at(uintptr_t base, ElfW(Addr) value)
{
	return (const void *)(value < base ? base + value : value);
}

bool hwio_symbols_of(const struct dl_phdr_info *info, struct hwio_symbols *symbols)
{
	const ElfW(Dyn) *dynamic = NULL;

	*symbols = (struct hwio_symbols){0};
	for (unsigned int at = 0; at < info->dlpi_phnum; at++)
		if (info->dlpi_phdr[at].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[at].p_vaddr);
	for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
		const void *table = table_at(info->dlpi_addr, dynamic->d_un.d_ptr);
		if (dynamic->d_tag == DT_SYMTAB)
			symbols->all = table;
		else if (dynamic->d_tag == DT_STRTAB)
			symbols->strings = table;
		else if (dynamic->d_tag == DT_GNU_HASH)
			symbols->gnu_hash = table;
		else if (dynamic->d_tag == DT_HASH)
			symbols->hash = table;
		else if (dynamic->d_tag == DT_RELA)
			symbols->relocations = table;
		else if (dynamic->d_tag == DT_RELASZ)
			symbols->relocation_bytes = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_JMPREL)
			symbols->jumps = table;
		else if (dynamic->d_tag == DT_PLTRELSZ)
			symbols->jump_bytes = dynamic->d_un.d_val;
	}
	return symbols->all != NULL && symbols->strings != NULL && (symbols->gnu_hash != NULL || symbols->hash != NULL);
}

static bool is_function(const struct hwio_symbols *symbols, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &symbols->all[index];
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE) &&
		strcmp(symbols->strings + symbol->st_name, name) == 0;
}

static const ElfW(Sym) * by_gnu_hash(const struct hwio_symbols *symbols, const char *name)
{
	const uint32_t *table = symbols->gnu_hash;
	uint32_t buckets = table[0], first = table[1], words = table[2];
	const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(table + 4) + words), *chain = bucket + buckets;
	uint32_t hash = 5381;

	for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++)
		hash = hash * 33 + *at;
	if (buckets == 0)
		return NULL;
	for (uint32_t index = bucket[hash % buckets]; index >= first && index != 0; index++) {
		uint32_t value = chain[index - first];
		if ((value | 1) == (hash | 1) && is_function(symbols, index, name))
			return &symbols->all[index];
		if (value & 1)
			break;
	}
	return NULL;
}

static const ElfW(Sym) * by_hash(const struct hwio_symbols *symbols, const char *name)
{
	uint32_t count = symbols->hash[1];

	for (uint32_t index = 1; index < count; index++)
		if (is_function(symbols, index, name))
			return &symbols->all[index];
	return NULL;
}

const ElfW(Sym) * hwio_symbol(const struct hwio_symbols *symbols, const char *name)
{
	return symbols->gnu_hash != NULL ? by_gnu_hash(symbols, name) : by_hash(symbols, name);
}

static void *function_of(const struct dl_phdr_info *info, const char *name)
{
	struct hwio_symbols symbols;
	const ElfW(Sym) * symbol;

	if (info->dlpi_addr == hwio_front_base() || !hwio_symbols_of(info, &symbols))
		return NULL;
	symbol = hwio_symbol(&symbols, name);
	return symbol == NULL ? NULL : (void *)(info->dlpi_addr + symbol->st_value);
}

struct search {
	const char *const *names;
	unsigned int count;
	unsigned int objects;
	struct hwio_object *found;
};

static int defines_all(struct dl_phdr_info *info, size_t size, void *of)
{
	struct search *search = of;

	(void)size;
	for (unsigned int at = 0; at < search->count; at++)
		if (function_of(info, search->names[at]) == NULL)
			return 0;
	if (search->objects++ == 0)
		*search->found = (struct hwio_object){info->dlpi_name, info->dlpi_addr};
	return 0;
}

unsigned int hwio_objects_with(const char *const names[], unsigned int count, struct hwio_object *found)
{
	struct search search = {names, count, 0, found};

	dl_iterate_phdr(defines_all, &search);
	return search.objects;
}

struct request {
	uintptr_t base;
	const char *name;
	void *function;
};

static int is_wanted(struct dl_phdr_info *info, size_t size, void *of)
{
	struct request *request = of;

	(void)size;
	if (request->base == 0 || request->base == info->dlpi_addr)
		request->function = function_of(info, request->name);
	return request->function != NULL;
}

void *hwio_object_function(uintptr_t base, const char *name)
{
	struct request request = {base, name, NULL};

	dl_iterate_phdr(is_wanted, &request);
	return request.function;
}

static int is_wanted_library(struct dl_phdr_info *info, size_t size, void *of)
{
	/* The program's name is empty. */
	return info->dlpi_name[0] != '\0' ? is_wanted(info, size, of) : 0;
}

void *hwio_library_function(const char *name)
{
	struct request request = {0, name, NULL};

	dl_iterate_phdr(is_wanted_library, &request);
	return request.function;
}
