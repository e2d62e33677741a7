/* A process's identity in /proc: sets in the kernel where arguments and environment are. */
#include "zygote.h"

#include <errno.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Different places for so many processes of a zygote, in a mixed order: an odd factor gives each number once. */
#define PLACES 4096u
#define SCATTER 2654435761u
/* The distance of places on the stack, whose alignment it is, and the part of the stack's limit that they may take. */
#define STACK_STEP 16
#define STACK_PART 128

/* The parts of this process, as the kernel has them. */
static struct prctl_mm_map parts;

static bool set_parts(void)
{
	return prctl(PR_SET_MM, PR_SET_MM_MAP, &parts, sizeof parts, 0) == 0;
}

/* Not the C library's value, which the program's own allocator may not have set yet. */
static unsigned long program_break(void)
{
	return (unsigned long)syscall(SYS_brk, 0);
}

bool hwsp_process_identity_prepare(void)
{
	/* Fields of /proc/self/stat, counted from 1 as in proc(5). */
	enum {
		START_CODE = 26,
		END_CODE = 27,
		START_STACK = 28,
		START_DATA = 45,
		END_DATA,
		START_BRK,
		ARG_START,
		ARG_END,
		ENV_START,
		ENV_END,
		FIELDS = ENV_END + 2
	};
	unsigned long field[FIELDS] = {0};
	char text[2048];

	if (hwsp_read_text("/proc/self/stat", text, sizeof text) <= 0)
		return false;
	/* The second field is a name in parentheses, and may contain some itself. */
	char *at = strrchr(text, ')');
	at = at ? strchr(at + 2, ' ') : NULL;
	for (int number = 4; at && number < FIELDS; number++)
		field[number] = strtoul(at, &at, 10);
	parts = (struct prctl_mm_map){.start_code = field[START_CODE],
		.end_code = field[END_CODE],
		.start_data = field[START_DATA],
		.end_data = field[END_DATA],
		.start_brk = field[START_BRK],
		.brk = program_break(),
		.start_stack = field[START_STACK],
		.arg_start = field[ARG_START],
		.arg_end = field[ARG_END],
		.env_start = field[ENV_START],
		.env_end = field[ENV_END],
		.exe_fd = (unsigned)-1};
	return set_parts();
}

/* Copies the strings of a list to `at`, and their addresses to `list`. Returns the end of the strings. */
static char *copy_list(char *const *from, char **list, char *at)
{
	while (*from) {
		size_t length = strlen(*from) + 1;
		memcpy(at, *from++, length);
		*list++ = at;
		at += length;
	}
	*list = NULL;
	return at;
}

static size_t measure(char *const *list, size_t *count)
{
	size_t bytes = 0;
	for (*count = 0; list[*count]; ++*count)
		bytes += strlen(list[*count]) + 1;
	return bytes;
}

/* The list of arguments with all that follows on a new stack: the list of the environment, the auxiliary vector, the
 * strings. Before it is how many arguments there are. NULL: there is no memory. */
static char **make_image(const struct pspawn_process *process, size_t *arguments)
{
	size_t variables;
	size_t bytes = measure(process->argv, arguments) + measure(process->envp, &variables);
	size_t lists = (1 + *arguments + 1 + variables + 1) * sizeof(char *);
	bool at_load = hwsp_zygote.stop == PSPAWN_STOP_LOAD;

	bytes += lists + hwsp_zygote.vector_bytes;
	char **image = at_load ? hwsp_load_room(bytes)
			       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (image == MAP_FAILED)
		return NULL;
	char **list = image + 1, *vector = (char *)image + lists, *strings = vector + hwsp_zygote.vector_bytes;
	*(size_t *)image = *arguments;
	memcpy(vector, hwsp_zygote.vector, hwsp_zygote.vector_bytes);
	char *end = copy_list(process->argv, list, strings);
	parts.arg_start = (unsigned long)strings;
	parts.arg_end = parts.env_start = (unsigned long)end;
	parts.env_end = (unsigned long)copy_list(process->envp, list + *arguments + 1, end);
	if (at_load) {
		parts.start_stack = (unsigned long)image;
		hwsp_load_name(list[0]);
	}
	return list;
}

size_t hwsp_heap_shift(void)
{
	return hwsp_zygote.made * SCATTER % PLACES;
}

size_t hwsp_stack_shift(void)
{
	struct rlimit stack;
	size_t bytes = hwsp_heap_shift() * STACK_STEP;
	size_t most = getrlimit(RLIMIT_STACK, &stack) ? 0 : stack.rlim_cur / STACK_PART;

	return bytes < most ? bytes : most ? bytes % most & ~(size_t)(STACK_STEP - 1) : 0;
}

bool hwsp_process_identity_set(const struct pspawn_process *process)
{
	size_t arguments;
	char **list = make_image(process, &arguments);

	if (!list)
		return false;
	bool is_unused = hwsp_zygote.stop == PSPAWN_STOP_LOAD && program_break() == parts.start_brk;
	if (is_unused)
		parts.start_brk += hwsp_heap_shift() * getauxval(AT_PAGESZ);
	parts.brk = is_unused ? parts.start_brk : program_break();
	/* A limit of data that is exceeded already makes it impossible, but the program can do without. */
	set_parts();
	hwsp_load_renew_random();
	hwsp_zygote.argc = (int)arguments;
	hwsp_zygote.argv = list;
	/* Before the constructors, the C library reads the arguments itself. */
	if (hwsp_zygote.stop == PSPAWN_STOP_LOAD)
		return true;
	environ = list + arguments + 1;
	if (arguments) {
		char *slash = strrchr(list[0], '/');
		program_invocation_name = list[0];
		program_invocation_short_name = slash ? slash + 1 : list[0];
	}
	return true;
}
