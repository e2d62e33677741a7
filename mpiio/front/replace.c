/* Redirects calls of an object's functions without exporting their names. A program that checks by a weak reference or
 * dlsym whether a function exists gets the original answer. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "objects.h"

#if defined(__x86_64__)
#define IS_ADDRESS(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_ADDRESS(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

struct work {
	uintptr_t base, except;
	struct hwio_replacement *all;
	size_t count;
};

/* Pages of an object, and how they are mapped. */
struct pages {
	uintptr_t start, end;
	int protection;
};

/* Sets the protection of pages, by number: mprotect may be interposed. */
static bool protect_code(const struct pages *pages, int protection)
{
	return syscall(SYS_mprotect, pages->start, pages->end - pages->start, protection) == 0;
}

/* Returns the segment of this address; tables of addresses are read-only once the loader is done. */
static struct pages pages_at(const struct dl_phdr_info *info, uintptr_t address)
{
	uintptr_t within = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	struct pages found = {0};

	for (unsigned int at = 0; at < info->dlpi_phnum; at++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
		/* The loader doesn't protect a page of which only a part is to be read-only. */
		if (segment->p_type == PT_GNU_RELRO && address >= start && address < (end & ~within))
			return (struct pages){start & ~within, end & ~within, PROT_READ};
		if (segment->p_type == PT_LOAD && address >= start && address < end)
			found = (struct pages){start & ~within, (end + within) & ~within,
				(segment->p_flags & PF_R ? PROT_READ : 0) | (segment->p_flags & PF_W ? PROT_WRITE : 0) |
					(segment->p_flags & PF_X ? PROT_EXEC : 0)};
	}
	return found;
}

static void restore_protection(struct pages *open)
{
	if (open->end != 0)
		protect_code(open, open->protection);
	*open = (struct pages){0};
}

/* Makes the read-only pages of an address writable, and restores the previous ones. A writable segment may have
 * read-only tables in its middle. */
static bool open_pages(const struct dl_phdr_info *info, struct pages *open, uintptr_t address)
{
	if (address >= open->start && address < open->end)
		return true;
	struct pages pages = pages_at(info, address);
	if (pages.end == 0 || pages.protection & PROT_WRITE)
		return pages.end != 0;
	restore_protection(open);
	if (!protect_code(&pages, pages.protection | PROT_WRITE))
		return false;
	*open = pages;
	return true;
}

static void set_word(const struct dl_phdr_info *info, struct pages *open, uintptr_t address, uintptr_t value)
{
	if (open_pages(info, open, address))
		__atomic_store_n((uintptr_t *)address, value, __ATOMIC_RELEASE);
}

static int replace_symbols(struct dl_phdr_info *info, size_t size, void *of)
{
	struct work *work = of;
	struct pages open = {0};
	struct hwio_symbols symbols;

	(void)size;
	if (info->dlpi_addr != work->base || !hwio_symbols_of(info, &symbols))
		return 0;
	for (size_t at = 0; at < work->count; at++) {
		struct hwio_replacement *one = &work->all[at];
		const ElfW(Sym) *symbol = hwio_symbol(&symbols, one->name);
		if (symbol == NULL)
			continue;
		one->original = (void *)(work->base + symbol->st_value);
		set_word(info, &open, (uintptr_t)&symbol->st_value, (uintptr_t)one->call - work->base);
	}
	restore_protection(&open);
	return 1;
}

#ifdef IS_ADDRESS
/* Returns false for most names at once, without the comparison with all. */
static bool may_be_one(const char *name)
{
	return strncmp(name + (name[0] == 'P'), "MPI_", 4) == 0 || strncmp(name, "_gfortran_", 10) == 0;
}

static void replace_in(const struct dl_phdr_info *info, const struct work *work, const struct hwio_symbols *symbols,
	const ElfW(Rela) * entries, size_t bytes)
{
	struct pages open = {0};

	for (size_t at = 0; entries != NULL && at < bytes / sizeof(*entries); at++) {
		const char *name = symbols->strings + symbols->all[ELF64_R_SYM(entries[at].r_info)].st_name;
		if (!IS_ADDRESS(ELF64_R_TYPE(entries[at].r_info)) || entries[at].r_addend != 0 || !may_be_one(name))
			continue;
		uintptr_t address = info->dlpi_addr + entries[at].r_offset;
		void *bound = __atomic_load_n((void **)address, __ATOMIC_RELAXED);
		for (size_t of = 0; of < work->count; of++) {
			if (work->all[of].original == bound && bound != NULL) {
				set_word(info, &open, address, (uintptr_t)work->all[of].call);
				break;
			}
		}
	}
	restore_protection(&open);
}

static int replace_bound(struct dl_phdr_info *info, size_t size, void *of)
{
	const struct work *work = of;
	struct hwio_symbols symbols;

	(void)size;
	if (info->dlpi_addr == work->base || info->dlpi_addr == work->except || info->dlpi_addr == hwio_front_base() ||
		!hwio_symbols_of(info, &symbols))
		return 0;
	replace_in(info, work, &symbols, symbols.relocations, symbols.relocation_bytes);
	replace_in(info, work, &symbols, symbols.jumps, symbols.jump_bytes);
	return 0;
}
#endif

void hwio_replace(uintptr_t base, uintptr_t except, struct hwio_replacement *all, size_t count)
{
	struct work work = {base, except, all, count};

	/* Symbols first: calls that are bound meanwhile are bound to the new functions. */
	dl_iterate_phdr(replace_symbols, &work);
#ifdef IS_ADDRESS
	dl_iterate_phdr(replace_bound, &work);
#endif
}
