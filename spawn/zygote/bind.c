/*
 * Binds this library's calls to the C library itself, past all libraries that interpose. Before the first constructor
 * has run, a sanitizer's or a tracer's functions of the same names would initialize their libraries in the zygote, once
 * for all processes.
 *
 * The loader has bound this library's calls as it binds the program's, so each is bound again, to the C library's own
 * function. Memory allocation is the exception: the program chooses it, and it isn't used here. No function is called
 * here, because none can be yet.
 */
#include "zygote.h"

#if defined(__x86_64__)

#include <elf.h>
#include <link.h>

/* A loop over characters is to stay one. */
#pragma GCC optimize("no-tree-loop-distribute-patterns")

/* The path of this library. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static bool is_libc(const char *path)
{
	const char *name = path;
	for (; *path; path++)
		name = *path == '/' ? path + 1 : name;
	return same(name, "libc.so.6");
}

uintptr_t hwsp_dynamic_address(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag, uintptr_t base)
{
	for (; dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == tag)
			return dynamic->d_un.d_ptr + (dynamic->d_un.d_ptr < base ? base : 0);
	return 0;
}

size_t hwsp_dynamic_size(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag)
{
	for (; dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == tag)
			return dynamic->d_un.d_val;
	return 0;
}

/* The C library, as far as a search needs it. */
struct names {
	uintptr_t base;
	const uint32_t *hash; /* DT_GNU_HASH */
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
};

static bool find_libc(struct names *libc)
{
	const struct link_map *map = _r_debug.r_map;

	while (map && !(map->l_name && is_libc(map->l_name)))
		map = map->l_next;
	if (!map)
		return false;
	*libc = (struct names){
		map->l_addr,
		(const uint32_t *)hwsp_dynamic_address(map->l_ld, DT_GNU_HASH, map->l_addr),
		(const ElfW(Sym) *)hwsp_dynamic_address(map->l_ld, DT_SYMTAB, map->l_addr),
		(const char *)hwsp_dynamic_address(map->l_ld, DT_STRTAB, map->l_addr),
		(const ElfW(Half) *)hwsp_dynamic_address(map->l_ld, DT_VERSYM, map->l_addr),
	};
	return libc->hash && libc->symbols && libc->strings && libc->versions;
}

/* A function's address, or 0. */
static uintptr_t look_up(const struct names *libc, const char *name)
{
	const uint32_t buckets = libc->hash[0], first = libc->hash[1], words = libc->hash[2];
	const uint32_t *bucket = libc->hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;
	uint32_t hash = 5381;

	for (const char *at = name; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	uint32_t number = buckets ? bucket[hash % buckets] : 0;
	for (; number >= first; number++) {
		const ElfW(Sym) *symbol = &libc->symbols[number];
		unsigned type = ELF64_ST_TYPE(symbol->st_info);
		/* Of several versions the one that is not hidden. */
		if ((chain[number - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
			(type == STT_FUNC || type == STT_GNU_IFUNC) && !(libc->versions[number] & 0x8000) &&
			same(libc->strings + symbol->st_name, name)) {
			uintptr_t address = libc->base + symbol->st_value;
			return type == STT_GNU_IFUNC ? ((uintptr_t(*)(void))address)() : address;
		}
		if (chain[number - first] & 1)
			break;
	}
	return 0;
}

static bool is_memory(const char *name)
{
	static const char *const names[] = {"malloc", "calloc", "realloc", "free"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (same(names[i], name))
			return true;
	return false;
}

static void bind_all(const struct names *libc, const ElfW(Rela) * relocation, size_t bytes)
{
	const uintptr_t base = (uintptr_t)__ehdr_start;
	const ElfW(Sym) *symbols = (const ElfW(Sym) *)hwsp_dynamic_address(_DYNAMIC, DT_SYMTAB, base);
	const char *strings = (const char *)hwsp_dynamic_address(_DYNAMIC, DT_STRTAB, base);

	for (const ElfW(Rela) *end = relocation + bytes / sizeof *relocation; relocation < end; relocation++) {
		unsigned type = ELF64_R_TYPE(relocation->r_info);
		const char *name = strings + symbols[ELF64_R_SYM(relocation->r_info)].st_name;
		uintptr_t found = 0;
		if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) && !is_memory(name))
			found = look_up(libc, name);
		if (found)
			*(uintptr_t *)(base + relocation->r_offset) = found;
	}
}

/* True if "SOCKET STOP NAME" requests that this process stop before all constructors. */
static bool is_wanted(char *const *envp)
{
	static const char variable[] = HWSP_ZYGOTE_VARIABLE "=";

	for (; *envp; envp++) {
		const char *at = *envp;
		size_t length = 0;
		while (variable[length] && at[length] == variable[length])
			length++;
		if (variable[length])
			continue;
		for (at += length; *at >= '0' && *at <= '9'; at++)
			;
		return at[0] == ' ' && at[1] == '0' + PSPAWN_STOP_LOAD && at[2] == ' ';
	}
	return false;
}

void hwsp_bind(char *const *envp)
{
	const uintptr_t base = (uintptr_t)__ehdr_start;
	struct names libc;

	if (!is_wanted(envp) || !find_libc(&libc))
		return;
	bind_all(&libc, (const ElfW(Rela) *)hwsp_dynamic_address(_DYNAMIC, DT_RELA, base),
		hwsp_dynamic_size(_DYNAMIC, DT_RELASZ));
	bind_all(&libc, (const ElfW(Rela) *)hwsp_dynamic_address(_DYNAMIC, DT_JMPREL, base),
		hwsp_dynamic_size(_DYNAMIC, DT_PLTRELSZ));
}

#else

void hwsp_bind(char *const *envp)
{
	(void)envp;
}

#endif
