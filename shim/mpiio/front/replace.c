/*
 * Leads calls of an object's functions elsewhere without standing before them by name: a program that asks whether a
 * function is there (by a weak reference or dlsym) gets the answer that it would have got.
 */
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
	struct hw_replacement *all;
	size_t count;
};

/* Sets the protection of the pages of a range; not by a function that somebody stands before. */
static bool protect(uintptr_t address, size_t bytes, int protection)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = address & ~(page - 1);
	return syscall(SYS_mprotect, first, address + bytes - first, protection) == 0;
}

/* How the segment with this address is mapped; relocated tables are read-only once the loader is done. */
static int protection_of(const struct dl_phdr_info *info, uintptr_t address)
{
	int protection = 0;

	for (unsigned int at = 0; at < info->dlpi_phnum; at++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;
		if (address < start || address >= start + segment->p_memsz)
			continue;
		if (segment->p_type == PT_GNU_RELRO)
			return PROT_READ;
		if (segment->p_type == PT_LOAD)
			protection = (segment->p_flags & PF_R ? PROT_READ : 0) | (segment->p_flags & PF_W ? PROT_WRITE : 0) |
				     (segment->p_flags & PF_X ? PROT_EXEC : 0);
	}
	return protection;
}

/* Writes a word where the object may be read-only. */
static void set_word(const struct dl_phdr_info *info, uintptr_t address, uintptr_t value)
{
	int protection = protection_of(info, address);

	if (protection == 0 || (!(protection & PROT_WRITE) && !protect(address, sizeof(value), protection | PROT_WRITE)))
		return;
	__atomic_store_n((uintptr_t *)address, value, __ATOMIC_RELEASE);
	if (!(protection & PROT_WRITE))
		protect(address, sizeof(value), protection);
}

static int replace_symbols(struct dl_phdr_info *info, size_t size, void *of)
{
	struct work *work = of;
	struct hw_symbols symbols;

	(void)size;
	if (info->dlpi_addr != work->base || !hw_symbols_of(info, &symbols))
		return 0;
	for (size_t at = 0; at < work->count; at++) {
		struct hw_replacement *one = &work->all[at];
		const ElfW(Sym) *symbol = hw_symbol(&symbols, one->name);
		if (symbol == NULL)
			continue;
		one->original = (void *)(work->base + symbol->st_value);
		set_word(info, (uintptr_t)&symbol->st_value, (uintptr_t)one->call - work->base);
	}
	return 1;
}

#ifdef IS_ADDRESS
/* Spares most names the comparison with all. */
static bool may_be_one(const char *name)
{
	return strncmp(name + (name[0] == 'P'), "MPI_", 4) == 0 || strncmp(name, "_gfortran_", 10) == 0;
}

static void replace_in(const struct dl_phdr_info *info, const struct work *work, const struct hw_symbols *symbols,
		       const ElfW(Rela) *entries, size_t bytes)
{
	for (size_t at = 0; entries != NULL && at < bytes / sizeof(*entries); at++) {
		const char *name = symbols->strings + symbols->all[ELF64_R_SYM(entries[at].r_info)].st_name;
		if (!IS_ADDRESS(ELF64_R_TYPE(entries[at].r_info)) || entries[at].r_addend != 0 || !may_be_one(name))
			continue;
		uintptr_t place = info->dlpi_addr + entries[at].r_offset;
		void *bound = __atomic_load_n((void **)place, __ATOMIC_RELAXED);
		for (size_t of = 0; of < work->count; of++) {
			if (work->all[of].original == bound && bound != NULL) {
				set_word(info, place, (uintptr_t)work->all[of].call);
				break;
			}
		}
	}
}

static int replace_bound(struct dl_phdr_info *info, size_t size, void *of)
{
	const struct work *work = of;
	struct hw_symbols symbols;

	(void)size;
	if (info->dlpi_addr == work->base || info->dlpi_addr == work->except || info->dlpi_addr == hw_front_base() ||
	    !hw_symbols_of(info, &symbols))
		return 0;
	replace_in(info, work, &symbols, symbols.relocations, symbols.relocation_bytes);
	replace_in(info, work, &symbols, symbols.jumps, symbols.jump_bytes);
	return 0;
}
#endif

void hw_replace(uintptr_t base, uintptr_t except, struct hw_replacement *all, size_t count)
{
	struct work work = { base, except, all, count };

	/* In this order: what is bound meanwhile is bound to the new ones. */
	dl_iterate_phdr(replace_symbols, &work);
#ifdef IS_ADDRESS
	dl_iterate_phdr(replace_bound, &work);
#endif
}
