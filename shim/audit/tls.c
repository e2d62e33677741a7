/* Provides as much static thread-local storage as a plain process has.
 *
 * glibc lays out a plain process's static storage after it has loaded the libraries, so that it has space for theirs
 * and a surplus for later ones. With an audit library, glibc lays it out before, and the libraries of the start-up use
 * the surplus: many could not be loaded, or would leave less for libraries that the program opens. Only a tunable
 * raises the surplus, and glibc reads it at the start. So when the loader has opened the last library, none of whose
 * code has run, the program is executed again with as much more as its libraries use. It finds its environment
 * unchanged.
 *
 * The tunable must be neither larger (the surplus is on every thread's stack) nor smaller. No tunable makes space for a
 * library with a larger alignment than the program's: such a program runs without the audit library. */
#include "loader.h"
#include "sys.h"
#include "wrap/wrap.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#define TUNABLES "GLIBC_TUNABLES="
#define OPTIONAL "glibc.rtld.optional_static_tls="
/* Added to the environment; glibc skips names that it doesn't know. */
#define ADDED ":headwater.static_tls=added:" OPTIONAL
/* The variable whose entry is replaced meanwhile if there are no tunables. */
#define TABLE "HEADWATER_TABLE="

#define AUDIT "LD_AUDIT="

/* glibc's default for the tunable. */
#define OPTIONAL_BYTES 512
/* What glibc adds to the surplus for an audit library, which this one leaves to the program's. */
#define AUDIT_BYTES 288
/* Larger values are not plausible, and glibc counts in an int. */
#define BYTES_MAX ((size_t)64 << 20)

/* TCB_ALIGNMENT: what glibc aligns static storage to at least. */
#if defined(__x86_64__)
#define STATIC_ALIGN 64
#elif defined(__aarch64__)
#define STATIC_ALIGN 16
#endif

#define DECIMAL_DIGITS_MAX 20

static struct {
	char **argv, **envp;
	const char *execfn;
	size_t optional;  /* the tunable that a plain process would have */
	size_t given;     /* the one that this process has */
	size_t bytes;     /* what the libraries take, of those that have been opened */
	size_t align;     /* of static storage */
	unsigned awaited; /* needed names that the loader has not reached */
	bool over;
} tls = {.align = STATIC_ALIGN, .over = true};

/* Values of `known` for a library's name. */
static char awaited, reached;

/* ---- environment ---- */

/* Parses a number as glibc does for a tunable. */
static size_t number(const char *text)
{
	size_t value = 0, base = 10;

	while (*text == ' ' || *text == '\t')
		text++;
	text += *text == '+';
	if (text[0] == '0') {
		bool hexadecimal = text[1] == 'x' || text[1] == 'X';

		base = hexadecimal ? 16 : 8;
		text += hexadecimal ? 2 : 1;
	}
	for (;; text++) {
		size_t digit = *text >= '0' && *text <= '9'              ? (size_t)(*text - '0')
			: (*text | 0x20) >= 'a' && (*text | 0x20) <= 'f' ? (size_t)((*text | 0x20) - 'a' + 10)
									 : base;

		if (digit >= base)
			return value;
		if (value > BYTES_MAX)
			return SIZE_MAX;
		value = value * base + digit;
	}
}

/* Removes from an entry what an earlier execution has added. */
static void restore(char **entry)
{
	char *text = (char *)hwa_after(*entry, TUNABLES), *at = text;
	const char *value;

	while (at && *at && !hwa_after(at, ADDED))
		at++;
	if (!at || !(value = hwa_after(at, ADDED)))
		return;
	tls.given = number(value);
	*at = '\0';
	if (hwa_after(text, TABLE))
		*entry = text;
}

/* The last mention of the tunable counts, of all variables of the name. */
static void read_tunables(const char *entry)
{
	const char *at = hwa_after(entry, TUNABLES), *value;

	while (at) {
		if ((value = hwa_after(at, OPTIONAL)))
			tls.optional = number(value);
		while (*at && *at != ':')
			at++;
		at = *at ? at + 1 : NULL;
	}
}

void hwa_tls_restore(char **envp)
{
	tls.optional = OPTIONAL_BYTES;
	for (char **entry = envp; *entry; entry++) {
		restore(entry);
		read_tunables(*entry);
	}
	if (tls.given < tls.optional)
		tls.given = tls.optional;
}

void hwa_tls_start(char **argv, char **envp, const char *execfn)
{
	tls.argv = argv;
	tls.envp = envp;
	tls.execfn = execfn;
	tls.over = !execfn || !hwa_start.loader_base;
}

void hwa_tls_end(void)
{
	tls.over = true;
}

/* ---- starting again ---- */

/* The entry with the tunable, in new memory; NULL if there is none. */
static char *with_tunable(const char *entry, size_t optional)
{
	const char *tunables = hwa_after(entry, TUNABLES);
	size_t bytes = strlen(tunables ? tunables : entry);
	char *text = hwa_arena(sizeof(TUNABLES) + bytes + sizeof(ADDED) + DECIMAL_DIGITS_MAX), *at = text;

	if (!text)
		return NULL;
	memcpy(at, TUNABLES, sizeof(TUNABLES) - 1);
	at += sizeof(TUNABLES) - 1;
	memcpy(at, tunables ? tunables : entry, bytes);
	at += bytes;
	memcpy(at, ADDED, sizeof(ADDED) - 1);
	at += sizeof(ADDED) - 1;
	*hwa_put_number(at, optional) = '\0';
	return text;
}

/* Executes the same program again. Returns if that fails. */
static void execute_again(void)
{
	struct stat named, running;
	char **argv = tls.argv;

	if (hwa_sys(__NR_newfstatat, AT_FDCWD, tls.execfn, &named, 0) == 0 &&
		hwa_sys(__NR_newfstatat, AT_FDCWD, "/proc/self/exe", &running, 0) == 0) {
		/* What names another file is a script, and an argument of the interpreter: then it is the
		 * script that is executed, of whose arguments the kernel replaces the first. */
		if (named.st_dev != running.st_dev || named.st_ino != running.st_ino)
			while (*argv && (argv == tls.argv || strcmp(*argv, tls.execfn) != 0))
				argv++;
		if (*argv)
			hwa_sys(__NR_execve, tls.execfn, argv, tls.envp);
	}
	hwa_sys(__NR_execve, "/proc/self/exe", tls.argv, tls.envp);
}

/* Executes the program's source file, unaudited. Returns if it can't. */
static void start_unaudited(void)
{
	char **slot = tls.envp, *saved, *text;

	while (*slot && !hwa_after(*slot, AUDIT))
		slot++;
	text = *slot ? hwa_arena(strlen(*slot) + 1) : NULL;
	if (!text)
		return;
	hwa_bare_variable(hwa_after(*slot, AUDIT), text);
	saved = *slot;
	*slot = text;
	if (*hwa_start.executable)
		hwa_sys(__NR_execve, hwa_start.executable, tls.argv, tls.envp);
	else
		execute_again();
	*slot = saved;
}

static void start_again(size_t optional)
{
	char **slot = NULL, *saved, *text;

	/* The last of all tunables, since the last one is effective. */
	for (char **entry = tls.envp; *entry; entry++)
		if (hwa_after(*entry, TUNABLES) || (hwa_after(*entry, TABLE) && !(slot && hwa_after(*slot, TUNABLES))))
			slot = entry;
	text = slot ? with_tunable(*slot, optional) : NULL;
	if (!text)
		return;
	saved = *slot;
	*slot = text;
	execute_again();
	*slot = saved;
}

/* ---- libraries ---- */

void hwa_tls_settle(void)
{
	size_t optional = tls.optional + tls.bytes - AUDIT_BYTES;

	if (tls.over || tls.awaited || tls.bytes <= AUDIT_BYTES || tls.bytes > BYTES_MAX || tls.optional > BYTES_MAX ||
		optional <= tls.given)
		return;
	tls.given = optional;
	start_again(optional);
}

/* Returns the interned name, with its NUL to distinguish it from a directory; NULL if the loader will change it. */
static struct hwa_interned *name_of(const char *name)
{
	return strchr(name, '$') ? NULL : hwa_intern(name, strlen(name) + 1);
}

void hwa_tls_reached(const char *name)
{
	struct hwa_interned *library = tls.over ? NULL : name_of(name);

	if (!library)
		return;
	if (library->known == &awaited)
		tls.awaited--;
	library->known = &reached;
}

static void await(const char *name)
{
	struct hwa_interned *library = name_of(name);

	if (!library || library->known)
		return;
	library->known = &awaited;
	tls.awaited++;
}

/* Returns true if the object's first page, which usually has its ELF header, is mapped. The linker puts the hash and
 * symbol tables right behind the headers, so usually no system call is needed. */
static bool has_first_page(const struct link_map *map)
{
	for (const Elf64_Dyn *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++)
		if ((entry->d_tag == DT_GNU_HASH || entry->d_tag == DT_HASH || entry->d_tag == DT_SYMTAB) &&
			(uintptr_t)hwa_dynamic_address(map, entry->d_un.d_ptr) - map->l_addr < hwa_start.page_bytes)
			return true;
	return hwa_readable(map->l_addr);
}

/* Maximum of examined program headers; no linker makes as many. */
#define SEGMENTS_MAX 64

static bool is_header(const Elf64_Ehdr *header)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_phentsize == sizeof(Elf64_Phdr);
}

/* Reads the program headers from a library's file: tools that edit libraries put them behind all else. Returns their
 * number. */
static size_t read_segments(const char *name, Elf64_Phdr out[SEGMENTS_MAX])
{
	Elf64_Ehdr header;
	long bytes = 0, fd = hwa_sys(__NR_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (hwa_sys(__NR_pread64, fd, &header, sizeof(header), 0) == sizeof(header) && is_header(&header)) {
		unsigned count = header.e_phnum < SEGMENTS_MAX ? header.e_phnum : SEGMENTS_MAX;

		bytes = hwa_sys(__NR_pread64, fd, out, count * sizeof(*out), header.e_phoff);
	}
	hwa_sys(__NR_close, fd);
	return bytes > 0 ? (size_t)bytes / sizeof(*out) : 0;
}

/* Returns an object's thread-local segment; NULL if it has none. */
static const Elf64_Phdr *tls_segment(const struct hwa_object *object)
{
	static Elf64_Phdr read[SEGMENTS_MAX];
	const struct link_map *map = object->map;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)map->l_addr;
	const Elf64_Phdr *segment = read;
	size_t count;

	if (object == hwa_program) {
		segment = hwa_start.segments;
		count = hwa_start.segment_count;
	} else if (has_first_page(map) && is_header(header) && header->e_phoff < hwa_start.page_bytes &&
		header->e_phnum <= (hwa_start.page_bytes - header->e_phoff) / sizeof(*segment)) {
		segment = (const Elf64_Phdr *)(map->l_addr + header->e_phoff);
		count = header->e_phnum;
	} else {
		count = read_segments(map->l_name, read);
	}
	for (size_t i = 0; i < count; i++, segment++)
		if (segment->p_type == PT_TLS && segment->p_memsz && segment->p_memsz <= BYTES_MAX &&
			segment->p_align <= BYTES_MAX)
			return segment;
	return NULL;
}

void hwa_tls_object(const struct hwa_object *object)
{
	const Elf64_Phdr *segment;
	bool is_static = false;

	if (tls.over)
		return;
	hwa_tls_reached(object->map->l_name);
	if (object->soname)
		hwa_tls_reached(object->soname);
	for (const Elf64_Dyn *entry = object->map->l_ld; object->strings && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_NEEDED)
			await(object->strings + entry->d_un.d_val);
		else if (entry->d_tag == DT_FLAGS)
			is_static = entry->d_un.d_val & DF_STATIC_TLS;
	}
	segment = tls_segment(object);
	if (segment && object == hwa_program) {
		/* The program's own storage was laid out before. */
		if (segment->p_align > tls.align)
			tls.align = segment->p_align;
	} else if (segment) {
		size_t align = segment->p_align ? segment->p_align : 1;

		if (is_static && align > tls.align)
			start_unaudited();
		tls.bytes += segment->p_memsz + (segment->p_vaddr & (align - 1)) + align - 1;
	}
	hwa_tls_settle();
}
