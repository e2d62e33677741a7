/* Calls that no stub can forward: those with a variable list of arguments, which become calls with a vector; and vfork,
 * which returns twice into its caller's frame. */
#include <stdarg.h>

#include "front.h"
#include "slots.h"

typedef int (*by_vector)(const char *, char *const[]);
typedef int (*by_vector_and_environment)(const char *, char *const[], char *const[]);

/* Counts the arguments of a list, including the first and the last NULL. */
static size_t count(va_list list)
{
	size_t arguments = 2;

	while (va_arg(list, char *) != NULL)
		arguments++;
	return arguments;
}

/* A local array suffices: the kernel refuses more arguments than a stack has space for. */
#define VECTOR(vector, first) \
	va_list list; \
	va_start(list, first); \
	size_t arguments = first == NULL ? 1 : count(list); \
	va_end(list); \
	char *vector[arguments]; \
	va_start(list, first); \
	vector[0] = (char *)first; \
	for (size_t at = 1; at < arguments; at++) \
	vector[at] = va_arg(list, char *)

HWIO_EXPORT int hwio_front_execl(const char *path, const char *first, ...) __asm__("execl");
int hwio_front_execl(const char *path, const char *first, ...)
{
	VECTOR(vector, first);
	va_end(list);
	return ((by_vector)hwio_slot(HWIO_SLOT_execv))(path, vector);
}

HWIO_EXPORT int hwio_front_execlp(const char *file, const char *first, ...) __asm__("execlp");
int hwio_front_execlp(const char *file, const char *first, ...)
{
	VECTOR(vector, first);
	va_end(list);
	return ((by_vector)hwio_slot(HWIO_SLOT_execvp))(file, vector);
}

HWIO_EXPORT int hwio_front_execle(const char *path, const char *first, ...) __asm__("execle");
int hwio_front_execle(const char *path, const char *first, ...)
{
	VECTOR(vector, first);
	char *const *environment = va_arg(list, char *const *);
	va_end(list);
	return ((by_vector_and_environment)hwio_slot(HWIO_SLOT_execve))(path, vector, environment);
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	endbr64\n"
	"	subq $8, %rsp\n"
	"	call hwio_front_vfork\n"
	"	addq $8, %rsp\n"
	"	jmp *%rax\n"
	".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	stp x29, x30, [sp, -16]!\n"
	"	bl hwio_front_vfork\n"
	"	ldp x29, x30, [sp], 16\n"
	"	br x0\n"
	".size vfork, . - vfork\n");
#endif
