/* A zygote that stops when the loader has done its work, before the first constructor. So each process runs its
 * constructors itself: what they read, draw, open and start is its own.
 *
 * This library's constructor is the first of all (-z initfirst). It switches to a stack of its own and makes
 * processes from there. Each writes the kernel's start data (arguments, environment, auxiliary vector) to the
 * bottom of its first stack and renews what the loader has drawn. Then it returns into the loader, where that reads
 * the data and calls all constructors. */
#include "zygote.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RANDOM_BYTES 16
/* Size of a chunk of requests. */
#define CHUNK_BYTES (1u << 20)

static struct {
	uintptr_t top; /* where the zygote's own image begins, with the number of its arguments */
	char **argv;   /* of the zygote, which the loader has stored */
	void *image;   /* what a process's program begins with */
	void *enter;   /* in the loader */
	char *stack;   /* on which requests are served */
} load;

void hwsp_load_renew_random(void)
{
	unsigned char bytes[RANDOM_BYTES];
	void *shown = (void *)getauxval(AT_RANDOM);

	if (!shown)
		return;
	if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != sizeof bytes) {
		/* Early after the machine's start: at least different, as far as the previous value is random. */
		struct timespec now = {0};
		clock_gettime(CLOCK_MONOTONIC, &now);
		uint64_t own[] = {
			(uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u, (uint64_t)getpid() * 0xbf58476d1ce4e5b9u};
		memcpy(bytes, shown, sizeof bytes);
		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] ^= ((unsigned char *)own)[i];
	}
	memcpy(shown, bytes, sizeof bytes);
}

void *hwsp_load_room(size_t bytes)
{
	load.image = (void *)((load.top - bytes - hwsp_stack_shift()) & ~(uintptr_t)15);
	return load.image;
}

void hwsp_load_name(char *name)
{
	load.argv[0] = name;
}

/* Requests are allocated outside of the heap, which is the program's, and which a library may manage that has not
 * been initialized. */
struct chunk {
	struct chunk *next;
	size_t bytes, used;
};
static struct chunk *chunks;

void hwsp_load_forget_requests(void)
{
	while (chunks) {
		struct chunk *next = chunks->next;
		munmap(chunks, chunks->bytes);
		chunks = next;
	}
}

#if defined(__x86_64__)

static void *allocate(size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (!chunks || bytes > chunks->bytes - chunks->used) {
		size_t whole = sizeof *chunks + 16 + bytes > CHUNK_BYTES ? sizeof *chunks + 16 + bytes : CHUNK_BYTES;
		struct chunk *chunk = mmap(NULL, whole, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (chunk == MAP_FAILED)
			return NULL;
		*chunk = (struct chunk){chunks, whole, (sizeof *chunk + 15) & ~(size_t)15};
		chunks = chunk;
	}
	void *taken = (char *)chunks + chunks->used;
	chunks->used += bytes;
	return taken;
}

static void release(void *taken)
{
	(void)taken;
}

#define STACK_BYTES (256u << 10)

/* The code by which the loader calls all constructors and then the program: the end of _dl_start_user in glibc's
 * sysdeps/x86_64/dl-machine.h, the same from 2.19 on. ANY matches bytes of addresses. The first stack begins at %rsp
 * and %r13, %rdx and %rsi are the number of arguments, and the program begins at %r12. */
#define ANY -1, -1, -1, -1
static const int16_t loader_code[] = {
	0x48, 0x83, 0xe4, 0xf0,       /* and $-16, %rsp */
	0x48, 0x8b, 0x3d, ANY,        /* mov _rtld_global(%rip), %rdi: the program's link map */
	0x49, 0x8d, 0x4c, 0xd5, 0x10, /* lea 16(%r13, %rdx, 8), %rcx */
	0x49, 0x8d, 0x55, 0x08,       /* lea 8(%r13), %rdx */
	0x31, 0xed,                   /* xor %ebp, %ebp */
	0xe8, ANY,                    /* call _dl_init */
	0x48, 0x8d, 0x15, ANY,        /* lea _dl_fini(%rip), %rdx */
	0x4c, 0x89, 0xec,             /* mov %r13, %rsp */
	0x41, 0xff, 0xe4,             /* jmp *%r12 */
};
#define CODE_BYTES (sizeof loader_code / sizeof loader_code[0])
/* The begin and the end of the operand of its first move with an address, and the call's return address. */
enum { MAP_OPERAND = 7, MAP_END = 11, RETURN = 27 };

/* True if the loader's executable part has these bytes. */
static bool is_loaders_code(const unsigned char *at)
{
	const Elf64_Ehdr *loader = (const Elf64_Ehdr *)getauxval(AT_BASE);
	if (!loader || memcmp(loader->e_ident, ELFMAG, SELFMAG))
		return false;
	const Elf64_Phdr *segments = (const Elf64_Phdr *)((const char *)loader + loader->e_phoff);
	for (unsigned i = 0; i < loader->e_phnum; i++) {
		const unsigned char *begin = (const unsigned char *)loader + segments[i].p_vaddr;
		if (segments[i].p_type == PT_LOAD && segments[i].p_flags & PF_X && at >= begin &&
			at + CODE_BYTES <= begin + segments[i].p_memsz)
			return true;
	}
	return false;
}

/* Finds where the loader, which is calling constructors, is about to continue. Returns NULL if its code is unknown. */
static void *find_entry(void)
{
	/* It has aligned its stack for the call, and that has left behind where it returns to. */
	unsigned char *at = ((unsigned char **)(load.top & ~(uintptr_t)15))[-1] - RETURN;
	int32_t distance;

	if (!is_loaders_code(at))
		return NULL;
	for (size_t i = 0; i < CODE_BYTES; i++)
		if (loader_code[i] >= 0 && loader_code[i] != at[i])
			return NULL;
	memcpy(&distance, at + MAP_OPERAND, sizeof distance);
	return *(struct link_map **)(at + MAP_END + distance) == _r_debug.r_map ? at : NULL;
}

/* An auditing library is initialized before the program is loaded. Headwater's own has nothing to initialize. */
static bool is_audited_by_others(char *const *envp)
{
	static const char variable[] = "LD_AUDIT=", own[] = "libheadwater-audit.so";

	for (const ElfW(Dyn) *entry = _r_debug.r_map->l_ld; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_AUDIT || entry->d_tag == DT_DEPAUDIT)
			return true;
	while (*envp && strncmp(*envp, variable, sizeof variable - 1))
		envp++;
	for (const char *list = *envp ? *envp + sizeof variable - 1 : ""; *list;) {
		size_t length = strcspn(list, ":");
		if (length &&
			(length < sizeof own - 1 || memcmp(list + length - (sizeof own - 1), own, sizeof own - 1)))
			return true;
		list += length + (list[length] == ':');
	}
	return false;
}

/* This library moves to the end of the list of loaded objects: some libraries check whether they are the first. */
static void move_last(void)
{
	struct link_map *own = _r_debug.r_map, *last = own;

	while (own && own->l_ld != _DYNAMIC)
		own = own->l_next;
	while (last->l_next)
		last = last->l_next;
	if (!own || own == last || !own->l_prev)
		return;
	own->l_prev->l_next = own->l_next;
	own->l_next->l_prev = own->l_prev;
	own->l_prev = last;
	own->l_next = NULL;
	last->l_next = own;
}

/* The program, from its first constructor on. The loader's stack below the image is dead, and so is this one. */
__attribute__((noreturn)) static void enter(void)
{
	const uint64_t *random = (const uint64_t *)getauxval(AT_RANDOM);
	void *entry = (void *)getauxval(AT_ENTRY);
	/* As the loader derives them: a guard's first byte ends strings. Nothing was mangled with the one of
	 * pointers. No function may be called from here on, which would use these registers. */
	register uint64_t stack_guard __asm__("r8") = random[0] & ~(uint64_t)0xff;
	register uint64_t pointer_guard __asm__("r9") = random[1];
	register void *program __asm__("r12") = entry;
	register void *image __asm__("r13") = load.image;
	register void *loader __asm__("r14") = load.enter;

	__asm__ volatile("mov %[stack_guard], %%fs:0x28\n\t"
			 "mov %[pointer_guard], %%fs:0x30\n\t"
			 "mov %[image], %%rsp\n\t"
			 "syscall\n\t"
			 "mov (%%rsp), %%rdx\n\t"
			 "mov %%rdx, %%rsi\n\t"
			 "jmp *%[loader]"
			 :
			 : [stack_guard] "r"(stack_guard), [pointer_guard] "r"(pointer_guard), [image] "r"(image),
			 [loader] "r"(loader), "r"(program), "a"((long)SYS_munmap), "D"(load.stack),
			 "S"((size_t)STACK_BYTES)
			 : "rcx", "r11", "rdx", "memory");
	__builtin_unreachable();
}

__attribute__((noreturn)) static void serve(void)
{
	hwsp_zygote_serve();
	errno = 0;
	enter();
}

static const char *prepare_stop(int argc, char **argv, char *const *envp)
{
	load.argv = argv;
	load.top = (uintptr_t)(argv - 1);
	/* The C library's first constructor sets it. */
	if (environ)
		return "another of its libraries begins before all others";
	if (is_audited_by_others(envp))
		return "a library that audits the loader has begun before it";
	load.enter = *(long *)load.top == argc ? find_entry() : NULL;
	if (!load.enter)
		return "its loader is none of glibc's that are known: it can be stopped before main alone";
	load.stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	return load.stack == MAP_FAILED ? "there is no memory for a stack" : NULL;
}

void hwsp_load_stop(int argc, char **argv, char *const *envp)
{
	const char *reason = prepare_stop(argc, argv, envp);
	if (reason)
		hwsp_zygote_refuse(HWSP_UNFAITHFUL, "%s", reason);
	hwsp_memory = (struct hwsp_memory){allocate, release};
	move_last();
	__asm__ volatile("mov %[top], %%rsp\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "call *%[serve]"
			 :
			 : [top] "r"(load.stack + STACK_BYTES), [serve] "r"(serve)
			 : "memory");
	__builtin_unreachable();
}

#else

void hwsp_load_stop(int argc, char **argv, char *const *envp)
{
	(void)argc, (void)argv, (void)envp;
	hwsp_zygote_refuse(HWSP_UNFAITHFUL, "on this kind of processor a program can be stopped before main alone");
}

#endif
